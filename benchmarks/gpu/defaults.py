"""Torch's default kernel settings for the peers, in a process where the project changed them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def current() -> dict[str, Any]:
    """The settings that `fix_cuda_kernels` of the project changes."""
    return {
        "precision": torch.get_float32_matmul_precision(),
        "reduction": torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "cudnn_sdp": torch.backends.cuda.cudnn_sdp_enabled(),
    }


DEFAULTS = current()  # imported before a part opens a trainer


def choose(kernels: dict[str, Any]) -> None:
    torch.set_float32_matmul_precision(kernels["precision"])
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = kernels["reduction"]
    torch.backends.cuda.enable_cudnn_sdp(kernels["cudnn_sdp"])


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Use the default settings within the block."""
    before = current()
    choose(DEFAULTS)
    try:
        yield
    finally:
        choose(before)
