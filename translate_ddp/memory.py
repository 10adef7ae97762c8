"""What the libraries under torch hold on to of a CPU's memory, for the whole process."""

import ctypes
import os

KERNELS_KEPT = 128  # of two or three passes
MMAP_THRESHOLD_BYTES = 32 * 2**20  # the most that glibc takes

# Parameters of glibc's mallopt(3).
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def keep_few_kernels() -> None:
    """Bound the memory that oneDNN takes for kernels; to be called before the first product.

    In bf16, and for packed weights, oneDNN compiles a kernel for each shape of a product and keeps
    1,024 of them, as does torch, at half a MiB and more; but batches come in so many shapes that
    few are met again in time.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, str(KERNELS_KEPT))


def keep_freed_memory() -> None:
    """Let what a step frees serve the next one.

    glibc hands large blocks back and asks for them again a moment later, when the system has to
    clear each of their pages: 7% of a step of 2,048 tokens in bf16, and a fifth of one of 8
    sentences. Before training it is called when the corpus is prepared, which frees much that is
    not needed again. Other C libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        mallopt(M_TRIM_THRESHOLD, -1)  # never
