"""The process of one part: runs its cases, each guarded, and sends what they found."""

import importlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from benchmarks.gpu.lab import Case, Failed, Found, Lab, Missing, NeedsGpu
from benchmarks.gpu.record import Measurement, Status

PROBLEM_CHARACTERS = 500


@dataclass
class Sender:
    """The end of the pipe through which measurements leave, None after the last one."""

    connection: Any  # a connection of multiprocessing, named differently by its versions

    def __call__(self, message: Measurement | None) -> None:
        self.connection.send(message)


def work(part: str, lab: Lab, send: Sender) -> None:
    """Run the part `part`; for a process of its own."""
    os.setsid()  # a group of its own, which can be stopped with all that it starts
    if lab.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before CUDA is asked for anything
    for measurement in measurements(part, lab):
        send(measurement)
    send(None)


def measurements(part: str, lab: Lab) -> Iterator[Measurement]:
    begun = time.monotonic()
    try:
        module: ModuleType = importlib.import_module(f"benchmarks.gpu.{part}")
        for case in module.cases(lab):
            yield attempt(part, case, lab)
    except (Exception, SystemExit) as error:  # in what prepares the cases
        yield failure(part, part, error, begun)


def attempt(part: str, case: Case, lab: Lab) -> Measurement:
    """The case's measurement, or why there is none."""
    if lab.left() < case.seconds and not lab.cpu:
        return Measurement(part, case.name, "skipped", problem="no time left")
    begun = time.monotonic()
    try:
        found = case.run()
    except (Exception, SystemExit) as error:  # the parser of flags raises the latter
        return failure(part, case.name, error, begun)
    seconds = time.monotonic() - begun
    return Measurement(part, case.name, "done", found.values, found.raw, seconds=seconds)


def failure(part: str, name: str, error: BaseException, begun: float) -> Measurement:
    seconds, found = time.monotonic() - begun, Found({})
    if isinstance(error, Failed):
        found = error.found
    status, problem = status_of(error), first_line(error)
    return Measurement(part, name, status, found.values, found.raw, problem, seconds)


def status_of(error: BaseException) -> Status:
    from translate_ddp.runtime.out_of_memory import OutOfMemory, is_out_of_memory

    if isinstance(error, Missing):
        return "missing"
    if isinstance(error, NeedsGpu):
        return "needs a GPU"
    if isinstance(error, OutOfMemory) or (isinstance(error, Exception) and is_out_of_memory(error)):
        return "out of memory"
    return "failed"


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of its text, which suffices for ours."""
    line = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, Missing | NeedsGpu | Failed):
        return line
    return f"{type(error).__name__}: {line}"[:PROBLEM_CHARACTERS]
