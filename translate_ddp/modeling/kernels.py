"""The precision of the layers, and fast equivalents of plain PyTorch operations.

Parameters, gradients, optimizer and checkpoints are always fp32. In bf16 and fp16, activations have
16 bits, and the weights are cast once in a forward pass. Sums of many terms stay fp32: in matrix
products, norms and the loss, the embedding's gradient, and the optimizer's moments.

Each fast operation computes what its plain version computes, up to rounding and, in
dropout, the random draws. Its docstring states what it gains; gains on a CPU are in processor time
of one core of an AMD EPYC with bf16, at 64 x 30 tokens of width 512. `plain` switches back to all
plain versions. Shape letters are as in `transformer.py`.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.runtime.device import cpu_fact
from translate_ddp.settings import Precision

GPU_TILE = 64  # tensor cores are at full speed if a product's columns are a multiple of it
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SOFTMAX_KEYS = 16  # numbers in a CPU's register; softmax of fewer takes eight times as long

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


# --- precision ---


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The dtype of `precision`; auto is one in which the device multiplies matrices fastest.

    That is bf16, if the device has it. GPUs before Ampere (V100, T4, RTX 20) have only fp16, whose
    smaller range needs a `LossScale`.
    """
    if precision == "auto":
        precision = "bf16" if has_bf16(device) else "fp16" if has_fp16(device) else "fp32"
    return DTYPES[precision]


def has_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for matrix products in bf16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_tile"))


