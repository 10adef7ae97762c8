"""Training and decoding on one GPU, measured within `--minutes`.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --cpu                    # every part with tiny sizes, without a GPU
    python -m benchmarks.gpu --only training peer

What is measured, needed and reported as a failure: `benchmarks/README.md`.
"""

import multiprocessing
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.common import Settings, read_settings
from benchmarks.gpu.case import PARTS, Measurement, PartName, Setup
from benchmarks.gpu.record import Record, work
from translate_ddp.errors import UserError, report_errors

CPU_SECONDS = 3600.0


@dataclass(frozen=True)
class GpuBenchmark(Settings):
    minutes: float = 7.0
    """Time for all parts; a part that cannot start in time is skipped."""
    cpu: bool = False
    """Run every part on the CPU with tiny sizes, as a test of the benchmark."""
    only: tuple[PartName, ...] = ()
    """Parts to run; all if empty."""


def main() -> None:
    # The process of a part must also end on the SIGTERM of `timeout` or a scheduler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with report_errors():
        settings = read_settings(GpuBenchmark, __doc__)
        if not settings.cpu:
            import torch  # here: it takes seconds

            if not torch.cuda.is_available():
                raise UserError(
                    "torch finds no GPU: --cpu runs every part on the CPU with tiny sizes."
                )
        sys.exit(1 if run(settings) else 0)


def run(settings: GpuBenchmark) -> bool:
    """Run the parts one after the other; returns whether a measurement failed."""
    end = time.monotonic() + 60 * settings.minutes
    folder = settings.results
    Record(folder, is_test=settings.cpu).write()
    chosen: list[PartName] = [part for part in PARTS if not settings.only or part in settings.only]
    for part in chosen:
        _, needed, limit = PARTS[part]
        left = end - time.monotonic()
        if left < needed and not settings.cpu:
            problem = Measurement(problem="no time left", status="skipped", part=part, name=part)
            Record.load(folder).add(problem)
            continue
        # A run on a CPU is a test, which must complete on a slow machine too.
        deadline = time.monotonic() + (CPU_SECONDS if settings.cpu else min(left, limit))
        if problem := run_part(part, Setup(settings.cpu, deadline, folder)):
            measurement = Measurement(problem=problem, status="failed", part=part, name=part)
            Record.load(folder).add(measurement)
    print(f"Written to {folder}/gpu.md and gpu.json.", flush=True)
    return any(m.status == "failed" for m in Record.load(folder).measurements)


def run_part(part: PartName, setup: Setup) -> str:
    """Run one part in a process of its own, which records its measurements; returns its problem."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=(part, setup))
    process.start()
    try:
        process.join(max(0.0, setup.left()))
        if process.exitcode is None:
            return "took longer than its time limit"
        return f"its process ended with exit code {process.exitcode}" if process.exitcode else ""
    finally:
        assert process.pid is not None
        # Its child processes are in its process group and may outlive it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # if it has not created its group yet
        process.join()


if __name__ == "__main__":
    main()
