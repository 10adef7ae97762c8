"""The process of one part: runs its cases, catches their errors and sends the measurements."""

import importlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.case import Case, Missing, NeedsGpu, Setup
from benchmarks.gpu.record import Measurement, Status

PROBLEM_CHARACTERS = 500
MODULES = {"sweep": "training", "compiled": "training"}  # of parts; the others have their own


@dataclass
class Sender:
    """Sends measurements to the main process, and None after the last one."""

    connection: Any  # of multiprocessing, whose class depends on the platform

    def __call__(self, message: Measurement | None) -> None:
        self.connection.send(message)


def work(part: str, setup: Setup, send: Sender) -> None:
    """Run a part; the main function of its process."""
    os.setsid()  # a process group of its own, to be killed as a whole
    if setup.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before the first use of CUDA
    for measurement in measurements(part, setup):
        send(measurement)
    send(None)


def measurements(part: str, setup: Setup) -> Iterator[Measurement]:
    begin = time.monotonic()
    try:
        module = importlib.import_module(f"benchmarks.gpu.{MODULES.get(part, part)}")
        for case in getattr(module, part)(setup):
            yield attempt(part, case, setup)
    except (Exception, SystemExit) as error:  # in the preparation of the cases
        yield failure(part, part, error, begin)


def attempt(part: str, case: Case, setup: Setup) -> Measurement:
    """The measurement of the case, or the reason why it is missing."""
    if setup.left() < case.seconds and not setup.cpu:
        return Measurement(part, case.name, "skipped", problem="no time left")
    begin = time.monotonic()
    try:
        found = case.run()
    except (Exception, SystemExit) as error:  # raised by the parser of flags
        return failure(part, case.name, error, begin)
    seconds = time.monotonic() - begin
    status = "failed" if found.problem else "done"
    return Measurement(part, case.name, status, found.values, found.raw, found.problem, seconds)


def failure(part: str, name: str, error: BaseException, begin: float) -> Measurement:
    seconds = time.monotonic() - begin
    return Measurement(part, name, status_of(error), problem=first_line(error), seconds=seconds)


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
    """Type and first line of an error; the line alone for our own errors."""
    line = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, Missing | NeedsGpu):
        return line
    return f"{type(error).__name__}: {line}"[:PROBLEM_CHARACTERS]
