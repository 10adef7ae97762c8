"""The precision in which the layers compute.

Parameters, gradients, optimizer and checkpoints are always fp32. In bf16, all activations have 16
bits, and the weights are cast once a pass. Sums of many terms stay fp32: in matrix products, norms
and the loss, the embedding's gradient, and the optimizer's moments.
"""

import torch

from translate_ddp.settings import Precision


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The dtype of `precision`; auto is bf16 where the device multiplies matrices faster in it."""
    is_bf16 = precision == "bf16" or (precision == "auto" and has_bf16(device))
    return torch.bfloat16 if is_bf16 else torch.float32


def has_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for matrix products in bf16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_tile"))


def precision_warning(precision: Precision, device: torch.device) -> str | None:
    """A warning for GPUs without bf16 (V100, T4), which compute in fp32; otherwise None.

    There is no fp16: its loss scale adapts by skipping steps, so rounding would decide which
    batches count, and no such GPU was available for tests.
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
