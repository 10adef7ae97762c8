"""The results of a run: gpu.json and gpu.md, rewritten after each measurement."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.gpu.case import PARTS, Measurement
from benchmarks.report import Row, command_line, shown, table
from translate_ddp.runtime.files import write_atomically

TEST_NOTE = (
    "**A test of the benchmark on a CPU with tiny sizes: base and big are not the presets.**"
)
LINES_SHOWN = 40  # of the output of failed tests


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
    for m in found:
        if m.status == "failed" and "output" in m.raw:
            yield "\n".join(["```", *m.raw["output"].strip().splitlines()[-LINES_SHOWN:], "```"])
    yield from dict.fromkeys(m.raw["note"] for m in done if "note" in m.raw)
