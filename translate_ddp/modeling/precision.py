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


def precision_warning(precision: Precision, device: torch.device) -> str | None:
    """What a user with a GPU from before bf16 (V100, T4) should know.

    There is no fp16: it needs a loss scale that adapts by trying and skipping steps, so the batches
    that count would depend on rounding, and no such GPU was at hand to try it on.
    """
    if device.type != "cuda" or has_bf16(device) or precision == "fp32":
        return None
    name = torch.cuda.get_device_name(device)
    if precision == "bf16":
        return f"{name} only emulates bf16, which is slow: leave out --precision."
    return (
        f"{name} has no bf16, and fp16 is not supported: the layers compute in fp32, several times "
        "slower than an Ampere or newer GPU (compute capability 8.0) would in bf16."
    )
