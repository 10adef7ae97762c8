"""Where the host waits for the device within a training step; it should do so nowhere."""

import collections
import os
import warnings
from collections.abc import Iterator
from itertools import islice

import torch

from benchmarks.gpu.lab import Case, Found, Lab, NeedsGpu
from benchmarks.gpu.pairs import draw_pairs
from benchmarks.gpu.training import STEP_TOKENS
from benchmarks.workbench import open_trainer, take_steps, wait_for

STEPS = 10
UNTIMED_STEPS = 3  # some operations wait at their first call only


def cases(lab: Lab) -> Iterator[Case]:
    yield Case(f"base, {STEPS} steps", lambda: count_waits(lab), 8)


def count_waits(lab: Lab) -> Found:
    if lab.cpu:
        raise NeedsGpu
    data = draw_pairs(lab.pairs, lab.vocabulary)
    with open_trainer(lab.flags("base", STEP_TOKENS), data) as trainer:
        trainer.warm_up()
        steps = take_steps(trainer)
        for _ in islice(steps, UNTIMED_STEPS):
            pass
        wait_for(trainer.world.device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            caught.clear()  # it warns that it is a prototype
            try:
                for _ in islice(steps, STEPS):
                    pass
            finally:
                torch.cuda.set_sync_debug_mode("default")
            places = collections.Counter(place(warning) for warning in caught)
    values: dict[str, str | float] = {"warnings": sum(places.values()), "expected": 0}
    values["where"] = "; ".join(f"{count} x {where}" for where, count in places.items()) or "-"
    note = (
        "By `torch.cuda.set_sync_debug_mode`, which does not know every operation that waits: not "
        "the one wait that is meant to be, for the flags of the step before."
    )
    return Found(values, {"warnings": dict(places), "note": note})


def place(warning: warnings.WarningMessage) -> str:
    """The end of the file's path, the line and the message."""
    file = "/".join(warning.filename.split(os.sep)[-2:])
    message = str(warning.message).strip().partition("\n")[0]
    return f"{file}:{warning.lineno} {message}"
