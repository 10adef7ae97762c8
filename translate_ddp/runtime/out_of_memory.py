"""Errors of a device without free memory, reported as what was tried and what to lower."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from translate_ddp.errors import UserError
from translate_ddp.runtime.device import describe_device

FREE_MEMORY = "end other programs on this device, or hide it with CUDA_VISIBLE_DEVICES=''"
# CUDA's runtime and driver, cuBLAS, NCCL, and torch's CPU allocator.
MESSAGES = re.compile(
    r"CUDA (driver )?error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|Cuda failure.*out of memory|DefaultCPUAllocator"
)


class OutOfMemory(UserError):
    """What did not fit, and what to lower."""


@contextmanager
def explain_out_of_memory(
    device: torch.device, where: Callable[[], str], advice: str
) -> Iterator[None]:
    """Raise OutOfMemory in place of torch's error: which device, where, and what to lower."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        text = f"Out of memory on {describe_device(device)}, {where()}: {advice}."
        raise OutOfMemory(text, this_rank_only=True) from error


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; only torch's GPU allocator and Python have a type for it."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and bool(MESSAGES.search(str(error)))
    )
