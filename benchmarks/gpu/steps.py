"""What is measured of training steps, the same for all parts that train."""

import functools
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.flops import step_flop
from benchmarks.gpu.facts import data_sheet_tflops
from benchmarks.gpu.lab import Found, Lab
from benchmarks.gpu.pairs import draw_pairs
from benchmarks.machine import matrix_peaks
from benchmarks.profile import PARTS, profile_step, typical
from benchmarks.workbench import open_trainer, status_mib, take_steps, wait_for
from translate_ddp.data.batches import padding_share
from translate_ddp.data.dataset import PreparedData
from translate_ddp.training.trainer import Trainer

UNTIMED_STEPS = 5
UNTIMED_COMPILED_STEPS = 25  # among which graphs for further shapes are compiled
LAUNCHED_STEPS = 7
FEW_SENTENCES = 8
NOTE = (
    "Target tokens are real ones, padding not counted; MFU (model FLOP utilisation) counts the "
    "operations of real tokens on both sides, by `benchmarks/flops.py`. *host ms* is how long the "
    "Python thread takes to launch a step on an idle device without waiting for it. A launch "
    "queue that is full makes it wait nevertheless; *host ms, 8 sentences* is the same of a step "
    "so small that the queue does not fill. *waited ms* is that step and the wait for its end."
)


def measure_steps(lab: Lab, flags: list[str], data: PreparedData | None = None) -> Found:
    """Pace, utilisation, host time and memory of the steps that train.py takes with these flags."""
    data = data or draw_pairs(lab.pairs, lab.vocabulary)
    compiled = "--compile" in flags
    with open_trainer(flags, data) as trainer:
        peak = (lab.peaks or peaks_of(trainer.world.device))[precision(trainer)]
        begun = time.perf_counter()
        trainer.warm_up()
        wait_for(trainer.world.device)
        warm_up_seconds = time.perf_counter() - begun
        steps = take_steps(trainer)
        for _ in range(UNTIMED_COMPILED_STEPS if compiled else UNTIMED_STEPS):
            next(steps)
        graphs = graph_counts() if compiled else {}
        values, raw = pace(trainer, steps, lab.window_seconds, peak)
        values |= host_time(trainer, steps)
        values |= peak_memory(trainer.world.device)
        values["padding %"] = 100 * padding_share(trainer.sampler, trainer.loader.max_tokens)
        if compiled:
            values |= {"warm-up, s": warm_up_seconds, "graphs": graphs["graphs"]}
            raw |= {"before the window": graphs, "after it": graph_counts()}
        raw |= {"note": NOTE, "warm_up_seconds": warm_up_seconds, "flags": flags}
        return Found(values, raw)


def pace(
    trainer: Trainer, steps: Iterator[np.ndarray], seconds: float, peak: float
) -> tuple[dict[str, str | float], dict[str, Any]]:
    """Steps for so many seconds, waited for once at the end, as in a run."""
    device, lengths = trainer.world.device, trainer.sampler.lengths
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    taken: list[np.ndarray] = []
    wait_for(device)
    begun = time.perf_counter()
    while not taken or time.perf_counter() - begun < seconds:
        taken.append(next(steps))
    wait_for(device)
    took = time.perf_counter() - begun
    rows = np.concatenate(taken)
    flop = step_flop(trainer.model, lengths.source[rows], lengths.target[rows]).total
    tokens = int(lengths.target[rows].sum())
    values: dict[str, str | float] = {
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
        "precision": precision(trainer),
    }
    return values, raw


def data_sheet_mfu(flop_per_second: float, device: torch.device) -> str | float:
    if device.type != "cuda":
        return "needs a GPU"
    tflops = data_sheet_tflops(torch.cuda.get_device_name())
    return 100 * flop_per_second / 1e12 / tflops if tflops else "unknown"


@functools.cache
def peaks_of(device: torch.device) -> dict[str, float]:
    """GFLOP/s of large products by type, measured once a process."""
    return matrix_peaks(device)


def precision(trainer: Trainer) -> str:
    return "bf16" if trainer.model.dtype == torch.bfloat16 else "fp32"


def host_time(trainer: Trainer, steps: Iterator[np.ndarray]) -> dict[str, str | float]:
    """Medians of what it takes to launch a step, and to launch it and wait for its end."""
    device, sampler = trainer.world.device, trainer.sampler
    few_rows = sampler.plan[0][: FEW_SENTENCES * sampler.world_size]
    few_step = trainer.loader.prepare(few_rows)
    launched, waited, few = [], [], []
    for _ in range(LAUNCHED_STEPS):
        wait_for(device)
        begun = time.perf_counter()
        next(steps)
        launched.append(time.perf_counter() - begun)
        wait_for(device)
        waited.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        trainer.step(few_step.passes, few_step.target_tokens)
        few.append(time.perf_counter() - begun)
    return {
        "waited ms": 1e3 * statistics.median(waited),
        "host ms": 1e3 * statistics.median(launched),
        f"host ms, {FEW_SENTENCES} sentences": 1e3 * statistics.median(few),
    }


def peak_memory(device: torch.device) -> dict[str, str | float]:
    if device.type == "cuda":
        return {"peak GiB": torch.cuda.max_memory_allocated() / 2**30}
    return {"peak RSS, GiB": status_mib("VmHWM") / 1024}


def graph_counts() -> dict[str, int]:
    """How many graphs the compiler made, and where it had to leave one."""
    from torch._dynamo.utils import counters

    return {
        "graphs": int(counters["stats"]["unique_graphs"]),
        "graph_breaks": sum(counters["graph_break"].values()),
    }


def kernel_groups(lab: Lab, flags: list[str]) -> Found:
    """Shares of a step by group of kernels, as `python -m benchmarks.profile` divides it."""
    data = draw_pairs(lab.pairs, lab.vocabulary)
    with open_trainer(flags, data) as trainer:
        trainer.warm_up()
        steps = take_steps(trainer)
        for _ in range(UNTIMED_STEPS):
            next(steps)
        parts = typical([profile_step(trainer, steps) for _ in range(lab.profiled_steps)])
    total = sum(part.seconds for part in parts.values())
    shares: dict[str, str | float] = {
        f"{name} %": 100 * parts[name].seconds / total for name in PARTS
    }
    raw = {
        "table": "kernel groups",
        "parts": {name: vars(part) for name, part in parts.items()},
        "note": "Kernel groups: shares of a profiled step; *host* is time in which no kernel ran.",
    }
    return Found(shares, raw)
