"""The process before torch: checks, signals, variables, cores and memory. Does not import torch.

`begin_process` is the first call of a program. So this module is read by any Python 3.8 or later,
and its import imports nothing else of the package.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from types import FrameType, TracebackType

    from translate_ddp.runtime.launch import Launch

MIN_PYTHON = (3, 11)
# Iterations for which an idle thread of torch (GCC's OpenMP) spins before it sleeps. Beside a
# second training on the same cores, one keeps a third to more than a half of its speed with this
# value, and about a fifth with the default (benchmarks/results/neighbours.md).
SPIN_COUNT = 2000
# Compiled kernels that oneDNN and torch each cache, enough for two or three micro-batches. oneDNN
# compiles one of half a MiB and more for each matmul shape in bf16, of packed weights, and in fp32
# where it replaces MKL. Batches have so many shapes that few kernels are used again in time, even
# with its default of 1,024.
CACHED_KERNELS = 128
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt(3)
MMAP_THRESHOLD_BYTES = 32 * 2**20  # the maximum of glibc


def begin_process() -> None:
    """Do all that must precede the imports of a program, which take seconds. It takes no time.

    Ends the process with one message and code 2 on Windows and for an old Python; later, where a
    library is missing. Until `open_world` receives stop signals, SIGTERM ends the process, also as
    process 1 of a container, and Ctrl-C prints no traceback. Sets the variables of `set_defaults`.
    (Without garbage collections, the imports would take 0.4 of 2.8 s less: not worth a trick.)
    """
    _check_system()
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit_by_signal)
    sys.excepthook = _report_uncaught
    set_defaults(os.environ)


def _check_system() -> None:
    if sys.platform == "win32":  # no file locks and signals of POSIX, no NCCL
        _fail(
            "Windows is not supported: install and run translate_ddp in WSL, the Windows Subsystem "
            "for Linux (`wsl --install`)."
        )
    if sys.version_info < MIN_PYTHON:
        found = ".".join(map(str, sys.version_info[:2]))
        wanted = ".".join(map(str, MIN_PYTHON))
        _fail(
            f"translate_ddp needs Python {wanted} or later, but {sys.executable} is Python {found}."
            " Make a virtual environment with a later one."
        )


def _fail(problem: str) -> NoReturn:
    if os.environ.get("RANK", "0") == "0":
        print(f"error: {problem}", file=sys.stderr, flush=True)
    os._exit(2)


def _exit_by_signal(number: int, _: FrameType | None) -> None:
    with suppress(ImportError, OSError):  # it is being imported; a disk has failed
        from translate_ddp.errors import cleanup

        cleanup.close()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # process 1 of a container: the kernel ignores its default actions


def _report_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Report a missing library without a traceback, and a Ctrl-C not at all."""
    if issubclass(kind, KeyboardInterrupt):
        os._exit(128 + signal.SIGINT)
    library = (getattr(error, "name", None) or "").partition(".")[0]
    if issubclass(kind, ModuleNotFoundError) and library not in ("", "translate_ddp"):
        _fail(
            f"The Python at {sys.executable} has no library {library}: activate the virtual "
            "environment of translate_ddp, or run pip install -r requirements.txt."
        )
    sys.__excepthook__(kind, error, traceback)


def set_defaults(environment: MutableMapping[str, str]) -> None:
    """Set the variables that the user has not set. Call it before torch is imported.

    torch and its libraries read them once, most at import.
    """
    if "OMP_WAIT_POLICY" not in environment:  # controls the same
        environment.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))
    for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        environment.setdefault(cache, str(CACHED_KERNELS))
    # A lost store is reported by the supervisor, not by twenty lines of torch.
    environment.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    environment.setdefault("KINETO_LOG_LEVEL", "6")  # --profile reports its trace itself
    # NCCL's threads would abort a process at an error, or after a wait, before the supervisor
    # reports why: STATUS.json would stay "running".
    for name in ("ASYNC_ERROR_HANDLING", "ENABLE_MONITORING", "RETHROW_CUDA_ERRORS"):
        environment.setdefault(f"TORCH_NCCL_{name}", "0")
    # Batches have many shapes: blocks of fixed sizes would fragment the memory.
    if "PYTORCH_CUDA_ALLOC_CONF" not in environment and can_expand_segments():  # its older name
        environment.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")


def can_expand_segments(
    release: Path = Path("/proc/sys/kernel/osrelease"), tegra: Path = Path("/etc/nv_tegra_release")
) -> bool:
    """False under WSL and on Jetson, whose drivers cannot expand segments (pytorch#192330)."""
    is_wsl = not release.exists() or "microsoft" in release.read_text().lower()
    return not is_wsl and not tegra.exists()


def unknown_interface(names: str) -> str:
    """What is wrong with the network interfaces that GLOO_SOCKET_IFNAME names, or ""."""
    found = [name for _, name in socket.if_nameindex()]
    for name in filter(None, names.split(",")):
        if name not in found:
            return (
                f"GLOO_SOCKET_IFNAME is {name}, but {socket.gethostname()} has the network "
                f"interfaces {', '.join(found)}: name the one that the other nodes can reach."
            )
    return ""


def keep_freed_memory() -> None:
    """Let glibc reuse the memory that a step frees, instead of returning it to the system.

    The system clears each page that glibc requests again: 7% of the time of a step of 2,048 tokens
    in bf16, and a fifth of one of 8 sentences. Call it after the corpus is prepared, which frees
    much memory that is not needed again. No effect with other C libraries.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        mallopt(M_TRIM_THRESHOLD, -1)  # never


def threads_per_process(launch: Launch) -> int:
    """OMP_NUM_THREADS if the user set it, else this process's share of the cores."""
    chosen = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if chosen.isdecimal() and int(chosen) and not _is_torchruns_default(chosen, launch):
        return int(chosen)
    return max(1, usable_cores() // launch.local_size)


def _is_torchruns_default(chosen: str, launch: Launch) -> bool:
    """Whether torchrun has set OMP_NUM_THREADS=1, as it does for several ranks by default."""
    if not (launch.under_torchrun and chosen == "1"):
        return False
    try:
        # The environment with which torchrun was started, before it set its own variables.
        variables = Path(f"/proc/{os.getppid()}/environ").read_bytes()
        return b"\0OMP_NUM_THREADS=" not in b"\0" + variables
    except OSError:
        return True


def usable_cores() -> int:
    """Cores in this process's affinity mask, or the CPU quota of its container if lower."""
    has_mask = hasattr(os, "sched_getaffinity")  # not on macOS
    cores = len(os.sched_getaffinity(0)) if has_mask else os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in cpu_quotas())]))


def cpu_quotas(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[float]:
    """CPU limits of this process's control group (cgroup v2) and its parents, in cores."""
    with suppress(OSError):
        for line in own.read_text().splitlines():
            if line.startswith("0::/"):
                group = root / line.removeprefix("0::/")
                for folder in (group, *group.parents):
                    with suppress(OSError, ValueError):  # no such file, or no limit: `max PERIOD`
                        quota, period = (folder / "cpu.max").read_text().split()
                        yield int(quota) / int(period)
