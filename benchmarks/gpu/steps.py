"""Measurements of training steps, for all parts that train."""

import functools
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.common import Values
from benchmarks.flops import step_flop
from benchmarks.gpu.case import Found, Setup
from benchmarks.gpu.facts import data_sheet_tflops
from benchmarks.gpu.pairs import draw_pairs
from benchmarks.machine import matrix_peaks, status_mib, wait_for
from benchmarks.step_parts import PARTS, median_parts, profile_step
from benchmarks.workbench import Training, open_training, take_step, take_steps
from translate_ddp.data.batches import padding_share
from translate_ddp.data.dataset import PreparedData

UNTIMED_STEPS = 5
UNTIMED_COMPILED_STEPS = 25  # during which graphs for further shapes are compiled
LAUNCHED_STEPS = 7
FEW_SENTENCES = 8
NOTE = (
    "Target tokens are real tokens, without padding; MFU (model FLOP utilisation) counts the "
    "operations of real tokens on both sides, by `benchmarks/flops.py`. *host ms* is the time in "
    "which the Python thread launches a step on an idle device without waiting for it, unless the "
    "launch queue is full; *host ms, 8 sentences* is the same for a step that is too small to fill "
    "the queue. *waited ms* is the launch of a step and the wait for its end."
)


def measure_steps(setup: Setup, flags: list[str], data: PreparedData | None = None) -> Found:
    """Pace, utilisation, host time and memory of the steps of train.py with these flags."""
    data = data or draw_pairs(setup.sizes.pairs, setup.sizes.vocabulary)
    compiled = "--compile" in flags
    with open_training(flags, data) as training:
        peak = (setup.peaks or peaks_of(training.world.device))[precision(training)]
        begin = time.perf_counter()
        training.warm_up()
        wait_for(training.world.device)
        warm_up_seconds = time.perf_counter() - begin
        steps = take_steps(training)
        for _ in range(UNTIMED_COMPILED_STEPS if compiled else UNTIMED_STEPS):
            next(steps)
        graphs = graph_counts() if compiled else {}
        values, raw = pace(training, steps, setup.sizes.window_seconds, peak)
        values |= host_time(training, steps)
        values |= peak_memory(training.world.device)
        values["padding %"] = 100 * padding_share(training.sampler, training.loader.max_tokens)
        if compiled:
            values |= {"warm-up, s": warm_up_seconds, "graphs": graphs["graphs"]}
            raw |= {"before the window": graphs, "after it": graph_counts()}
        raw |= {"note": NOTE, "warm_up_seconds": warm_up_seconds, "flags": flags}
        return Found(values, raw)


def pace(
    training: Training, steps: Iterator[np.ndarray], seconds: float, peak: float
) -> tuple[Values, dict[str, Any]]:
    """Steps for so many seconds; waits for the device once, at the end."""
    device, lengths = training.world.device, training.sampler.lengths
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    taken: list[np.ndarray] = []
    wait_for(device)
    begin = time.perf_counter()
    while not taken or time.perf_counter() - begin < seconds:
        taken.append(next(steps))
    wait_for(device)
    took = time.perf_counter() - begin
    rows = np.concatenate(taken)
    flop = step_flop(training.model, lengths.source[rows], lengths.target[rows]).total
    tokens = int(lengths.target[rows].sum())
    values: Values = {
        "target tokens/s": tokens / took,
        "step ms": 1e3 * took / len(taken),
        "MFU of measured peak %": 100 * flop / took / 1e9 / peak,
        "MFU of data sheet %": data_sheet_mfu(flop / took, device),
    }
    raw = {
        "steps": len(taken),
        "seconds": took,
        "target_tokens": tokens,
        "source_tokens": int(lengths.source[rows].sum()),
        "flop": flop,
        "peak_gflops": peak,
        "precision": precision(training),
    }
    return values, raw


def data_sheet_mfu(flop_per_second: float, device: torch.device) -> str | float:
    if device.type != "cuda":
        return "needs a GPU"
    tflops = data_sheet_tflops(torch.cuda.get_device_name())
    return 100 * flop_per_second / 1e12 / tflops if tflops else "unknown"


@functools.cache
def peaks_of(device: torch.device) -> dict[str, float]:
    """GFLOP/s of large products by dtype, measured once per process."""
    return matrix_peaks(device)


def precision(training: Training) -> str:
    return "bf16" if training.model.dtype == torch.bfloat16 else "fp32"


def host_time(training: Training, steps: Iterator[np.ndarray]) -> Values:
    """Median time to launch a step, and to launch it and wait for its end."""
    device = training.world.device
    few_step = training.loader.prepare(training.sampler.plan[0][:FEW_SENTENCES])
    launched, waited, few = [], [], []
    for _ in range(LAUNCHED_STEPS):
        wait_for(device)
        begin = time.perf_counter()
        next(steps)
        launched.append(time.perf_counter() - begin)
        wait_for(device)
        waited.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        take_step(training, few_step)
        few.append(time.perf_counter() - begin)
    return {
        "waited ms": 1e3 * statistics.median(waited),
        "host ms": 1e3 * statistics.median(launched),
        f"host ms, {FEW_SENTENCES} sentences": 1e3 * statistics.median(few),
    }


def peak_memory(device: torch.device) -> Values:
    if device.type == "cuda":
        return {"peak GiB": torch.cuda.max_memory_allocated() / 2**30}
    return {"peak RSS, GiB": status_mib("VmHWM") / 1024}


def graph_counts() -> dict[str, int]:
    """Numbers of compiled graphs and of graph breaks."""
    from torch._dynamo.utils import counters

    return {
        "graphs": int(counters["stats"]["unique_graphs"]),
        "graph_breaks": sum(counters["graph_break"].values()),
    }


def kernel_groups(setup: Setup, flags: list[str]) -> Found:
    """Shares of a step by group of kernels, by the parts of `python -m benchmarks.profile`."""
    data = draw_pairs(setup.sizes.pairs, setup.sizes.vocabulary)
    with open_training(flags, data) as training:
        training.warm_up()
        steps = take_steps(training)
        for _ in range(UNTIMED_STEPS):
            next(steps)
        parts = median_parts(
            [profile_step(training, steps) for _ in range(setup.sizes.profiled_steps)]
        )
    total = sum(part.seconds for part in parts.values())
    shares: Values = {f"{name} %": 100 * parts[name].seconds / total for name in PARTS}
    raw = {
        "table": "kernel groups",
        "parts": {name: vars(part) for name, part in parts.items()},
        "note": "Kernel groups: shares of a profiled step; *host* is time without kernels.",
    }
    return Found(shares, raw)
