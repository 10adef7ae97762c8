"""Measurements of training steps, for all parts that train."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from benchmarks import workbench
from benchmarks.clock import Clock
from benchmarks.common import Values
from benchmarks.gpu.case import Measurement, Setup
from benchmarks.gpu.record import Record
from benchmarks.machine import matrix_peaks, peak_mib, reset_peak, wait_for
from benchmarks.random_pairs import MULTI30K, Lengths, random_pairs
from benchmarks.workbench import Training, open_training, precision, take_steps
from config import parse
from translate_ddp.data.dataset import PreparedData
from translate_ddp.modeling.cost import step_flop
from translate_ddp.runtime.device import peak_flop

UNTIMED_STEPS = 5
LAUNCHED_STEPS = 7
NOTE = (
    "Target tokens are real tokens, without padding; MFU (model FLOP utilisation) counts the "
    "operations of real tokens on both sides, by `step_flop`. *host ms* is the time in "
    "which the Python thread launches a step on an idle device without waiting for it, unless the "
    "launch queue is full."
)


def measure_steps(
    setup: Setup,
    flags: list[str],
    lengths: Lengths = MULTI30K,
    take: Callable[[Training], Iterator[np.ndarray]] = take_steps,
) -> Measurement:
    """Pace, utilisation, host time and memory of the steps of train.py with these flags.

    `take` takes the steps, and yields the rows of each.
    """
    data = random_data(setup, flags, lengths)
    with open_training(flags, data) as training:
        device = training.world.device
        peaks = Record.load(setup.folder).peaks or matrix_peaks(device)
        training.warm_up()
        steps = take(training)
        reset_peak(device)
        clock = Clock(setup.sizes.window_seconds, device, UNTIMED_STEPS)
        rows = np.concatenate(workbench.run_clock(training, steps, clock)[UNTIMED_STEPS:])
        result = clock.result()
        lengths_N = training.sampler.lengths.take(rows)
        config, vocabulary = training.config.model, training.model.embedding.num_embeddings
        flop = step_flop(config, vocabulary, lengths_N.source, lengths_N.target)
        gflops = flop / result["seconds"] / 1e9
        values = pace_values(result)
        values["MFU of measured peak %"] = 100 * gflops / peaks[precision(training)]
        if peak := peak_flop(device):
            values["MFU of data sheet %"] = 100 * gflops / (peak / 1e9)
        values["host ms"] = 1e3 * launch_seconds(device, steps)
        values["peak GiB"] = peak_mib(device) / 1024
        raw = {"note": NOTE, "flags": flags, "precision": precision(training), "peaks": peaks}
        return Measurement(values, raw | result)


def random_data(setup: Setup, flags: list[str], lengths: Lengths = MULTI30K) -> PreparedData:
    """Pairs with the vocabulary of these flags of train.py."""
    return random_pairs(setup.sizes.pairs, parse(flags).tokenizer.vocab_size, lengths)


def pace_values(result: dict[str, Any]) -> Values:
    """The values of a clock's result."""
    return {
        "target tokens/s": result["target_tokens_per_second"],
        "step ms": 1e3 * result["seconds"] / result["steps"],
        "padding %": 100 * result["padding_share"],
    }


def launch_seconds(device: torch.device, steps: Iterator[np.ndarray]) -> float:
    """Median time to launch a step."""
    launched = []
    for _ in range(LAUNCHED_STEPS):
        wait_for(device)
        begin = time.perf_counter()
        next(steps)
        launched.append(time.perf_counter() - begin)
    return statistics.median(launched)
