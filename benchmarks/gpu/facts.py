"""The device, the software, and the measured pace of matrix products and copies."""

import os
import subprocess
from collections.abc import Iterator

import torch

from benchmarks import machine
from benchmarks.common import Values
from benchmarks.gpu.case import Case, Measurement, Setup, Unavailable
from benchmarks.machine import matrix_peaks, seconds_of
from translate_ddp.runtime.device import peak_flop

COPIED_BYTES = {"cuda": 2**30, "cpu": 2**26}
DRIVER_FACTS = "driver_version,clocks.max.sm,power.limit"


def facts(setup: Setup) -> Iterator[Case]:
    yield Case("software", software)
    yield Case("GPU", lambda: gpu(setup))
    yield Case("peaks", lambda: peaks(setup))


def software() -> Measurement:
    values = machine.facts() | {
        "PYTORCH_ALLOC_CONF": os.environ.get("PYTORCH_ALLOC_CONF", "not set")
    }
    return Measurement(values, {"table": "list"})


def gpu(setup: Setup) -> Measurement:
    if setup.cpu:
        raise Unavailable("needs a GPU")
    properties = torch.cuda.get_device_properties(0)
    values: Values = {
        "GPU": properties.name,
        "GPUs here": torch.cuda.device_count(),
        "memory, GiB": properties.total_memory / 2**30,
        "multiprocessors": properties.multi_processor_count,
        "compute capability": f"{properties.major}.{properties.minor}",
        "CUDA of torch": str(torch.version.cuda),
        "cuDNN": str(torch.backends.cudnn.version()),
        "data sheet, dense bf16 TFLOP/s": peak_flop(torch.device("cuda")) / 1e12 or "unknown",
        DRIVER_FACTS.replace(",", ", "): driver_facts(),
    }
    return Measurement(values, {"table": "list"})


def driver_facts() -> str:
    """Facts that only nvidia-smi reports, not torch."""
    query = ["nvidia-smi", "-i", "0", f"--query-gpu={DRIVER_FACTS}", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {type(error).__name__}"


def peaks(setup: Setup) -> Measurement:
    products = matrix_peaks(setup.device)
    values: Values = {f"{name} product, TFLOP/s": gflops / 1e3 for name, gflops in products.items()}
    if peak := peak_flop(torch.device(setup.device)):
        values["fastest of data sheet, %"] = 100 * max(products.values()) / (peak / 1e9)
    source = torch.ones(COPIED_BYTES[setup.device], dtype=torch.uint8, device=setup.device)
    target = torch.empty_like(source)
    seconds = seconds_of(lambda: target.copy_(source), source.device)
    values["copy, GB/s"] = 2 * source.numel() / seconds / 1e9
    note = "Products of random square matrices; a copy counts bytes read plus bytes written."
    return Measurement(values, {"note": note, "gflops": products})
