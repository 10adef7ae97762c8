"""Eager training steps of the two presets that are meant for GPUs."""

from collections.abc import Iterator

from benchmarks.gpu.lab import Case, Lab
from benchmarks.gpu.steps import kernel_groups, measure_steps

PRESETS = ("base", "big")
STEP_TOKENS = 25_000  # of both presets


def cases(lab: Lab) -> Iterator[Case]:
    for preset in PRESETS:
        flags = lab.flags(preset, STEP_TOKENS)
        yield Case(f"{preset}, eager", lambda flags=flags: measure_steps(lab, flags), 10)
    for preset in PRESETS:
        flags = lab.flags(preset, STEP_TOKENS)
        yield Case(f"{preset}, by kernel group", lambda flags=flags: kernel_groups(lab, flags), 10)
