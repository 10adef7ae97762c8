"""The process of one part: runs its cases, catches their errors and records the measurements."""

import dataclasses
import importlib
import os
import time
from collections.abc import Callable

from benchmarks.gpu.case import Case, Measurement, Setup, Status, Unavailable
from benchmarks.gpu.record import Record

MODULES = {"sweep": "training", "compiled": "training"}  # of parts; the others have their own


def work(part: str, setup: Setup) -> None:
    """Run a part; the main function of its process."""
    os.setsid()  # a process group of its own, to be killed as a whole
    if setup.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before the first use of CUDA
    record = Record.load(setup.folder)

    def run_cases() -> Measurement:
        module = importlib.import_module(f"benchmarks.gpu.{MODULES.get(part, part)}")
        for case in getattr(module, part)(setup):
            record.add(attempt(part, case, setup))
        return Measurement()

    prepared = attempt(part, Case(part, run_cases, 0), setup)  # its cases catch their own errors
    if prepared.status != "done":
        record.add(prepared)


def attempt(part: str, case: Case, setup: Setup) -> Measurement:
    """The measurement of the case, or the reason why it is missing."""
    if setup.left() < case.seconds and not setup.cpu:
        found = Measurement(status="skipped", problem="no time left")
    else:
        begin = time.monotonic()
        found = dataclasses.replace(without_errors(case.run), seconds=time.monotonic() - begin)
    return dataclasses.replace(found, part=part, name=case.name)


def without_errors(run: Callable[[], Measurement]) -> Measurement:
    from translate_ddp.errors import first_line
    from translate_ddp.runtime.device import OutOfMemory, is_out_of_memory

    try:
        return run()
    except Unavailable as error:
        return Measurement(status=error.status, problem=str(error))
    except (Exception, SystemExit) as error:  # SystemExit is raised by the parser of flags
        full = isinstance(error, Exception) and is_out_of_memory(error)
        full |= isinstance(error, OutOfMemory)
        status: Status = "out of memory" if full else "failed"
        return Measurement(status=status, problem=f"{type(error).__name__}: {first_line(error)}")
