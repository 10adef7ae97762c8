"""Wall-clock time from launch to help, to the first optimizer step and to one translation.

    python -m benchmarks.startup

Rounds are interleaved and the first is not counted: it brings the files into the page cache. The
corpus is prepared before. The time of the first step is that in its record in metrics.jsonl.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import ROOT, Failed, Settings, as_flags, last_line, python, read_settings
from benchmarks.decoders.prepare import train_demo
from benchmarks.machine import facts
from benchmarks.report import write_report
from benchmarks.rounds import interleave, raw, rows
from translate_ddp.errors import report_errors

SENTENCE = "The old doctor reads the letter in the garden."
ENVIRONMENT = {"WANDB_MODE": "offline"}  # as for a user without a key


@dataclass(frozen=True)
class StartupBenchmark(Settings):
    model_folder: str = ""
    """Folder of a run on the embedded demo; '' trains one first, about a minute."""
    rounds: int = 5
    """Measurements of each command."""


def cases(model_folder: Path) -> dict[str, tuple[float, Callable[[], float]]]:
    """The target in seconds and the measurement of each command."""
    torchrun = [*python(), "-m", "torch.distributed.run"]
    flags = as_flags({"model_folder": model_folder})
    translate = [*python(), "-m", "translate_ddp", "translate", *flags, SENTENCE]
    data = model_folder / "data"
    return {
        "train.py --help": (1.5, lambda: until_end([*python(), "train.py", "--help"])),
        "python train.py to first step": (6.0, lambda: until_first_step(python(), data)),
        "torchrun train.py to first step": (6.0, lambda: until_first_step(torchrun, data)),
        "translate one sentence": (3.0, lambda: until_end(translate)),
    }


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
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(data, Path(folder) / "data")
        flags = as_flags({"model_folder": folder, "log_every": 1, "max_steps": 1})
        begin = time.time()  # the clock of the records
        until_end([*launcher, "train.py", *flags])
        records = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8")
        return json.loads(records.partition("\n")[0])["time"] - begin


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as work:
        settings = read_settings(StartupBenchmark, __doc__)
        model_folder = settings.model_folder or train_demo(Path(work) / "model")
        found = cases(Path(model_folder).absolute())
        measures = {name: lambda _, m=m: {"seconds": m()} for name, (_, m) in found.items()}
        outcomes = interleave(measures, settings.rounds + 1)
        for outcome in outcomes.values():
            del outcome.rounds[:1]  # it is not counted
        write_report(
            "startup",
            "Time from launch",
            rows(outcomes, "seconds", "seconds", lambda name, _: {"target": found[name][0]}),
            facts=facts(),
            raw=raw(outcomes),
            folder=settings.results,
        )


if __name__ == "__main__":
    main()
