"""The optimizer of the model's parameters, and the learning rate as a function of the step."""

import torch
from torch import Tensor, nn

from translate_ddp.runtime.world import World
from translate_ddp.settings import OptimizerConfig
from translate_ddp.training.muon import Muon

BETAS = (0.9, 0.98)  # Vaswani et al. 2017, section 5.3
MAX_WARMUP = 0.2  # of a training whose end the schedule knows
WEIGHT_DECAY = 0.01  # on matrices only: biases and norms are not shrunk


def learning_rate(step: int, config: OptimizerConfig, progress: float = 0.0) -> float:
    """The rate of the update after `step` finished ones: linear warm-up, then decay.

    The decay is the inverse square root (Vaswani et al. 2017, eq. 3, scaled so that its peak is
    `config.lr`), or linear to 0 at the end of the training, of which `progress` is finished. Then
    the warm-up takes at most `MAX_WARMUP` of the training: with few pairs, that has few steps.
    """
    update = step + 1
    warm = update / config.warmup_steps
    if config.schedule == "linear":
        return config.lr * min(max(warm, progress / MAX_WARMUP), 1 - progress)
    return config.lr * min(warm, (config.warmup_steps / update) ** 0.5)


def build_optimizer(
    model: nn.Module,
    config: OptimizerConfig,
    dtype: torch.dtype = torch.float32,
    world: World | None = None,
) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices, or Muon for the matrices of the layers.

    `Updater` sets the learning rate before each update. `dtype` is that of Muon's products.
    """
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}
    settings = {"lr": config.lr, "betas": BETAS, "eps": 1e-9, "fused": True}
    if config.optimizer == "adamw":
        decayed = {"params": matrices, "weight_decay": WEIGHT_DECAY}
        return torch.optim.AdamW([decayed, vectors], **settings)
    layers = dict.fromkeys(m.weight for m in model.modules() if isinstance(m, nn.Linear))
    embeddings = [p for p in matrices if p not in layers]
    others = [{"params": embeddings, "weight_decay": WEIGHT_DECAY}, vectors]
    return Muon(list(layers), others, dtype, world or World(), **settings)


def allocated_size(optimizer: torch.optim.Optimizer) -> int:
    """The bytes of the optimizer's moments once `allocate_moments` has allocated them."""
    moments = [1 if isinstance(optimizer, Muon) else 2] + [2] * len(optimizer.param_groups)
    groups = zip(moments, optimizer.param_groups, strict=False)
    return sum(count * p.nbytes for count, group in groups for p in group["params"])


def allocate_moments(optimizer: torch.optim.Optimizer) -> None:
    """Allocate the optimizer's state, at most 8 bytes per parameter, before the first step.

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
