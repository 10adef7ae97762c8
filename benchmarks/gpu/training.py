"""Training steps of the presets for GPUs: eager, with several step sizes, and compiled."""

import shutil
from collections.abc import Iterator

from benchmarks.gpu.case import Case, Measurement, Setup, Unavailable, require
from benchmarks.gpu.steps import kernel_groups, measure_steps
from benchmarks.random_pairs import random_pairs

PRESETS = ("base", "big")
SWEEP_TOKENS = (8_000, 25_000, 50_000, 100_000)


def training(setup: Setup) -> Iterator[Case]:
    for name, measure in (("eager", measure_steps), ("by kernel group", kernel_groups)):
        for preset in PRESETS:
            flags = setup.flags(preset)
            yield Case(f"{preset}, {name}", lambda m=measure, f=flags: m(setup, f), 10)


def sweep(setup: Setup) -> Iterator[Case]:
    """Steps in one pass, until memory is full."""
    for tokens in SWEEP_TOKENS:
        flags = setup.flags("base", tokens)
        name = f"base, {setup.tokens(tokens):,} tokens"
        yield Case(name, lambda flags=flags: measure_steps(setup, flags), 8)


def compiled(setup: Setup) -> Iterator[Case]:
    """The same presets with `--compile`; the warm-up includes compilation."""
    for preset in PRESETS[:1] if setup.cpu else PRESETS:  # on a CPU both are the same
        flags = [*setup.flags(preset), "--compile"]
        yield Case(f"{preset}, compiled", lambda flags=flags: measure_compiled(setup, flags), 60)


def measure_compiled(setup: Setup, flags: list[str]) -> Measurement:
    if not setup.cpu:
        require("triton")
        return measure_steps(setup, flags)
    if not any(map(shutil.which, ("g++", "c++", "clang++"))):
        raise Unavailable("missing", "a C++ compiler")
    # fp32, no dropout and a single length: less to compile, and only once.
    data = random_pairs(setup.sizes.pairs, setup.sizes.vocabulary, length=16)
    return measure_steps(setup, [*flags, "--precision", "fp32", "--dropout", "0"], data)
