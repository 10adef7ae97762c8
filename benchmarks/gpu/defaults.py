"""Torch's default kernel settings for the peers, in a process where the project changed them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def current() -> tuple[str, bool, bool]:
    """The settings that `fix_cuda_kernels` of the project changes."""
    cuda = torch.backends.cuda
    reduction = bool(cuda.matmul.allow_bf16_reduced_precision_reduction)
    return torch.get_float32_matmul_precision(), reduction, cuda.cudnn_sdp_enabled()


DEFAULTS = current()  # imported before a part opens a trainer


def choose(precision: str, reduction: bool, cudnn_sdp: bool) -> None:
    torch.set_float32_matmul_precision(precision)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = reduction
    torch.backends.cuda.enable_cudnn_sdp(cudnn_sdp)


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Use the default settings within the block."""
    before = current()
    choose(*DEFAULTS)
    try:
        yield
    finally:
        choose(*before)
