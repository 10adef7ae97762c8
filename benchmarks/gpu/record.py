"""The results of a run: gpu.json and gpu.md, rewritten after each measurement."""

import dataclasses
import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.gpu.case import PARTS, Case, Measurement, Setup, Status, Unavailable
from benchmarks.report import Row, command_line, shown, table
from translate_ddp.runtime.files import write_atomically

TEST_NOTE = (
    "**A test of the benchmark on a CPU with tiny sizes: base and big are not the presets.**"
)


@dataclass
class Record:
    """All measurements so far. Each process of the benchmark reads and writes the same files."""

    folder: Path
    is_test: bool = False
    command: str = field(default_factory=command_line)
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%d"))
    measurements: list[Measurement] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> "Record":
        content = json.loads((folder / "gpu.json").read_text(encoding="utf-8"))
        found = [Measurement(**measurement) for measurement in content.pop("measurements")]
        return cls(folder, measurements=found, **content)

    def add(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)
        self.write()
        values = [f"{name} {shown(value)}" for name, value in measurement.values.items()]
        summary = ", ".join(values[:6]) if measurement.status == "done" else measurement.outcome
        line = f"{measurement.part}: {measurement.name}: {summary}"
        print(f"[{measurement.seconds:4.0f} s] {line}", flush=True)

    @property
    def peaks(self) -> dict[str, float]:
        """GFLOP/s of large products by dtype; empty if they are not measured yet."""
        found = (m.raw["gflops"] for m in self.measurements if "gflops" in m.raw)
        return next(found, {})

    def write(self) -> None:
        content = {k: v for k, v in vars(self).items() if k != "folder"}
        content["measurements"] = [asdict(measurement) for measurement in self.measurements]
        write_atomically(self.folder / "gpu.json", json.dumps(content, indent=1) + "\n")
        write_atomically(self.folder / "gpu.md", "\n\n".join(self._page()) + "\n")

    def _page(self) -> Iterator[str]:
        yield f"# The GPU path\n\n`{self.command}`, {self.date}"
        if self.is_test:
            yield TEST_NOTE
        for part, (title, *_) in PARTS.items():
            if found := [m for m in self.measurements if m.part == part]:
                yield from section(title, found)


def section(title: str, found: Sequence[Measurement]) -> Iterator[str]:
    """The tables of a part, one for each kind of rows, the missing measurements and the notes."""
    yield f"## {title}"
    done = [m for m in found if m.status == "done"]
    for kind in dict.fromkeys(m.raw.get("table", "") for m in done):
        rows = [m for m in done if m.raw.get("table", "") == kind]
        if kind == "list":
            yield "\n".join(f"- {name}: {shown(v)}" for m in rows for name, v in m.values.items())
        else:
            yield table([Row(m.name, m.values) for m in rows])
    problems = [f"- {m.name}: {m.outcome}" for m in found if m.status != "done"]
    if problems:
        yield "\n".join(problems)
    yield from dict.fromkeys(m.raw["note"] for m in done if "note" in m.raw)


OF_TRAINING = ("attention", "sweep", "waits")  # parts in the module of training


def work(part: str, setup: Setup) -> None:
    """Run a part; the main function of its process."""
    os.setsid()  # a process group of its own, to be killed as a whole
    if setup.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before the first use of CUDA
    record = Record.load(setup.folder)

    def run_cases() -> Measurement:
        name = "training" if part in OF_TRAINING else part
        module = importlib.import_module(f"benchmarks.gpu.{name}")
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
