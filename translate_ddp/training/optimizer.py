"""AdamW over the model's parameters, and the learning rate as a pure function of the step."""

import torch
from torch import Tensor, nn

from translate_ddp.settings import OptimizerConfig

BETAS = (0.9, 0.98)  # Vaswani et al. 2017, section 5.3
WEIGHT_DECAY = 0.01  # on matrices only: biases and norms are not shrunk


def learning_rate(step: int, config: OptimizerConfig, progress: float = 0.0) -> float:
    """The rate of the update after `step` finished ones: linear warm-up, then inverse square root.

    In the last part `config.cooldown` of the training, of which `progress` is finished, it also
    falls linearly to 0. Source: Vaswani et al. 2017, eq. 3, scaled so that its peak is `config.lr`.
    """
    update = step + 1
    rate = config.lr * min(update / config.warmup_steps, (config.warmup_steps / update) ** 0.5)
    return rate * min(1.0, (1 - progress) / config.cooldown) if config.cooldown else rate


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices; `Updater` sets the learning rate before each update."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=BETAS, eps=1e-9, fused=True)


def allocate_moments(optimizer: torch.optim.Optimizer) -> None:
    """Allocate the optimizer's state, 8 bytes per parameter, before the first step.

    It changes neither parameters nor state that is already allocated.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    skip_if(torch.ones((), device=parameters[0].device), optimizer)
    optimizer.step()
    del optimizer.found_inf  # type: ignore[attr-defined]
    optimizer.zero_grad()


def check_shapes(optimizer: torch.optim.Optimizer) -> None:
    """Raise ValueError if the moments of a parameter have another shape than the parameter."""
    for parameter, moments in optimizer.state.items():
        for name, moment in moments.items():
            if name != "step" and moment.shape != parameter.shape:
                raise ValueError(f"{name} is {tuple(moment.shape)}, not {tuple(parameter.shape)}.")


def skip_if(flag: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Make the next step do nothing if `flag` is 1.0, without waiting for the device.

    `torch.amp.GradScaler` sets the same attribute of a fused optimizer.
    """
    optimizer.found_inf = flag  # type: ignore[attr-defined]
