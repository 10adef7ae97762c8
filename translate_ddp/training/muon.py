"""Muon: orthogonal updates for the matrices of the layers, AdamW for all other parameters.

Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; the scale of an update:
Liu et al. 2025, "Muon is Scalable for LLM Training", eq. 4. Shape letters of tensor names:

    O rows   I columns   N blocks of one shape   P rows of a block   Q columns   M the fewer of both
"""

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
# The root mean square of an update is this times the learning rate. Liu et al. take 0.2, that of
# an update of AdamW. On Multi30k, 0.6 was better than 0.2 and 1.2, at the learning rate of AdamW.
UPDATE_RMS = 0.6
WEIGHT_DECAY = 0.3  # times the learning rate, as in AdamW
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of Jordan et al.: singular values end in 0.7 to 1.2

Shape = tuple[int, int]


class Muon(torch.optim.AdamW):
    """Muon for `matrices`, the first group of parameters, and AdamW for the other groups.

    A matrix consists of blocks of the given shape, each of which has an orthogonal update of its
    own. `dtype` is that of the products, which tolerate bf16.
    """

    def __init__(
        self,
        matrices: Mapping[Tensor, Shape],
        others: list[dict[str, Any]],
        dtype: torch.dtype,
        **settings: Any,
    ) -> None:
        group = {"params": list(matrices), "weight_decay": WEIGHT_DECAY}
        super().__init__([group, *others], **settings)
        self.dtype = dtype
        self._blocks = matrices

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update all parameters, and discard the gradients of the matrices."""
        group = self.param_groups[0]
        # One product of many blocks is faster than many products, above all on a GPU.
        matrices = sorted(group["params"], key=self._blocks.__getitem__)
        for shape, same in itertools.groupby(matrices, key=self._blocks.__getitem__):
            self._update([p for p in same if p.grad is not None], shape, group)
        super().step(closure)  # AdamW leaves parameters without a gradient as they are

    def _update(self, parameters: list[Tensor], shape: Shape, group: dict[str, Any]) -> None:
        momenta = [self._momentum(parameter) for parameter in parameters]
        momentum_NPQ = torch.cat([split(momentum, shape) for momentum in momenta])
        gradient_NPQ = torch.cat([split(p.grad, shape) for p in parameters])  # type: ignore[arg-type]
        rate, found_inf = group["lr"], getattr(self, "found_inf", None)
        if found_inf is not None:  # then nothing may change; without waiting for the device
            gradient_NPQ = torch.where(found_inf > 0, momentum_NPQ, gradient_NPQ)
            rate = rate * (1 - found_inf)
        momentum_NPQ.lerp_(gradient_NPQ, 1 - MOMENTUM)
        update_NPQ = orthogonalize(gradient_NPQ.lerp(momentum_NPQ, MOMENTUM), self.dtype)
        update_NPQ *= rate * UPDATE_RMS * max(shape) ** 0.5
        torch._foreach_copy_(momenta, join(momentum_NPQ, parameters))
        torch._foreach_mul_(parameters, 1 - rate * group["weight_decay"])
        torch._foreach_sub_(parameters, join(update_NPQ, parameters))
        for parameter in parameters:
            parameter.grad = None

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if not state:
            # Loading a state dict of AdamW expects the number of steps, which Muon does not use.
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["momentum"] = torch.zeros_like(parameter)
        return state["momentum"]


def split(matrix_OI: Tensor, shape: Shape) -> Tensor:
    """The blocks of a matrix, blocks_NPQ."""
    rows, columns = shape
    blocks = matrix_OI.unflatten(0, (-1, rows)).unflatten(2, (-1, columns))
    return blocks.transpose(1, 2).flatten(0, 1)


def join(blocks_NPQ: Tensor, like: list[Tensor]) -> list[Tensor]:
    """The matrices of the blocks, in the shapes of `like`: the reverse of `split`."""
    rows, columns = blocks_NPQ.shape[1:]
    parts = blocks_NPQ.split([matrix.numel() // (rows * columns) for matrix in like])
    return [
        part.unflatten(0, (len(matrix) // rows, -1)).transpose(1, 2).reshape(matrix.shape)
        for part, matrix in zip(parts, like, strict=True)
    ]


def orthogonalize(blocks_NPQ: Tensor, dtype: torch.dtype) -> Tensor:
    """The blocks with singular values of about 1, in fp32, by products in `dtype`.

    Newton-Schulz iteration of degree 5: with X = U S V^T, a step maps each singular value s to
    a s + b s^3 + c s^5. A block of zeros stays so.
    """
    a, b, c = COEFFICIENTS
    is_tall = blocks_NPQ.shape[1] > blocks_NPQ.shape[2]
    x_NMQ = blocks_NPQ.mT if is_tall else blocks_NPQ
    norm_N11 = x_NMQ.norm(dim=(1, 2), keepdim=True)  # at least the largest singular value
    x_NMQ = (x_NMQ / norm_N11.clamp(min=1e-30)).to(dtype)
    for _ in range(ITERATIONS):
        gram_NMM = x_NMQ @ x_NMQ.mT
        factor_NMM = torch.baddbmm(gram_NMM, gram_NMM, gram_NMM, beta=b, alpha=c)
        x_NMQ = torch.baddbmm(x_NMQ, factor_NMM, x_NMQ, beta=a)
    return (x_NMQ.mT if is_tall else x_NMQ).float()
