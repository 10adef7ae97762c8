"""Training steps of the same presets with `--compile`; the warm-up is what compiling takes."""

import shutil
from collections.abc import Iterator

from benchmarks.gpu.lab import Case, Found, Lab, Missing, require
from benchmarks.gpu.steps import measure_steps
from benchmarks.gpu.training import PRESETS, STEP_TOKENS
from benchmarks.workbench import random_pairs


def cases(lab: Lab) -> Iterator[Case]:
    for preset in PRESETS[:1] if lab.cpu else PRESETS:  # on a CPU both would be the same
        flags = lab.flags(preset, STEP_TOKENS)
        yield Case(f"{preset}, compiled", lambda flags=flags: measure(lab, flags), 60)


def measure(lab: Lab, flags: list[str]) -> Found:
    if lab.cpu and not any(map(shutil.which, ("g++", "c++", "clang++"))):
        raise Missing("a C++ compiler")
    if not lab.cpu:
        require("triton")
    flags = [*flags, "--compile"]
    if not lab.cpu:
        return measure_steps(lab, flags)
    # In fp32, without dropout and with a single length there is less to compile, and only once.
    data = random_pairs(lab.pairs, length=16, vocabulary=lab.vocabulary)
    return measure_steps(lab, [*flags, "--precision", "fp32", "--dropout", "0"], data)