def has_fp16(device: torch.device) -> bool:
    """Whether the device is a GPU with tensor cores, which multiply matrices in fp16."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (7, 0)


def precision_warning(precision: Precision, device: torch.device) -> str | None:
    """A warning for GPUs without bf16 that are to compute in it; otherwise None."""
    if precision != "bf16" or device.type != "cuda" or has_bf16(device):
        return None
    name = torch.cuda.get_device_name(device)
    return f"{name} only emulates bf16, which is slow: leave out --precision."


# --- weights in the precision of the layers ---


class Linear(nn.Linear):
    """A linear layer that computes in the precision of its input."""

    cast: list[Tensor] | None = None  # weight and bias, set by `cast_weights`

    def forward(self, input: Tensor) -> Tensor:
        return multiply(input, *_weights_like(self, input))


class LayerNorm(nn.LayerNorm):
    """Layer normalisation that computes in the precision of its input."""

    cast: list[Tensor] | None = None  # weight and bias, set by `cast_weights`

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = _weights_like(self, input)
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class Layer(nn.Module):
    """A module that casts the weights of all its Linear and LayerNorm modules at once.

    Plain: each module casts its own. On a GPU that takes four launches a module, for kernels that
    are mostly shorter than their launch; here a layer takes two. Layer by layer, gradients become
    ready layer by layer, and are summed over the ranks during the backward pass. Forward and
    backward of `base` launch 611 kernels instead of 1,107 (counted, together with `joint_linear`,
    `relu_dropout`, `padding_mask`, and one lookup of both sides' tokens).
    """

    joint = ("self_attention.query", "self_attention.key_value")  # for one input: `joint_linear`
    separate: tuple[str, ...] = ()  # not cast with the layer

    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(cast_weights)


def cast_weights(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Cast the weights of a layer for its next call to the precision of its first input."""
    dtype = inputs[0].dtype
    if is_plain():
        return
    joint, separate = getattr(layer, "joint", ()), getattr(layer, "separate", ())
    named = layer.named_modules()
    modules = {n: m for n, m in named if isinstance(m, Linear | LayerNorm) and n not in separate}
    if next(iter(modules.values())).weight.dtype == dtype:
        return
    groups = [[module] for name, module in modules.items() if name not in joint]
    _cast_groups([*groups, [modules[name] for name in joint]] if joint else groups, dtype)


def _cast_groups(groups: Sequence[Sequence["Linear | LayerNorm"]], dtype: torch.dtype) -> None:
    """Set `cast` of the first module of each group to the weights and the biases of all, joined."""
    parts: list[list[Tensor]] = []
    for group in groups:
        parts.append([module.weight for module in group])
        if group[0].bias is not None:
            rows = [(len(m.weight), m.weight.device) for m in group]
            biases = [m.bias for m in group]
            parts.append(
                [_zeros(*r) if b is None else b for b, r in zip(biases, rows, strict=True)]
            )
    sizes = [[len(tensor) for tensor in part] for part in parts]
    casts = iter(_CastWeights.apply(dtype, sizes, *itertools.chain(*parts)))
    for first, *_ in groups:
        first.cast = list(itertools.islice(casts, 1 if first.bias is None else 2))


@functools.cache
@torch.inference_mode(False)  # training uses zeros that validation has made
def _zeros(count: int, device: torch.device) -> Tensor:
    return torch.zeros(count, device=device)


def joint_linear(input: Tensor, linears: Sequence[nn.Module], width: int) -> list[Tensor]:
    """The outputs of Linear modules of one input, in parts of `width` columns.

    Plain: one product a module. In 16 bits one product for all; weights of fp32, which are not
    cast, would have to be copied side by side. Only the first module may have a bias. In a model
    that is ready to decode, the first is the joined one, and the others are `nn.Identity`.
    """
    linears = [linear for linear in linears if not isinstance(linear, nn.Identity)]
    first = linears[0]
    is_cast = isinstance(first, Linear) and first.weight.dtype != input.dtype
    if not is_cast or is_plain():
        return [part for linear in linears for part in linear(input).split(width, dim=-1)]
    if first.cast is None:
        _cast_groups([cast("list[Linear]", linears)], input.dtype)
    joined = F.linear(input, *_weights_like(cast(Linear, first), input))
    return list(joined.split(width, dim=-1))


def _weights_like(module: Linear | LayerNorm, input: Tensor) -> list[Tensor]:
    """Weight and bias, if it has one, in the dtype of `input`."""
    if (cast := module.cast) is not None:
        module.cast = None  # the weights may have changed before the next forward pass
        return cast
    return [weight.to(input.dtype) for weight in module.parameters()]


class _CastWeights(torch.autograd.Function):
    """`torch.cat(part).to(dtype)` of many parts in one operation, and of gradients in another.

    `sizes` are the rows of the tensors of each part.
    """

    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, sizes: list[list[int]], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.dtype, ctx.sizes, rest = tensors[0].dtype, sizes, iter(tensors)
        firsts = [list(itertools.islice(rest, len(rows)))[0] for rows in sizes]
        pairs = zip(firsts, sizes, strict=True)
        joined = [x.new_empty(sum(rows), *x.shape[1:], dtype=dtype) for x, rows in pairs]
        torch._foreach_copy_(_split_each(joined, sizes), tensors)
        return tuple(joined)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *cast_all(_split_each(grads, ctx.sizes), ctx.dtype)


def _split_each(joined: Sequence[Tensor], sizes: list[list[int]]) -> list[Tensor]:
    pairs = zip(joined, sizes, strict=True)
    return [part for tensor, rows in pairs for part in tensor.split(rows)]


def cast_all(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Copies of the tensors in `dtype`, in one operation."""
    casts = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    torch._foreach_copy_(casts, tuple(tensors))
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

    `dropout` is the probability of dropping a weight. Plain: PyTorch's kernel. In training in bf16
    on a CPU it takes 3.4 times as long as the products and the softmax written out, with dropout
    1.5 times, and 1.1 times in fp32 with dropout.
    """
    if q_BHTK.device.type == "cpu" and not is_plain():
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
    # In training, dropout would draw more numbers.
    missing = 0 if dropout else max(0, SOFTMAX_KEYS - k_BHMK.shape[2])
    if missing and mask_B11M is not None:
        k_BHMK, v_BHMK = (F.pad(part, (0, 0, 0, missing)) for part in (k_BHMK, v_BHMK))
        mask_B11M = F.pad(mask_B11M, (0, missing), value=-torch.inf)
    q_BHTK = q_BHTK * q_BHTK.shape[-1] ** -0.5
    scores_BHTM = q_BHTK @ k_BHMK.transpose(-1, -2)
    if mask_B11M is not None:
        scores_BHTM = scores_BHTM + mask_B11M
    if is_causal:
        later_TM = torch.ones_like(scores_BHTM[0, 0], dtype=torch.bool).triu(1)
        scores_BHTM = scores_BHTM.masked_fill(later_TM, -torch.inf)
    p_BHTM = scores_BHTM.softmax(dim=-1)
    if dropout:
        p_BHTM = drop(p_BHTM, dropout)
    return p_BHTM @ v_BHMK


def attention_of_few(
    q_BHWK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask_B1WM: Tensor | None
) -> Tensor:
    """`attention` of one or few queries in inference, of at least `SOFTMAX_KEYS` keys on a CPU."""
    if q_BHWK.device.type != "cpu" or is_plain():
        return attention(q_BHWK, k_BHMK, v_BHMK, mask_B1WM, is_causal=False)
    q_XWK, k_XMK, v_XMK = (part.flatten(0, 1) for part in (q_BHWK, k_BHMK, v_BHMK))  # X = B * H
    scores_XWM = torch.bmm(q_XWK * q_XWK.shape[-1] ** -0.5, k_XMK.mT)
    if mask_B1WM is not None:
        scores_XWM.unflatten(0, q_BHWK.shape[:2]).add_(mask_B1WM)
    return torch.bmm(scores_XWM.softmax(dim=-1), v_XMK).view(q_BHWK.shape)


# --- dropout ---


class Dropout(nn.Dropout):
    """dropout(input), or residual + dropout(input), the end of every sublayer.

    Plain: `F.dropout` and a sum, which take 4.7 times as long on a CPU, in bf16 3.5 times.
    """

    def forward(self, input: Tensor, residual: Tensor | None = None) -> Tensor:
        if self.training and self.p:
            return drop(input, self.p, residual)
        return input if residual is None else residual + input


def drop(input: Tensor, p: float, residual: Tensor | None = None) -> Tensor:
    """The input with elements set to 0 with probability p and others scaled, plus `residual`."""
    if input.device.type != "cpu" or is_plain():
        dropped = F.dropout(input, p)
        return dropped if residual is None else residual + dropped
    mask = dropout_mask(input, p)
    return input * mask if residual is None else torch.addcmul(residual, input, mask)


def relu_dropout(input: Tensor, p: float) -> Tensor:
    """dropout(relu(input)). Plain: both by autograd, which keeps the result of relu and a mask."""
    if not p or is_plain():
        return drop(F.relu(input), p) if p else F.relu(input)
    return _ReluDropout.apply(input, p)


class _ReluDropout(torch.autograd.Function):
    """Keeps only the output: where it is positive, the input was positive and not dropped."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, p: float) -> Tensor:
        output = drop(F.relu(input), p)
        ctx.save_for_backward(output)
        ctx.scale = 1 / (1 - p)
        if input.device.type == "cpu":  # the mask of `drop` has the scale in this dtype
            ctx.scale = torch.tensor(ctx.scale, dtype=input.dtype).item()
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # The gradient times `scale` where the output is positive, else 0, in one operation.
        (output,) = ctx.saved_tensors
        return torch.ops.aten.elu_backward(*grads, 0.0, ctx.scale, 1.0, True, output), None


def dropout_mask(like: Tensor, p: float) -> Tensor:
    """0 with probability p, otherwise 1 / (1 - p), in the shape and dtype of `like`, on a CPU.

    One draw of 64 bits gives four elements 16 bits each, so p is exact to 1 / 65,536.
    """
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: like.numel()].view(like.shape)
    dropped = min(round(p * 2**16), 2**16 - 1)  # 16-bit values that give 0
    kept = torch.ge(bits, dropped - 2**15, out=torch.empty_like(like))
    return kept.mul_(1 / (1 - p))


# --- products of training ---


def multiply(
    input: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None, out: Tensor | None = None
) -> Tensor:
    """input @ weight_OI.T + bias_O; `out` is memory that it may use for a product without a bias.

    Plain: MKL in fp32 on a CPU, which takes about twice as long as oneDNN where `is_mkl_slow`.
    """
    is_fp32 = input.device.type == "cpu" and input.dtype == torch.float32
    if is_fp32 and not is_plain() and is_mkl_slow():
        # oneDNN reads a transposed weight as it is, but a copy of a transposed input.
        is_copied = input.dim() == 2 and not input.is_contiguous()
        if is_copied and bias_O is None and len(weight_OI) < len(input):
            return multiply(weight_OI, input).t()
        return _OneDNNProduct.apply(input, weight_OI, bias_O)
    if out is not None:
        return torch.mm(input, weight_OI.t(), out=out)
    return F.linear(input, weight_OI, bias_O)


class _OneDNNProduct(torch.autograd.Function):
    """`F.linear` and its gradients by oneDNN."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(input, weight_OI)
        if not input.numel():  # oneDNN refuses sums of no terms
            return F.linear(input, weight_OI, bias_O)
        return torch.ops.mkldnn._linear_pointwise(input, weight_OI, bias_O, "none", [], "")

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (input, weight_OI), grad = ctx.saved_tensors, grads[0].contiguous()
        of_input, of_weight, of_bias = ctx.needs_input_grad
        grad_OR, input_IR = grad.flatten(0, -2).t(), input.flatten(0, -2).t()
        return (
            multiply(grad, weight_OI.t()) if of_input else None,
            multiply(grad_OR, input_IR) if of_weight else None,
            grad_OR.sum(dim=1) if of_bias else None,
        )


# --- scores, and weights for inference ---


def pad_vocabulary(weights_VD: Tensor) -> Tensor:
    """The embedding with zero rows added up to a multiple of a GPU's tile, weights_PD.

    Plain, and on a CPU: the embedding as it is. Callers cut off the scores of the added rows.
    Karpathy's nanoGPT became 25 % faster with a vocabulary of 50,304 instead of 50,257.
    """
    if is_plain() or weights_VD.device.type == "cpu" or len(weights_VD) % GPU_TILE == 0:
        return weights_VD
    return F.pad(weights_VD, (0, 0, 0, -len(weights_VD) % GPU_TILE))


class PackedWeights(nn.Module):
    """A linear map with its weights in oneDNN's order; equal to `F.linear` up to rounding.

    Plain: `F.linear`, which brings the weights into that order at each call. For the few rows of
    greedy decoding on a CPU that makes a search 1.29 times as long, in bf16 1.19 times.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None = None) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
        self.bias_O = bias_O

    def forward(self, input: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        if residual is not None:
            return torch.ops.mkldnn._linear_pointwise.binary(
                input, residual, self.packed, self.bias_O, "add"
            )
        return torch.ops.mkldnn._linear_pointwise(
            input, self.packed, self.bias_O, "relu" if relu else "none", [], ""
        )


def product(
    linear: nn.Linear | PackedWeights,
    input: Tensor,
    residual: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """linear(input), plus `residual` or with ReLU after it, without the calls of modules."""
    if isinstance(linear, PackedWeights):
        return linear.forward(input, residual, relu)
    output = F.linear(input, linear.weight, linear.bias)
    if residual is not None:
        return output.add_(residual)
    return output.relu_() if relu else output


def norm(module: nn.LayerNorm, input: Tensor) -> Tensor:
    """module(input), without the call of a module."""
    return torch.layer_norm(input, module.normalized_shape, module.weight, module.bias, module.eps)


@functools.cache
def is_mkl_slow() -> bool:
    """Whether MKL, which computes torch's fp32 products on a CPU, uses half of its registers.

    On processors of other makers than Intel, MKL uses AVX2 even if they have AVX-512. The kind of
    processor decides, not a measurement, since a run's results may not depend on chance.
    """
    has_avx512 = torch.cpu.get_capabilities().get("avx512_f", False)
    is_of_others = cpu_fact("vendor_id") not in (None, "GenuineIntel")
    return has_avx512 and is_of_others and torch.backends.mkl.is_available() and _has_onednn()


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN computes products in this dtype with instructions of this CPU."""
    if is_plain() or device.type != "cpu":
        return False
    # On ARM, oneDNN passes its products on to a library that does not read its order.
    is_x86 = torch.cpu.get_capabilities().get("architecture") == "x86_64"
    is_fast = {torch.float32: is_mkl_slow(), torch.bfloat16: has_bf16(device)}
    return is_x86 and is_fast.get(dtype, False) and _has_onednn()


def _has_onednn() -> bool:
    """Whether this torch has oneDNN's products, which are private operations of torch."""
    one_11 = torch.ones(1, 1)
    try:
        return torch.equal(PackedWeights(one_11)(one_11), one_11)
    except (AttributeError, RuntimeError, TypeError):  # built without oneDNN, or changed by torch
        return False
