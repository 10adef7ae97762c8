"""A model made ready to decode: weights cast and laid out once instead of at each product.

A search multiplies the same weights by a few rows, over and over. On a CPU each of these products
would first bring the weights into the order in which its instructions read them, which for 16 rows
takes as long as the product itself.
"""

import copy
import typing

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.modeling.precision import has_bf16
from translate_ddp.modeling.transformer import (
    GPU_TILE,
    Embedding,
    Linear,
    Transformer,
    pad_vocabulary,
)


class PackedWeights(nn.Module):
    """A linear map in oneDNN's order, for inference; but for rounding it is `F.linear`."""

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
    """An embedding with a second, packed copy of its weights for the scores."""

    def __init__(self, embedding: Embedding) -> None:
        vocabulary, width = embedding.weight.shape
        super().__init__(vocabulary, width, _weight=embedding.weight, _freeze=True)
        self.projection = PackedWeights(embedding.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.projection(hidden)
        return scores


class PaddedEmbedding(Embedding):
    """An embedding with a second copy of its weights for the scores, as a GPU multiplies best."""

    def __init__(self, embedding: Embedding) -> None:
        vocabulary, width = embedding.weight.shape
        super().__init__(vocabulary, width, _weight=embedding.weight, _freeze=True)
        self.projection_PD = pad_vocabulary(embedding.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.projection_PD)[..., : self.num_embeddings]


def ready_to_decode(model: Transformer) -> Transformer:
    """The model for inference alone; a copy, if anything is to be cast or laid out.

    The copy shares what weights it can, so it is for use before these are trained on.
    """
    weight = model.embedding.weight
    packs = can_pack(weight.device, model.dtype)
    pads = weight.device.type != "cpu" and len(weight) % GPU_TILE > 0
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
    """Whether products on this device are oneDNN's own, and it has instructions for the type."""
    onednn = torch.backends.mkldnn
    is_own = device.type == "cpu" and onednn.is_available() and not onednn.is_acl_available()
    return is_own and (dtype == torch.float32 or has_bf16(device))
