"""A device without memory left, reported as what was tried and what to lower."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from translate_ddp.errors import UserError

FREE_MEMORY = "end other programs on this device, or hide it by CUDA_VISIBLE_DEVICES=''"
# CUDA's runtime and driver, cuBLAS, NCCL, and a CPU's allocator.
IN_WORDS = re.compile(
    r"CUDA (driver )?error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|Cuda failure.*out of memory|DefaultCPUAllocator"
)


class OutOfMemory(UserError):
    """What did not fit, and what to lower. Ranks run out of memory one by one."""

    def __init__(self, text: str) -> None:
        super().__init__(text, this_rank_only=True)


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
        raise OutOfMemory(text) from error


def is_out_of_memory(error: Exception) -> bool:
    """Torch has a type for its allocator of a GPU's memory, and only words for all others."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and bool(IN_WORDS.search(str(error)))
    )


def describe_device(device: torch.device) -> str:
    if device.type != "cuda":
        return str(device)
    total = torch.cuda.get_device_properties(device).total_memory / 2**30
    return f"{device} ({torch.cuda.get_device_name(device)}, {total:.0f} GiB)"
