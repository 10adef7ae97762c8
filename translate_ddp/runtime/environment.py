"""The platform, and defaults of variables that torch and its libraries read once, most at import.

Variables that the user has set stay. Does not import torch.
"""

import socket
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from translate_ddp.errors import UserError, report_errors

# Iterations for which an idle thread of torch (GCC's OpenMP) spins before it sleeps. Beside a
# second training on the same cores, one keeps a third to more than a half of its speed with this
# value, and about a fifth with the default (benchmarks/results/neighbours.md).
SPIN_COUNT = 2000
# Compiled kernels that oneDNN and torch each cache, enough for two or three passes. oneDNN compiles
# one of half a MiB and more for each matmul shape in bf16 and of packed weights. Batches have so
# many shapes that few kernels are used again in time, even with its default of 1,024.
CACHED_KERNELS = 128


def check_platform(platform: str = sys.platform) -> None:
    """End the program with one message on Windows, before imports that fail there.

    It has no file locks and signals of POSIX, and torch has no NCCL for it.
    """
    if platform == "win32":
        with report_errors():
            raise UserError(
                "Windows is not supported: install and run translate_ddp in WSL, the Windows "
                "Subsystem for Linux (`wsl --install`)."
            )


def set_defaults(environment: MutableMapping[str, str]) -> None:
    """Set the variables that the user has not set. Call it before torch is imported."""
    if "OMP_WAIT_POLICY" not in environment:  # controls the same
        environment.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))
    for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        environment.setdefault(cache, str(CACHED_KERNELS))
    # A lost store is reported by the watchdog, not by twenty lines of torch.
    environment.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # Batches have many shapes: blocks of fixed sizes would fragment the memory.
    if "PYTORCH_CUDA_ALLOC_CONF" not in environment and can_expand_segments():  # its older name
        environment.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")


def check_interfaces(environment: Mapping[str, str]) -> None:
    """Raise UserError if this machine lacks the network interfaces named for gloo."""
    found = [name for _, name in socket.if_nameindex()]
    for name in filter(None, environment.get("GLOO_SOCKET_IFNAME", "").split(",")):
        if name not in found:
            raise UserError(
                f"GLOO_SOCKET_IFNAME is {name}, but {socket.gethostname()} has the network "
                f"interfaces {', '.join(found)}: name the one that the other nodes can reach.",
                this_rank_only=True,
            )


def can_expand_segments(
    release: Path = Path("/proc/sys/kernel/osrelease"), tegra: Path = Path("/etc/nv_tegra_release")
) -> bool:
    """False under WSL and on Jetson, whose drivers cannot expand segments (pytorch#192330)."""
    is_wsl = not release.exists() or "microsoft" in release.read_text().lower()
    return not is_wsl and not tegra.exists()
