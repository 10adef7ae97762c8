"""Environment variables that the libraries under torch read once, most of them when it is imported.

They are defaults: what the user has set stays. It does without torch.
"""

from collections.abc import MutableMapping
from pathlib import Path

# How often an idle thread of torch (GCC's OpenMP) looks for work before it sleeps. By default it
# goes on for milliseconds, in which other programs on the same cores stand still: next to another
# training, one keeps a third to a half of its speed with this value, and about a fifth by default
# (`python -m benchmarks.neighbours`).
SPIN_COUNT = 2000
# Kernels that oneDNN and torch each keep; 128 are those of two or three passes. In bf16 and for
# packed weights oneDNN compiles one for each shape of a product, at half a MiB and more, and keeps
# 1,024, but batches come in so many shapes that few are met again in time.
KERNELS_KEPT = 128


def set_defaults(environment: MutableMapping[str, str]) -> None:
    """Set what the user has not; to be called before torch is imported."""
    if "OMP_WAIT_POLICY" not in environment:  # the same choice, in other words
        environment.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))
    for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        environment.setdefault(cache, str(KERNELS_KEPT))
    # A lost store is reported by the watchdog, not by twenty lines of torch.
    environment.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # Sentences make many shapes: blocks of fixed sizes would leave gaps that none of them fits.
    if "PYTORCH_CUDA_ALLOC_CONF" not in environment and can_expand_segments():  # its older name
        environment.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")


def can_expand_segments(
    release: Path = Path("/proc/sys/kernel/osrelease"), tegra: Path = Path("/etc/nv_tegra_release")
) -> bool:
    """False under WSL and on Jetson: their drivers fail at the first one (pytorch#192330)."""
    try:
        return "microsoft" not in release.read_text().lower() and not tegra.exists()
    except OSError:
        return False
