"""Measurements of training steps, for all parts that train."""

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import workbench
from benchmarks.clock import Clock
from benchmarks.common import Values
from benchmarks.gpu.case import Measurement, Setup
from benchmarks.gpu.record import Record
from benchmarks.machine import matrix_peaks, peak_mib, reset_peak, wait_for
from benchmarks.random_pairs import random_pairs
from benchmarks.workbench import Training, open_training, precision, take_steps
from translate_ddp.modeling.cost import step_flop
from translate_ddp.runtime.device import peak_flop

UNTIMED_STEPS = 5
UNTIMED_COMPILED_STEPS = 25  # during which graphs for further shapes are compiled
LAUNCHED_STEPS = 7
FEW_SENTENCES = 8
NOTE = (
    "Target tokens are real tokens, without padding; MFU (model FLOP utilisation) counts the "
    "operations of real tokens on both sides, by `step_flop`. *host ms* is the time in "
    "which the Python thread launches a step on an idle device without waiting for it, unless the "
    "launch queue is full; *host ms, 8 sentences* is the same for a step that is too small to fill "
    "the queue. *waited ms* is the launch of a step and the wait for its end."
)


def measure_steps(setup: Setup, flags: list[str]) -> Measurement:
    """Pace, utilisation, host time and memory of the steps of train.py with these flags."""
    data = random_pairs(setup.sizes.pairs, setup.sizes.vocabulary)
    untimed = UNTIMED_COMPILED_STEPS if "--compile" in flags else UNTIMED_STEPS
    with open_training(flags, data) as training:
        device = training.world.device
        peaks = Record.load(setup.folder).peaks or matrix_peaks(device)
        begin = time.perf_counter()
        training.warm_up()
        wait_for(device)
        warm_up_seconds = time.perf_counter() - begin
        steps = take_steps(training)
        reset_peak(device)
        clock = Clock(setup.sizes.window_seconds, device, untimed)
        rows = np.concatenate(workbench.run_clock(training, steps, clock)[untimed:])
        result = clock.result()
        lengths = training.sampler.lengths
        config, sides = training.config.model, (lengths.source[rows], lengths.target[rows])
        flop = step_flop(config, training.model.embedding.num_embeddings, *sides)
        gflops = flop / result["seconds"] / 1e9
        values = pace_values(result)
        values["MFU of measured peak %"] = 100 * gflops / peaks[precision(training)]
        if peak := peak_flop(device):
            values["MFU of data sheet %"] = 100 * gflops / (peak / 1e9)
        values |= host_time(training, steps) | {"peak GiB": peak_mib(device) / 1024}
        if "--compile" in flags:
            values |= {"warm-up, s": warm_up_seconds} | graph_counts()
        raw = {"note": NOTE, "flags": flags, "precision": precision(training), "peaks": peaks}
        return Measurement(values, raw | result)


def pace_values(result: dict[str, Any]) -> Values:
    """The values of a clock's result."""
    return {
        "target tokens/s": result["target_tokens_per_second"],
        "step ms": 1e3 * result["seconds"] / result["steps"],
        "padding %": 100 * result["padding_share"],
    }


def host_time(training: Training, steps: Iterator[np.ndarray]) -> Values:
    """Median time to launch a step, and to launch it and wait for its end."""
    device = training.world.device
    few_step = training.loader.prepare([training.sampler.plan[0][:FEW_SENTENCES]])
    launched, waited, few = [], [], []
    for _ in range(LAUNCHED_STEPS):
        wait_for(device)
        begin = time.perf_counter()
        next(steps)
        launched.append(time.perf_counter() - begin)
        wait_for(device)
        waited.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        workbench.take_step(training, few_step)
        few.append(time.perf_counter() - begin)
    return {
        "waited ms": 1e3 * statistics.median(waited),
        "host ms": 1e3 * statistics.median(launched),
        f"host ms, {FEW_SENTENCES} sentences": 1e3 * statistics.median(few),
    }


def graph_counts() -> Values:
    """Numbers of compiled graphs and of graph breaks."""
    from torch._dynamo.utils import counters

    graphs, breaks = counters["stats"]["unique_graphs"], counters["graph_break"]
    return {"graphs": int(graphs), "graph breaks": sum(breaks.values())}
