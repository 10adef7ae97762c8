"""The optimizer of the model's parameters, the learning rate of a step, and the loss scale.

AdamW, or Muon: orthogonal updates for the matrices of the layers, AdamW for all other parameters.
Source of Muon: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; the scale of an
update: Liu et al. 2025, "Muon is Scalable for LLM Training", eq. 4. Shape letters of tensor names:

    N matrices of one shape   O rows   I columns   M the fewer of both   L the more of both
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from translate_ddp.runtime.world import World
from translate_ddp.settings import OptimizerConfig

BETAS = (0.9, 0.98)  # Vaswani et al. 2017, section 5.3
MAX_WARMUP = 0.2  # share of a training whose end the schedule knows
EMBEDDING_DECAY = 0.01  # weight decay with Muon, whose own is for the matrices of layers

FIRST_SCALE, MIN_SCALE = 2.0**16, 1.0  # factors for the loss in fp16
GROWTH_STEPS = 2000  # without an overflow, after which the scale doubles

MOMENTUM = 0.95
# The root mean square of an update is this times the learning rate. Liu et al. take 0.2, as
# AdamW's updates have. On Multi30k, 0.6 was better than 0.2 and 1.2, at AdamW's learning rate.
UPDATE_RMS = 0.6
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # from Jordan et al.: singular values end in 0.7 to 1.2


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
) -> AdamW:
    """AdamW with weight decay on matrices, or Muon for the matrices of the layers.

    `OptimizerStep` sets the learning rate before each update. `dtype` is for Muon's products.
    """
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}
    settings: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
    settings |= {"betas": BETAS, "eps": 1e-9, "fused": True}
    if config.optimizer == "adamw":
        return AdamW([{"params": matrices}, vectors], **settings)
    layers = dict.fromkeys(m.weight for m in model.modules() if isinstance(m, nn.Linear))
    embeddings = [p for p in matrices if p not in layers]
    others = [{"params": embeddings, "weight_decay": EMBEDDING_DECAY}, vectors]
    return Muon(list(layers), others, dtype, world or World(), **settings)


def allocate_moments(optimizer: Optimizer) -> None:
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


def moments_of(optimizer: Optimizer) -> list[Tensor]:
    """The tensors of the optimizer's state, in the order of the parameters on every rank."""
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    return [moment for p in parameters for moment in optimizer.state.get(p, {}).values()]


def skip_if(flag: Tensor, optimizer: Optimizer) -> None:
    """Make the next step do nothing if `flag` is 1.0, without waiting for the device.

    `torch.amp.GradScaler` sets the same attribute of a fused optimizer.
    """
    optimizer.found_inf = flag  # type: ignore[attr-defined]


