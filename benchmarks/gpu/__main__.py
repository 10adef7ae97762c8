"""Training and decoding on one GPU, measured within `--minutes`.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --cpu                    # every part with tiny sizes, without a GPU
    python -m benchmarks.gpu --only training peer

Needs torch, numpy, tokenizers and tyro, and no network; other missing libraries are reported by
name. Each part runs in a process of its own, so that a CUDA error, memory that is not freed, or a
hang affects that part only. gpu.json and gpu.md are rewritten after each measurement, so an
interrupted run keeps its results.

The exit code is 1 if a measurement failed. Missing libraries, too little memory for a batch size,
too little time and, with --cpu, a missing GPU are no failures.
"""

import multiprocessing
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from benchmarks.common import Settings, read_settings
from benchmarks.gpu.case import Setup
from benchmarks.gpu.record import Measurement, Record
from benchmarks.gpu.worker import Sender, work
from translate_ddp.errors import UserError, report_errors

PartName = Literal["facts", "training", "sweep", "peer", "decoding", "waits", "compiled", "tests"]
# In the order in which they run: short and informative parts first. The seconds are the time that
# must be left for a part to start, and the time after which it is stopped.
PARTS: dict[PartName, tuple[float, float]] = {
    "facts": (5, 60),
    "training": (20, 120),
    "sweep": (15, 90),
    "peer": (20, 90),
    "decoding": (30, 150),
    "waits": (10, 60),
    "compiled": (60, 300),
    "tests": (20, 300),
}
TESTS_SECONDS = 150.0  # reserved for the tests, if they are chosen
CPU_SECONDS = 3600.0
EXIT_SECONDS = 5.0  # from the last measurement to the end of the process


@dataclass(frozen=True)
class GpuBenchmark(Settings):
    minutes: float = 9.0
    """Time for all parts; a part that cannot start in time is skipped."""
    cpu: bool = False
    """Run every part on the CPU with tiny sizes, as a test of the benchmark."""
    only: tuple[PartName, ...] = ()
    """Parts to run; all if empty."""

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise ValueError(f"minutes must be positive, but is {self.minutes}.")


def main() -> None:
    # The process of a part must also end on the SIGTERM of `timeout` or a scheduler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with report_errors():
        settings = read_settings(GpuBenchmark, __doc__)
        if not settings.cpu:
            require_gpu()
        sys.exit(1 if run(settings) else 0)


def require_gpu() -> None:
    import torch  # here: it takes seconds

    if not torch.cuda.is_available():
        raise UserError("torch finds no GPU: --cpu runs every part on the CPU with tiny sizes.")


def run(settings: GpuBenchmark) -> bool:
    """Run the parts one after the other; returns whether a measurement failed."""
    end = time.monotonic() + 60 * settings.minutes
    record = Record(settings.results, end, is_test=settings.cpu)
    chosen: list[PartName] = [part for part in PARTS if not settings.only or part in settings.only]
    for part in chosen:
        reserved = TESTS_SECONDS if part != "tests" and "tests" in chosen else 0.0
        needed, limit = PARTS[part]
        left = end - reserved - time.monotonic()
        if left < needed and not settings.cpu:
            record.add(Measurement(part, part, "skipped", problem="no time left"))
            continue
        # A run on a CPU is a test, which must complete on a slow machine too.
        deadline = time.monotonic() + (CPU_SECONDS if settings.cpu else min(left, limit))
        run_part(part, Setup(settings.cpu, deadline, record.peaks), record)
    print(f"Written to {record.folder}/gpu.md and gpu.json.", flush=True)
    return any(measurement.status == "failed" for measurement in record.measurements)


def run_part(part: PartName, setup: Setup, record: Record) -> None:
    """Run one part in a process of its own and record its measurements."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(part, setup, Sender(sender)))
    process.start()
    sender.close()
    try:
        while True:
            if not receiver.poll(max(0.0, setup.left())):
                record.add(
                    Measurement(part, part, "failed", problem="took longer than its time limit")
                )
                return
            message = receiver.recv()
            if message is None:
                process.join(EXIT_SECONDS)
                return
            record.add(message)
    except EOFError:
        process.join()
        problem = f"its process ended with exit code {process.exitcode}"
        record.add(Measurement(part, part, "failed", problem=problem))
    finally:
        assert process.pid is not None
        # Its child processes are in its process group and may outlive it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # if it has not created its group yet
        process.join()


if __name__ == "__main__":
    main()
