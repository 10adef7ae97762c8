"""Weights for inference: cast and laid out once instead of at each product.

Decoding multiplies the same weights by a few rows, over and over. On a CPU each of these products
would first bring the weights into the order in which oneDNN reads them, which for 16 rows takes as
long as the product itself.
"""

import copy
import typing

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.modeling import kernels
from translate_ddp.modeling.kernels import Linear
from translate_ddp.modeling.precision import has_bf16
from translate_ddp.modeling.transformer import Embedding, Transformer


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


class PackedEmbedding(Embedding):
    """An embedding with a second, packed copy of its weights for the logits."""

    def __init__(self, embedding: Embedding) -> None:
        vocabulary, width = embedding.weight.shape
        super().__init__(vocabulary, width, _weight=embedding.weight, _freeze=True)
        self.projection = PackedWeights(embedding.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.projection(hidden)
        return scores


class PaddedEmbedding(Embedding):
    """An embedding with a second copy of its weights for the logits, padded to a GPU's tiles."""

    def __init__(self, embedding: Embedding) -> None:
        vocabulary, width = embedding.weight.shape
        super().__init__(vocabulary, width, _weight=embedding.weight, _freeze=True)
        self.projection_PD = kernels.pad_vocabulary(embedding.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.projection_PD)[..., : self.num_embeddings]


def ready_to_decode(model: Transformer) -> Transformer:
    """The model for inference only: itself, or a copy if weights are to be cast or laid out.

    The copy shares unchanged weights with the model. Use it before the model is trained further.
    """
    weight = model.embedding.weight
    packs = can_pack(weight.device, model.dtype)
    pads = kernels.missing_rows(weight) > 0
    is_ready = isinstance(model.embedding, PackedEmbedding | PaddedEmbedding)
    if weight.dtype == model.dtype and (is_ready or not (packs or pads)):
        return model
    cast = {id(p): nn.Parameter(p.detach().to(model.dtype), False) for p in model.parameters()}
    ready = copy.deepcopy(model, memo=cast)
    if packs:
        for name in [name for name, part in ready.named_modules() if isinstance(part, Linear)]:
            linear = typing.cast(Linear, ready.get_submodule(name))
            ready.set_submodule(name, PackedWeights(linear.weight, linear.bias))
        ready.embedding = PackedEmbedding(ready.embedding)
    elif pads:
        ready.embedding = PaddedEmbedding(ready.embedding)
    return ready


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
