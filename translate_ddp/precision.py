"""In which precision the layers compute.

Parameters, gradients, optimizer and checkpoints are fp32 always. In bf16 all activations are 16
bits wide, and so are the weights as the layers meet them, cast once a pass, where autocast goes to
and fro at each layer. Sums that run over many terms stay fp32: those inside matrix products, norms
and the loss, the embedding's gradient, and what the optimizer adds up.
"""

import os

import torch

from translate_ddp.settings import Precision

KERNELS_KEPT = 128  # of two or three passes


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """What is asked for; auto is bf16 where the device multiplies matrices faster in it."""
    if precision == "auto":
        return torch.bfloat16 if has_bf16(device) else torch.float32
    return torch.bfloat16 if precision == "bf16" else torch.float32


def has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def keep_few_kernels() -> None:
    """Bound the memory that oneDNN takes on a CPU; to be called before the first product.

    In bf16, and for packed weights, oneDNN compiles a kernel for each shape of a product and keeps
    1,024 of them, as does torch, at half a MiB and more; but batches come in so many shapes that
    few are met again in time.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, str(KERNELS_KEPT))
