"""In which precision the layers compute, and how their weights get there.

Parameters, gradients, optimizer and checkpoints are fp32 always. In bf16 a copy of the weights and
all activations are 16 bits wide; sums that run over many terms stay fp32: those inside matrix
products, norms and the loss, the embedding's gradient, and what the optimizer adds up.
"""

import copy
from typing import Literal

import torch
from torch import Tensor

from translate_ddp.model import Transformer

Precision = Literal["auto", "fp32", "bf16"]


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """What is asked for; auto is bf16 where the device multiplies matrices faster in it."""
    if precision == "auto":
        return torch.bfloat16 if has_bf16(device) else torch.float32
    return torch.bfloat16 if precision == "bf16" else torch.float32


def has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def lowered(model: Transformer, dtype: torch.dtype) -> dict[str, Tensor]:
    """The layers' weights in `dtype`, by name; their gradients reach the model's own.

    Cast once a pass and met by activations that are in `dtype` already, where autocast goes to and
    fro at each layer. The embedding is looked up in its own precision, for its gradient's sake.
    """
    return {
        name: weight.to(dtype)
        for name, weight in model.named_parameters()
        if weight.dtype != dtype and weight is not model.embedding.weight
    }


def in_dtype(model: Transformer, dtype: torch.dtype) -> Transformer:
    """The model to decode with: itself, or a copy in another precision."""
    if model.embedding.weight.dtype == dtype:
        return model
    return copy.deepcopy(model).to(dtype)
