"""Facts about this machine, and its measured peak: the product of two large matrices."""

import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from translate_ddp.modeling.kernels import multiply
from translate_ddp.runtime.device import processor_name

CALLS = 7  # timed, after 2 untimed ones
SIZES = {"cpu": 2048, "cuda": 8192}
TYPES = {"cpu": {"fp32": torch.float32, "bf16": torch.bfloat16}}
TYPES["cuda"] = TYPES["cpu"] | {"fp16": torch.float16}


def facts() -> dict[str, Any]:
    """Hardware, software and date, by name."""
    cpu = dict(re.findall(r"(.+?)\s*: (.+)", Path("/proc/cpuinfo").read_text()))
    bf16 = [flag for flag in cpu.get("flags", "").split() if "bf16" in flag]
    found: dict[str, Any] = {
        "cpu": processor_name(torch.device("cpu")),
        "cores": len(os.sched_getaffinity(0)),
        "bf16 instructions": ", ".join(bf16) or "none",
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "device": default_device().type,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
    if torch.cuda.is_available():
        found["gpu"] = processor_name(torch.device("cuda"))
        found["gpu_memory_gib"] = round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
    return found


def facts_and_peaks() -> dict[str, Any]:
    """`facts`, and the measured matrix peaks of the default device."""
    peaks = matrix_peaks(default_device())
    return facts() | {f"{n} matrix product, GFLOP/s": round(peak) for n, peak in peaks.items()}


def default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def matrix_peaks(device: torch.device | str = "cpu") -> dict[str, float]:
    """Measured GFLOP/s of a large square product by dtype, on all cores or one GPU."""
    device, found = torch.device(device), {}
    size = SIZES[device.type]
    for name, dtype in TYPES[device.type].items():
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        found[name] = 2 * size**3 / seconds_of(partial(multiply, a, b), device) / 1e9
    return found


def seconds_of(call: Callable[[], object], device: torch.device) -> float:
    """Median time of a call and of its work on the device."""
    seconds = []
    for _ in range(CALLS + 2):
        wait_for(device)
        begin = time.perf_counter()
        call()
        wait_for(device)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[2:])


def wait_for(device: torch.device) -> None:
    """Return when all work submitted to the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def reset_peak(device: torch.device) -> None:
    """Reset the peak of the memory."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): sets VmHWM to VmRSS


def peak_mib(device: torch.device) -> float:
    """The most memory since `reset_peak`: allocated by torch on a GPU, or resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
