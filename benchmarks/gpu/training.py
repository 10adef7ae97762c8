"""Training steps of the presets for GPUs: eager, with several step sizes, and compiled."""

import collections
import os
import warnings
from collections.abc import Iterator
from itertools import islice

import torch

from benchmarks.common import Values
from benchmarks.gpu.case import Case, Measurement, Setup, Unavailable, require
from benchmarks.gpu.steps import measure_steps
from benchmarks.random_pairs import random_pairs
from benchmarks.workbench import open_training, take_steps

PRESETS = ("base", "big")
SWEEP_TOKENS = (8_000, 25_000, 50_000, 100_000)


def training(setup: Setup) -> Iterator[Case]:
    for preset in PRESETS:
        flags = setup.flags(preset)
        yield Case(f"{preset}, eager", lambda flags=flags: measure_steps(setup, flags), 10)


def sweep(setup: Setup) -> Iterator[Case]:
    """Steps of several sizes, until memory is full."""
    for tokens in SWEEP_TOKENS:
        flags = setup.flags("base", tokens)
        name = f"base, {setup.tokens(tokens):,} tokens"
        yield Case(name, lambda flags=flags: measure_steps(setup, flags), 8)


def compiled(setup: Setup) -> Iterator[Case]:
    """The same presets with `--compile`; the warm-up includes compilation."""
    for preset in PRESETS:
        flags = [*setup.flags(preset), "--compile"]
        yield Case(f"{preset}, compiled", lambda flags=flags: measure_compiled(setup, flags), 60)


def measure_compiled(setup: Setup, flags: list[str]) -> Measurement:
    if setup.cpu:
        raise Unavailable("needs a GPU")
    require("triton")
    return measure_steps(setup, flags)


STEPS = 10
UNTIMED_STEPS = 3  # some operations wait at their first call


def waits(setup: Setup) -> Iterator[Case]:
    yield Case(f"base, {STEPS} steps", lambda: count_waits(setup), 8)


def count_waits(setup: Setup) -> Measurement:
    if setup.cpu:
        raise Unavailable("needs a GPU")
    data = random_pairs(setup.sizes.pairs, setup.sizes.vocabulary)
    with open_training(setup.flags("base"), data) as training:
        training.warm_up()
        steps = take_steps(training)
        for _ in islice(steps, UNTIMED_STEPS):
            pass
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            caught.clear()  # the warning that it is a prototype
            try:
                for _ in islice(steps, STEPS):
                    pass
            finally:
                torch.cuda.set_sync_debug_mode("default")
            places = collections.Counter(place(warning) for warning in caught)
    values: Values = {"warnings": sum(places.values()), "expected": 0}
    values["where"] = "; ".join(f"{count} x {where}" for where, count in places.items()) or "-"
    note = (
        "By `torch.cuda.set_sync_debug_mode`, which does not detect every wait: not "
        "the one intended wait, for the flags of the previous step."
    )
    return Measurement(values, {"warnings": dict(places), "note": note})


def place(warning: warnings.WarningMessage) -> str:
    """The end of the file's path, the line and the message."""
    file = "/".join(warning.filename.split(os.sep)[-2:])
    message = str(warning.message).strip().partition("\n")[0]
    return f"{file}:{warning.lineno} {message}"
