"""Fast equivalents of plain PyTorch operations, and one switch back to the plain ones.

Each computes what its plain version computes, but for rounding and, in dropout, the random draws;
its docstring explains why the plain version is slow. Shape letters are those of `transformer.py`.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GPU_TILE = 64  # tensor cores are at full speed if a product's columns are a multiple of it
MASK_ALIGNMENT = 8  # elements; memory-efficient attention copies a mask with other row strides

_is_plain = False


@contextmanager
def plain() -> Iterator[None]:
    """Within it, all threads use the plain versions; weights that are packed stay packed."""
    global _is_plain
    before, _is_plain = _is_plain, True
    try:
        yield
    finally:
        _is_plain = before


def is_plain() -> bool:
    return _is_plain


# --- weights in the precision of the layers ---


class Linear(nn.Linear):
    """A linear layer that computes in the precision of its input."""

    cast: list[Tensor] | None = None  # weight and bias, set by `cast_weights`

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, *_weights_like(self, input))


class LayerNorm(nn.LayerNorm):
    """Layer normalisation that computes in the precision of its input."""

    cast: list[Tensor] | None = None  # weight and bias, set by `cast_weights`

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = _weights_like(self, input)
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


def cast_weights(modules: Iterable[nn.Module], dtype: torch.dtype) -> None:
    """Cast the weights of these Linear and LayerNorm modules for their next call, if they differ.

    Plain: each module casts its own. On a GPU that takes four kernels a module and pass, most of
    them shorter than their launch; here a group takes two. A group is one layer, so that gradients
    become ready layer by layer and are summed over the ranks during the backward pass.
    """
    if is_plain() or torch.compiler.is_compiling():
        return
    group = (module for module in modules if isinstance(module, Linear | LayerNorm))
    if (first := next(group, None)) is None or first.weight.dtype == dtype:
        return
    together = [first, *group]
    weights = [list(module.parameters()) for module in together]
    casts = iter(_CastWeights.apply(dtype, *itertools.chain(*weights)))
    for module, own in zip(together, weights, strict=True):
        module.cast = list(itertools.islice(casts, len(own)))


def _weights_like(module: Linear | LayerNorm, input: Tensor) -> list[Tensor]:
    """Weight and bias, if it has one, in the dtype of `input`."""
    if (cast := module.cast) is not None:
        module.cast = None  # the weights may have changed before the next pass
        return cast
    return [weight.to(input.dtype) for weight in module.parameters()]


class _CastWeights(torch.autograd.Function):
    """`tensor.to(dtype)` of many tensors in one operation, and of their gradients in another."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = tensors[0].dtype
        return cast_all(tensors, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *cast_all(grads, ctx.dtype)


def cast_all(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Copies of the tensors in `dtype`, in one operation where torch still has it."""
    casts = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    if hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(casts, tuple(tensors))
    else:
        for cast, tensor in zip(casts, tensors, strict=True):
            cast.copy_(tensor)
    return casts


# --- attention ---


def attention(
    q_BHTK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    mask_B11M: Tensor | None,
    is_causal: bool,
    dropout: float = 0.0,
) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1); the mask is added to the scores.

    `dropout` is the probability of dropping a weight. Plain: PyTorch's kernel. In bf16 on a CPU, at
    the lengths of sentences, it takes several times as long as the products and the softmax written
    out, and so it does with dropout.
    """
    is_slow = q_BHTK.dtype == torch.bfloat16 or dropout > 0
    if is_slow and q_BHTK.device.type == "cpu" and not is_plain():
        return attention_written_out(q_BHTK, k_BHMK, v_BHMK, mask_B11M, is_causal, dropout)
    return F.scaled_dot_product_attention(
        q_BHTK, k_BHMK, v_BHMK, mask_B11M, dropout_p=dropout, is_causal=is_causal
    )


def attention_written_out(
    q_BHTK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    mask_B11M: Tensor | None,
    is_causal: bool,
    dropout: float = 0.0,
) -> Tensor:
    """`attention` as products and a softmax of its own, without PyTorch's function."""
    # With one query, as in decoding, oneDNN would compile a product for each number of positions.
    is_single = q_BHTK.shape[2] == 1
    q_BHTK = q_BHTK * q_BHTK.shape[-1] ** -0.5
    if is_single:
        scores_BHTM = (q_BHTK * k_BHMK).sum(dim=-1)[:, :, None]
    else:
        scores_BHTM = q_BHTK @ k_BHMK.transpose(-1, -2)
    if mask_B11M is not None:
        scores_BHTM = scores_BHTM + mask_B11M
    if is_causal:
        later_TM = torch.ones_like(scores_BHTM[0, 0], dtype=torch.bool).triu(1)
        scores_BHTM = scores_BHTM.masked_fill(later_TM, -torch.inf)
    p_BHTM = scores_BHTM.softmax(dim=-1)
    if dropout:
        p_BHTM = drop(p_BHTM, dropout)
    if is_single:
        return (p_BHTM.transpose(-1, -2) * v_BHMK).sum(dim=-2, keepdim=True)
    return p_BHTM @ v_BHMK


def align_mask(mask_B11M: Tensor) -> Tensor:
    """The same mask with row strides that CUDA's memory-efficient attention reads without a copy.

    Plain: the mask as it is.
    """
    # The compiler aligns masks, too; here it would make new graphs for some lengths.
    if is_plain() or torch.compiler.is_compiling():
        return mask_B11M
    length = mask_B11M.shape[-1]
    return F.pad(mask_B11M, (0, -length % MASK_ALIGNMENT))[..., :length]


# --- dropout ---


class Dropout(nn.Dropout):
    """dropout(input), or residual + dropout(input), the end of every sublayer.

    Plain: `F.dropout` and a sum. On a CPU its random draws take longer than the sum.
    """

    def forward(self, input: Tensor, residual: Tensor | None = None) -> Tensor:
        if self.training and self.p:
            return drop(input, self.p, residual)
        return input if residual is None else residual + input


def drop(input: Tensor, p: float, residual: Tensor | None = None) -> Tensor:
    """The input with elements set to 0 with probability p and others scaled, plus `residual`."""
    # A compiler has a dropout of its own; this one's draws would break its graph.
    is_drawn = input.device.type == "cpu" and not torch.compiler.is_compiling()
    if not is_drawn or is_plain():
        dropped = F.dropout(input, p)
        return dropped if residual is None else residual + dropped
    mask = dropout_mask(input, p)
    return input * mask if residual is None else torch.addcmul(residual, input, mask)


def dropout_mask(like: Tensor, p: float) -> Tensor:
    """0 with probability p, otherwise 1 / (1 - p), in the shape and dtype of `like`, on a CPU.

    One draw of 64 bits gives four elements 16 bits each, so p is exact to 1 / 65,536.
    """
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: like.numel()].view(like.shape)
    dropped = min(round(p * 2**16), 2**16 - 1)  # of all values of 16 bits
    kept = torch.ge(bits, dropped - 2**15, out=torch.empty_like(like))
    return kept.mul_(1 / (1 - p))


# --- scores ---


def pad_vocabulary(weights_VD: Tensor) -> Tensor:
    """The embedding with zero rows added up to a multiple of a GPU's tile, weights_PD.

    Plain, and on a CPU: the embedding as it is. Callers cut off the scores of the added rows.
    """
    if is_plain() or weights_VD.device.type == "cpu" or len(weights_VD) % GPU_TILE == 0:
        return weights_VD
    return F.pad(weights_VD, (0, 0, 0, -len(weights_VD) % GPU_TILE))
