"""Wall-clock time from launch to help, to the first optimizer step and to one translation.

    python -m benchmarks.startup

Rounds are interleaved and the first is not counted: it brings the files into the page cache. The
corpus is prepared before. The time of the first step is that in its record in metrics.jsonl.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import (
    ROOT,
    Failed,
    Settings,
    as_flags,
    last_line,
    python,
    read_settings,
    work_folder,
)
from benchmarks.decoders.prepare import train_demo
from benchmarks.machine import facts
from benchmarks.report import OWN, Row, write_report
from benchmarks.rounds import Outcome, interleave
from translate_ddp.errors import report_errors

SENTENCE = "The old doctor reads the letter in the garden."
ENVIRONMENT = {"WANDB_MODE": "offline"}  # as for a user without a key


@dataclass(frozen=True)
class StartupBenchmark(Settings):
    model_folder: str = ""
    """Folder of a run on the embedded demo; '' trains one first, about a minute."""
    rounds: int = 5
    """Measurements of each command."""

    def __post_init__(self) -> None:
        self.require_at_least(1, "rounds")


@dataclass(frozen=True)
class Case:
    name: str
    target_seconds: float
    measure: Callable[[], float]


def cases(model_folder: Path) -> list[Case]:
    torchrun = [*python(), "-m", "torch.distributed.run"]
    help_command = [*python(), "train.py", "--help"]
    flags = as_flags({"model_folder": model_folder})
    translate = [*python(), "-m", "translate_ddp", "translate", *flags, SENTENCE]
    data = model_folder / "data"
    return [
        Case("train.py --help", 1.5, lambda: until_end(help_command)),
        Case("python train.py to first step", 6.0, lambda: until_first_step(python(), data)),
        Case("torchrun train.py to first step", 6.0, lambda: until_first_step(torchrun, data)),
        Case("translate one sentence", 3.0, lambda: until_end(translate)),
    ]


def until_end(command: Sequence[str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | ENVIRONMENT, capture_output=True, text=True
    )
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise Failed(last_line(done.stderr) or f"exit code {done.returncode}")
    return seconds


def until_first_step(launcher: Sequence[str], data: Path) -> float:
    """Seconds from launch to the record of the first step of a new run, which ends after it."""
    with work_folder() as folder:
        shutil.copytree(data, folder / "data")
        flags = as_flags({"model_folder": folder, "log_every": 1, "max_steps": 1})
        begin = time.time()  # the clock of the records
        until_end([*launcher, "train.py", *flags])
        first, _, _ = (folder / "metrics.jsonl").read_text(encoding="utf-8").partition("\n")
        return json.loads(first)["time"] - begin


def main() -> None:
    with report_errors(), work_folder() as work:
        settings = read_settings(StartupBenchmark, __doc__)
        model_folder = settings.model_folder or train_demo(work / "model")
        measured = cases(Path(model_folder).absolute())
        measures = {c.name: lambda c=c: {"seconds": c.measure()} for c in measured}
        outcomes = interleave(measures, settings.rounds + 1)
        for outcome in outcomes.values():
            del outcome.rounds[:1]  # it is not counted
        write_report(
            "startup",
            "Time from launch",
            [row(case, outcomes[case.name]) for case in measured],
            ["seconds", "least to most", "target"],
            facts=facts(),
            raw={name: [r["seconds"] for r in o.rounds] for name, o in outcomes.items()},
            folder=settings.results,
            first_column="what",
        )


def row(case: Case, outcome: Outcome) -> Row:
    label = f"{OWN}: {case.name}"
    if outcome.failure:
        return Row(label, {"target": case.target_seconds}, outcome.failure)
    least_to_most = outcome.least_to_most("seconds", digits=2)
    seconds = outcome.median("seconds")
    values = {"seconds": seconds, "least to most": least_to_most, "target": case.target_seconds}
    return Row(label, values)


if __name__ == "__main__":
    main()