class LossScale:
    """The factor of the loss in fp16, in which small gradients would underflow; otherwise 1.

    It halves when gradients overflow, and doubles after `GROWTH_STEPS` steps without an overflow.
    It is on the device: nothing here but `state` and `scalars` waits for it. Source: Micikevicius
    et al. 2018, "Mixed Precision Training", section 3.2; the numbers of `torch.amp.GradScaler`.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.is_used = dtype == torch.float16
        self.scale = torch.full((), FIRST_SCALE if self.is_used else 1.0, device=device)
        self._good_steps = torch.zeros((), dtype=torch.int32, device=device)
        self._overflows = torch.zeros_like(self._good_steps)

    def apply(self, loss: Tensor) -> Tensor:
        return loss * self.scale if self.is_used else loss

    def unscale(self, parameters: Iterable[Tensor]) -> None:
        """Divide the gradients by the scale. Exact, as it is a power of 2."""
        if self.is_used:
            grads = [p.grad for p in parameters if p.grad is not None]
            torch._foreach_mul_(grads, 1 / self.scale)

    def update(self, not_finite: Tensor) -> Tensor:
        """Adapt the scale after a step; return `StepResult.skipped` of it.

        `not_finite` is the same on all ranks: 0.0, inf if a loss is not finite, which has no scale,
        or another value if only gradients are not.
        """
        skipped = (not_finite > 0).float()
        if not self.is_used:
            return skipped
        overflow = skipped * not_finite.isfinite()
        # At the minimum, a lower scale is no remedy: the step is reported.
        is_expected = overflow * (self.scale > MIN_SCALE)
        torch._amp_update_scale_(self.scale, self._good_steps, overflow, 2.0, 0.5, GROWTH_STEPS)
        self.scale.clamp_(min=MIN_SCALE)
        self._overflows += is_expected.int()
        return skipped + is_expected

    def scalars(self) -> dict[str, float]:
        """What is logged in fp16: the scale, and how many steps it skipped by overflow."""
        names = ("train/loss_scale", "train/overflows")
        values = (float(self.scale), int(self._overflows))
        return dict(zip(names, values, strict=True)) if self.is_used else {}

    def state(self) -> dict[str, list[float]]:
        """What `restore` needs, beside the optimizer's state dict."""
        values = self.scale, self._good_steps, self._overflows
        return {"loss_scale": [value.item() for value in values]} if self.is_used else {}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Load what `state` returned, if there is any: other precisions save nothing."""
        if self.is_used and "loss_scale" in saved:
            values = self.scale, self._good_steps, self._overflows
            for value, number in zip(values, saved["loss_scale"], strict=True):
                value.fill_(number)


class Muon(AdamW):
    """Muon for `matrices`, the first group of parameters, and AdamW for the other groups.

    The products have this `dtype`: they tolerate 16 bits. The ranks of `world` divide the
    matrices among them, so `step` is a collective.
    """

    def __init__(
        self,
        matrices: list[Tensor],
        others: list[dict[str, Any]],
        dtype: torch.dtype,
        world: World,
        **settings: Any,
    ) -> None:
        super().__init__([{"params": matrices}, *others], **settings)
        self.dtype = dtype
        self.world = world

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update all parameters, and discard the gradients of the matrices."""
        group = self.param_groups[0]
        matrices = [p for p in group["params"] if p.grad is not None]
        finish: Callable[[], None] = lambda: None  # noqa: E731
        # One product of many matrices is faster than many products, above all on a GPU. The ranks'
        # shares of one shape are sent during the products of the next.
        for _, same in itertools.groupby(sorted(matrices, key=shape), key=shape):
            finish_last, finish = finish, self._start_update(list(same), group)
            finish_last()
        finish()
        super().step(closure)  # AdamW leaves parameters without a gradient as they are

    def _start_update(self, matrices: list[Tensor], group: dict[str, Any]) -> Callable[[], None]:
        """Update the momenta of matrices of one shape; the result updates the matrices."""
        momenta = [self._momentum(matrix) for matrix in matrices]
        momentum_NOI = torch.stack(momenta)
        gradient_NOI = torch.stack([m.grad for m in matrices])  # type: ignore[misc]
        rate, found_inf = group["lr"], getattr(self, "found_inf", None)
        if found_inf is not None:  # then nothing may change; without waiting for the device
            gradient_NOI = torch.where(found_inf > 0, momentum_NOI, gradient_NOI)
            rate = rate * (1 - found_inf)
        momentum_NOI.lerp_(gradient_NOI, 1 - MOMENTUM)
        torch._foreach_copy_(momenta, momentum_NOI.unbind())
        gathered = self._start_orthogonalize(gradient_NOI.lerp_(momentum_NOI, MOMENTUM))

        def finish() -> None:
            update_NOI = gathered()[: len(matrices)].float()
            update_NOI *= rate * UPDATE_RMS * max(update_NOI.shape[1:]) ** 0.5
            torch._foreach_mul_(matrices, 1 - rate * group["weight_decay"])
            torch._foreach_sub_(matrices, update_NOI.unbind())
            for matrix in matrices:
                matrix.grad = None

        return finish

    def _start_orthogonalize(self, matrices_NOI: Tensor) -> Callable[[], Tensor]:
        """`orthogonalize`, of which each rank computes a share; at the end there may be zeros."""
        share = math.ceil(len(matrices_NOI) / self.world.size)
        own_NOI = matrices_NOI[share * self.world.rank :][:share]  # maybe no matrix
        share_NOI = own_NOI.new_zeros(share, *own_NOI.shape[1:], dtype=self.dtype)
        share_NOI[: len(own_NOI)] = orthogonalize(own_NOI, self.dtype)
        return self.world.start_gather(share_NOI)

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if not state:
            # Loading a state dict of AdamW expects the number of steps, which Muon does not use.
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["momentum"] = torch.zeros_like(parameter)
        return state["momentum"]


def shape(matrix: Tensor) -> tuple[int, ...]:
    return tuple(matrix.shape)


def orthogonalize(matrices_NOI: Tensor, dtype: torch.dtype) -> Tensor:
    """The matrices with singular values of about 1, by products in `dtype`.

    Newton-Schulz iteration of degree 5: with X = U S V^T, a step maps each singular value s to
    a s + b s^3 + c s^5. A matrix of zeros stays so.
    """
    a, b, c = COEFFICIENTS
    is_tall = matrices_NOI.shape[1] > matrices_NOI.shape[2]
    x_NML = matrices_NOI.mT if is_tall else matrices_NOI
    norm_N11 = x_NML.norm(dim=(1, 2), keepdim=True)  # at least the largest singular value
    # Below 1e-15 the squares in a norm underflow, and the iteration of a larger matrix diverges.
    x_NML = (x_NML / norm_N11.clamp(min=1e-15)).to(dtype)
    for _ in range(ITERATIONS):
        gram_NMM = x_NML @ x_NML.mT
        factor_NMM = torch.baddbmm(gram_NMM, gram_NMM, gram_NMM, beta=b, alpha=c)
        x_NML = torch.baddbmm(x_NML, factor_NMM, x_NML, beta=a)
    return x_NML.mT if is_tall else x_NML
