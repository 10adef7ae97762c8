"""The device, the software, and how fast the device multiplies and copies."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.gpu.lab import Case, Found, Lab, NeedsGpu
from benchmarks.machine import facts, matrix_peaks
from benchmarks.workbench import wait_for

# Dense bf16 TFLOP/s of the data sheets; the first name that a GPU's name holds counts.
DATA_SHEET_TFLOPS = {
    "H200": 989.0,
    "H100 PCIe": 756.0,
    "H100": 989.0,
    "A100": 312.0,
    "L40S": 362.0,
    "L4": 121.0,
    "RTX 4090": 165.0,
    "A10": 125.0,
}
# Nothing here needs them; parts of this benchmark, or runs and tests of the project, do.
OPTIONAL = (
    "transformers accelerate triton pytest pytest_timeout sacrebleu jiwer tqdm yaml datasets wandb "
    "matplotlib"
).split()
COPIED_BYTES = {"cuda": 2**30, "cpu": 2**26}
COPIES = 10  # timed, after 2 that are not
DRIVER_FACTS = {"driver_version": "driver", "clocks.max.sm": "max clock", "power.limit": "power"}


def cases(lab: Lab) -> Iterator[Case]:
    yield Case("software", software)
    yield Case("GPU", lambda: gpu(lab))
    yield Case("peaks", lambda: peaks(lab))


def software() -> Found:
    installed = [name for name in OPTIONAL if find_spec(name)]
    missing = [name for name in OPTIONAL if name not in installed]
    values = facts() | {
        "libraries installed": ", ".join(installed) or "none",
        "libraries missing": ", ".join(missing) or "none",
        "PYTORCH_ALLOC_CONF": os.environ.get("PYTORCH_ALLOC_CONF", "not set"),
    }
    return Found(values, {"table": "list"})


def gpu(lab: Lab) -> Found:
    if lab.cpu:
        raise NeedsGpu
    properties = torch.cuda.get_device_properties(0)
    values: dict[str, str | float] = {
        "GPU": properties.name,
        "GPUs here": torch.cuda.device_count(),
        "memory, GiB": properties.total_memory / 2**30,
        "multiprocessors": properties.multi_processor_count,
        "compute capability": f"{properties.major}.{properties.minor}",
        "CUDA of torch": str(torch.version.cuda),
        "cuDNN": str(torch.backends.cudnn.version()),
        "NCCL": nccl_version(),
        "data sheet, dense bf16 TFLOP/s": data_sheet_tflops(properties.name) or "unknown",
    }
    return Found(values | driver_facts(), {"table": "list"})


def nccl_version() -> str:
    try:
        from torch.cuda import nccl

        return ".".join(map(str, nccl.version()))
    except Exception:  # torch was built without it
        return "none"


def driver_facts() -> dict[str, str | float]:
    """What only the driver's own tool reports; torch does not have it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {"driver": "unknown: nvidia-smi is missing"}
    query = ["-i", "0", "--query-gpu=" + ",".join(DRIVER_FACTS), "--format=csv,noheader"]
    try:
        output = subprocess.run([tool, *query], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"driver": f"unknown: {type(error).__name__}"}
    values = [value.strip() for value in output.stdout.strip().split(",")]
    if len(values) != len(DRIVER_FACTS):
        return {"driver": "unknown"}
    return dict(zip(DRIVER_FACTS.values(), values, strict=True))


def data_sheet_tflops(name: str) -> float | None:
    """Of the GPU of this name; None if it is not in the table."""
    known = (
        tflops
        for gpu, tflops in DATA_SHEET_TFLOPS.items()
        if re.search(rf"\b{gpu}\b", name) and "Laptop" not in name
    )
    return next(known, None)


def peaks(lab: Lab) -> Found:
    products = matrix_peaks(lab.device)
    values: dict[str, str | float] = {
        f"{name} product, TFLOP/s": gflops / 1e3 for name, gflops in products.items()
    }
    if not lab.cpu and (tflops := data_sheet_tflops(torch.cuda.get_device_name())):
        values["bf16 of data sheet, %"] = products["bf16"] / 10 / tflops
    values["copy, GB/s"] = copy_pace(torch.device(lab.device)) / 1e9
    note = "Products of random square matrices; a copy counts the bytes that it reads and writes."
    return Found(values, {"note": note, "gflops": products})


def copy_pace(device: torch.device) -> float:
    """Bytes a second, read and written, of a large copy on the device."""
    source: Any = torch.randint(0, 255, (COPIED_BYTES[device.type],), dtype=torch.uint8).to(device)
    target = torch.empty_like(source)
    begun = 0.0
    for turn in range(2 + COPIES):
        if turn == 2:
            wait_for(device)
            begun = time.perf_counter()
        target.copy_(source)
    wait_for(device)
    return 2 * source.numel() * COPIES / (time.perf_counter() - begun)
