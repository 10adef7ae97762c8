"""Fast equivalents of plain PyTorch operations, and one switch back to the plain ones.

Each computes what its plain version computes, but for rounding and, in dropout, the random draws;
its docstring explains why the plain version is slow. Shape letters are those of `transformer.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GPU_TILE = 64  # tensor cores are at full speed if a product's columns are a multiple of it
MASK_ALIGNMENT = 8  # elements; memory-efficient attention copies a mask with other row strides

# Scores computed at once: on a CPU they stay in its cache; on a GPU they take 512 MiB in bf16.
CPU_SCORES_AT_ONCE, GPU_SCORES_AT_ONCE = 2**22, 2**28

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

    cast: tuple[Tensor, Tensor] | None = None  # set by `cast_weights`

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, *_weights_like(self, input))


class LayerNorm(nn.LayerNorm):
    """Layer normalisation that computes in the precision of its input."""

    cast: tuple[Tensor, Tensor] | None = None  # set by `cast_weights`

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
    weights = [weight for module in together for weight in (module.weight, module.bias)]
    casts = iter(_CastWeights.apply(dtype, *weights))
    for module in together:
        module.cast = next(casts), next(casts)


def _weights_like(module: Linear | LayerNorm, input: Tensor) -> tuple[Tensor, Tensor]:
    """Weight and bias in the dtype of `input`."""
    if (cast := module.cast) is not None:
        module.cast = None  # the weights may have changed before the next pass
        return cast
    return module.weight.to(input.dtype), module.bias.to(input.dtype)


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
    q_BHTK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask_B11M: Tensor | None, is_causal: bool
) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1); the mask is added to the scores.

    Plain: PyTorch's kernel. In bf16 on a CPU, at the lengths of sentences, it takes several times
    as long as the products and the softmax written out.
    """
    is_slow = q_BHTK.device.type == "cpu" and q_BHTK.dtype == torch.bfloat16
    if is_slow and not is_plain():
        return attention_written_out(q_BHTK, k_BHMK, v_BHMK, mask_B11M, is_causal)
    return F.scaled_dot_product_attention(q_BHTK, k_BHMK, v_BHMK, mask_B11M, is_causal=is_causal)


def attention_written_out(
    q_BHTK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask_B11M: Tensor | None, is_causal: bool
) -> Tensor:
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
            # A compiler has a dropout of its own; this one's draws would break its graph.
            is_drawn = input.device.type == "cpu" and not torch.compiler.is_compiling()
            if is_drawn and not is_plain():
                mask = dropout_mask(input, self.p)
                return input * mask if residual is None else torch.addcmul(residual, input, mask)
            input = F.dropout(input, self.p)
        return input if residual is None else residual + input


def dropout_mask(like: Tensor, p: float) -> Tensor:
    """0 with probability p, otherwise 1 / (1 - p), in the shape and dtype of `like`, on a CPU.

    One draw of 64 bits gives four elements 16 bits each, so p is exact to 1 / 65,536.
    """
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: like.numel()].view(like.shape)
    kept = torch.ge(bits, round(p * 2**16) - 2**15, out=torch.empty_like(like))
    return kept.mul_(1 / (1 - p))


# --- scores and loss ---


def pad_vocabulary(weights_VD: Tensor) -> Tensor:
    """The embedding with zero rows added up to a multiple of a GPU's tile, weights_PD.

    Plain, and on a CPU: the embedding as it is. Callers cut off the scores of the added rows.
    """
    if is_plain() or weights_VD.device.type == "cpu" or len(weights_VD) % GPU_TILE == 0:
        return weights_VD
    return F.pad(weights_VD, (0, 0, 0, -len(weights_VD) % GPU_TILE))


def rows_at_once(hidden_RD: Tensor, vocabulary: int) -> int:
    """The number of rows whose scores are computed at once, at least 1. Plain: all."""
    scores = CPU_SCORES_AT_ONCE if hidden_RD.device.type == "cpu" else GPU_SCORES_AT_ONCE
    return max(1, len(hidden_RD) if is_plain() else min(len(hidden_RD), scores // vocabulary))


class FusedTokenLoss(torch.autograd.Function):
    """`loss.token_loss` that computes its gradient along with its value, some rows at a time.

    Plain: cross-entropy by autograd, which keeps the scores of all rows, R x V. Here each slice of
    scores is computed once, and all use the same memory. With the softmax p of a row's scores and
    the smoothed label q = (1 - e) [label] + e / V, the loss is -q log p, and its gradient with
    respect to the scores is p - q. If p is bf16, a row's loss is exact to 0.002 nats.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary = len(embedding_VD)
        weights_PD = pad_vocabulary(embedding_VD.to(hidden_RD.dtype))
        # The part of q that is e / V for every token enters loss and gradients as sums over V.
        spread = smoothing / vocabulary
        hidden_sum_D = hidden_RD.sum(dim=0, dtype=torch.float32)
        weights_sum_D = embedding_VD.sum(dim=0, dtype=torch.float32)
        loss = -spread * (hidden_sum_D @ weights_sum_D)
        nll = torch.zeros_like(loss)
        hidden_grad_RD = torch.empty_like(hidden_RD)
        embedding_grad_VD = (-spread * hidden_sum_D).expand_as(embedding_VD).contiguous()
        rows = rows_at_once(hidden_RD, vocabulary)
        # One buffer for all slices: on a CPU, fresh memory costs more than the softmax.
        buffer_CP = hidden_RD.new_empty(rows, len(weights_PD))
        slices = (x.split(rows) for x in (hidden_RD, labels_R, hidden_grad_RD))
        for hidden_CD, labels_C, hidden_grad_CD in zip(*slices, strict=True):
            wanted = torch.arange(len(labels_C), device=labels_C.device), labels_C
            scores_CP = torch.mm(hidden_CD, weights_PD.t(), out=buffer_CP[: len(labels_C)])
            if len(weights_PD) > vocabulary:
                scores_CP[:, vocabulary:] = -torch.inf
            best_C, wanted_C = scores_CP.amax(dim=-1), scores_CP[wanted]
            p_CP = torch.softmax(scores_CP, dim=-1, out=scores_CP)
            # The p of the best score is exp(best) / sum of exp.
            log_sum_C = best_C.float() - p_CP.amax(dim=-1).float().log()
            log_sum, wanted_sum = log_sum_C.sum(), wanted_C.float().sum()
            loss += log_sum - (1 - smoothing) * wanted_sum
            nll += log_sum - wanted_sum
            grad_CP = p_CP
            grad_CP[wanted] -= 1 - smoothing
            torch.mm(grad_CP, weights_PD, out=hidden_grad_CD)
            embedding_grad_VD += (grad_CP.t() @ hidden_CD)[:vocabulary]
        hidden_grad_RD -= spread * weights_sum_D
        ctx.save_for_backward(hidden_grad_RD, embedding_grad_VD)
        ctx.mark_non_differentiable(nll)
        ctx.set_materialize_grads(False)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad_RD, embedding_grad_VD = ctx.saved_tensors
        # In place, since they are large; autograd raises on a second backward pass.
        return hidden_grad_RD.mul_(grads[0]), embedding_grad_VD.mul_(grads[0]), None, None
