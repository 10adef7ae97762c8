"""The results of a run: gpu.json and gpu.md, rewritten after each measurement."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.common import Values
from benchmarks.report import Row, command_line, shown, table

Status = Literal["done", "failed", "missing", "needs a GPU", "out of memory", "skipped"]

TEST_NOTE = (
    "**A test of the benchmark on a CPU with tiny sizes: base and big are not the presets.**"
)
LINES_SHOWN = 40  # of the output of failed tests

TITLES = {
    "facts": "The device",
    "training": "Training steps",
    "sweep": "Tokens a step",
    "peer": "Training beside transformers",
    "decoding": "Decoding beside transformers",
    "waits": "Host waits in a training step",
    "compiled": "Compiled training steps",
    "tests": "Tests on the GPU",
}


@dataclass(frozen=True)
class Measurement:
    """One row of a part's table, or the reason why it is missing."""

    part: str
    name: str
    status: Status = "done"
    values: Values = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    seconds: float = 0.0  # including preparation

    @property
    def outcome(self) -> str:
        return f"{self.status}: {self.problem}" if self.problem else self.status


class Record:
    """All measurements so far, written to two files of the folder."""

    def __init__(self, folder: Path, end: float, is_test: bool = False) -> None:
        self.folder, self.end, self.is_test = folder, end, is_test
        self.measurements: list[Measurement] = []
        self._begun = time.monotonic()
        self._write()

    def add(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)
        self._write()
        now = time.monotonic()
        values = [f"{name} {shown(value)}" for name, value in measurement.values.items()]
        summary = ", ".join(values[:6]) if measurement.status == "done" else measurement.outcome
        clock = f"{now - self._begun:4.0f} s, {max(0.0, self.end - now):4.0f} s left"
        print(f"[{clock}] {measurement.part}: {measurement.name}: {summary}", flush=True)

    @property
    def peaks(self) -> dict[str, float]:
        """GFLOP/s of large products by dtype; empty if they are not measured yet."""
        found = (m.raw["gflops"] for m in self.measurements if "gflops" in m.raw)
        return next(found, {})

    def _write(self) -> None:
        content = {
            "command": command_line(),
            "date": time.strftime("%Y-%m-%d"),
            "measurements": [asdict(measurement) for measurement in self.measurements],
        }
        replace(self.folder / "gpu.json", json.dumps(content, indent=1) + "\n")
        replace(self.folder / "gpu.md", "\n\n".join(self._page(content["date"])) + "\n")

    def _page(self, date: str) -> Iterator[str]:
        yield "# The GPU path"
        yield f"`{command_line()}`, {date}"
        if self.is_test:
            yield TEST_NOTE
        notes: dict[str, None] = {}  # each is shown once
        for part, title in TITLES.items():
            found = [m for m in self.measurements if m.part == part]
            if found:
                yield from section(title, found)
                new = [note for m in found if (note := m.raw.get("note", "")) not in {*notes, ""}]
                yield from dict.fromkeys(new)
                notes |= dict.fromkeys(new)


def section(title: str, found: Sequence[Measurement]) -> Iterator[str]:
    """The tables of a part, one for each set of columns, then the missing measurements."""
    yield f"## {title}"
    done = [m for m in found if m.status == "done"]
    for columns in dict.fromkeys(m.raw.get("table", "") for m in done):
        rows = [m for m in done if m.raw.get("table", "") == columns]
        yield facts_list(rows) if columns == "list" else measured_table(rows)
    problems = [f"- {m.name}: {m.outcome}" for m in found if m.status != "done"]
    if problems:
        yield "\n".join(problems)
    for m in found:
        if m.status == "failed" and "output" in m.raw:
            yield f"```\n{last_lines(m.raw['output'])}\n```"


def measured_table(rows: Sequence[Measurement]) -> str:
    columns = list(dict.fromkeys(name for m in rows for name in m.values))
    return table([Row(m.name, m.values) for m in rows], columns, "measured")


def facts_list(rows: Sequence[Measurement]) -> str:
    """A Markdown list with one line per value."""
    return "\n".join(f"- {name}: {shown(v)}" for m in rows for name, v in m.values.items())


def last_lines(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-LINES_SHOWN:])


def replace(path: Path, text: str) -> None:
    """Replace the file atomically: a reader sees the old or the new text."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
