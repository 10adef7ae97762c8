"""Weights for inference: cast and laid out once instead of at each product.

On a CPU each product would first bring the weights into the order in which oneDNN reads them, which
for the few rows of decoding (16) takes as long as the product itself.
"""

import copy
import hashlib
import typing

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.modeling import kernels
from translate_ddp.modeling.kernels import Linear
from translate_ddp.modeling.precision import has_bf16
from translate_ddp.modeling.transformer import Transformer


class PackedWeights(nn.Module):
    """A linear map with its weights in oneDNN's order; equal to `F.linear` but for rounding."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None = None) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
        self.bias_O = bias_O

    def forward(self, input: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            input, self.packed, self.bias_O, "none", [], ""
        )
        return product


class PaddedWeights(nn.Module):
    """The embedding as output projection, padded to the tiles of a GPU."""

    def __init__(self, weights_VD: Tensor) -> None:
        super().__init__()
        self.vocabulary = len(weights_VD)
        self.padded_PD = kernels.pad_vocabulary(weights_VD)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.padded_PD)[..., : self.vocabulary]


def ready_to_decode(model: Transformer) -> Transformer:
    """The model for inference only: itself, or a copy if weights are to be cast or laid out.

    The copy shares unchanged weights with the model. Use it before the model is trained further.
    """
    weight = model.embedding.weight
    packs = can_pack(weight.device, model.dtype)
    is_laid_out = model.projection is not None or not packs and weight.device.type == "cpu"
    if weight.dtype == model.dtype and is_laid_out:
        return model
    cast = {id(p): nn.Parameter(p.detach().to(model.dtype), False) for p in model.parameters()}
    ready = copy.deepcopy(model, memo=cast)
    if packs:
        for name in [name for name, part in ready.named_modules() if isinstance(part, Linear)]:
            linear = typing.cast(Linear, ready.get_submodule(name))
            ready.set_submodule(name, PackedWeights(linear.weight, linear.bias))
        ready.projection = PackedWeights(ready.embedding.weight)
    elif weight.device.type != "cpu":
        ready.projection = PaddedWeights(ready.embedding.weight)
    return ready


def fingerprint(model: Transformer) -> str:
    """A hash of all weights in their dtype, in hex."""
    weights = dict(model.named_parameters())
    for name, part in model.named_modules():
        if isinstance(part, PackedWeights) and part is not model.projection:
            weights[f"{name}.weight"] = part.packed.to_dense(model.dtype)
    digest = hashlib.sha256()
    for tensor in weights.values():
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN computes products in this dtype with instructions of this CPU."""
    if kernels.is_plain() or device.type != "cpu":
        return False
    # On ARM, oneDNN passes its products on to a library that does not read its order.
    is_x86 = torch.cpu.get_capabilities().get("architecture") == "x86_64"
    return is_x86 and (dtype == torch.float32 or has_bf16(device)) and has_packed_products()


def has_packed_products() -> bool:
    """Whether this torch has oneDNN's packed products, which are private operations of torch."""
    one_11 = torch.ones(1, 1)
    try:
        return torch.equal(PackedWeights(one_11)(one_11), one_11)
    except (AttributeError, RuntimeError, TypeError):  # built without oneDNN, or changed by torch
        return False
