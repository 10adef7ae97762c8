"""In which precision the layers compute.

Parameters, gradients, optimizer and checkpoints are fp32 always. In bf16 all activations are 16
bits wide, and so are the weights as the layers meet them, cast once a pass, where autocast goes to
and fro at each layer. Sums that run over many terms stay fp32: those inside matrix products, norms
and the loss, the embedding's gradient, and what the optimizer adds up.
"""

import torch

from translate_ddp.settings import Precision


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """What is asked for; auto is bf16 where the device multiplies matrices faster in it."""
    if precision == "auto":
        return torch.bfloat16 if has_bf16(device) else torch.float32
    return torch.bfloat16 if precision == "bf16" else torch.float32


def has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
