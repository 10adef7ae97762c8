"""The machine that measures: what it is, and how fast it multiplies matrices.

The product of two large matrices is the measured ceiling: a model's step cannot be faster than its
multiplications at this pace.
"""

import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import torch

PRODUCTS = 7  # timed, after 2 that are not
SIZES = {"cpu": 2048, "cuda": 8192}
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def facts() -> dict[str, Any]:
    """What a reader has to know to compare numbers with their own."""
    told: dict[str, Any] = {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "bf16 instructions": ", ".join(_bf16_flags()) or "none",
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "device": default_device().type,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
    if torch.cuda.is_available():
        told["gpu"] = torch.cuda.get_device_name()
        told["gpu_memory_gib"] = round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
    return told


def default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def matrix_peaks(device: torch.device | str = "cpu") -> dict[str, float]:
    """GFLOP/s of a large square product by type, on all cores or one GPU."""
    return {name: _pace(torch.device(device), dtype) for name, dtype in TYPES.items()}


def _pace(device: torch.device, dtype: torch.dtype) -> float:
    size = SIZES[device.type]
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds = [_seconds_of_product(a, b) for _ in range(PRODUCTS + 2)][2:]
    return 2 * size**3 / statistics.median(seconds) / 1e9


def _seconds_of_product(a: torch.Tensor, b: torch.Tensor) -> float:
    _wait_for(a.device)
    begun = time.perf_counter()
    torch.mm(a, b)
    _wait_for(a.device)
    return time.perf_counter() - begun


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _cpu_model() -> str:
    return _cpuinfo().get("model name", platform.machine())


def _bf16_flags() -> list[str]:
    return [flag for flag in _cpuinfo().get("flags", "").split() if "bf16" in flag]


def _cpuinfo() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    first, _, _ = Path("/proc/cpuinfo").read_text().partition("\n\n")
    lines = [line.partition(":") for line in first.splitlines()]
    return {name.strip(): value.strip() for name, _, value in lines}
