"""How long translate_ddp takes to get to work: help, the first optimizer step, one sentence.

    python -m benchmarks.startup

Wall-clock time from launch, in rounds that take turns, after one round that is not counted: files
are in the page cache, and the corpus is prepared. The first step is done when its record stands in
metrics.jsonl; the time is the record's own.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from tqdm import tqdm

from benchmarks.decoding import train_demo
from benchmarks.machine import facts
from benchmarks.report import OWN, RESULTS, Row, write_report
from benchmarks.rounds import ROOT
from translate_ddp.errors import report_errors

SENTENCE = "The old doctor reads the letter in the garden."
POLL_SECONDS = 0.02
PATIENCE_SECONDS = 120
BAR = "seconds"
OFFLINE = {"WANDB_MODE": "offline"}  # as for a user without a key, whoever measures


@dataclass(frozen=True)
class StartupBenchmark:
    """Measure the time from launch to something useful."""

    model_folder: str = ""
    """Folder of a run on the embedded demo; '' trains one for a minute first."""
    rounds: int = 5
    """Measurements of each."""
    results: Path = RESULTS
    """Folder that receives the report."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, but is {self.rounds}.")


@dataclass(frozen=True)
class Case:
    name: str
    target_seconds: float
    measure: Callable[[], float]


class Failed(Exception):
    """A command did not do what was measured; the text says why."""


def cases(model_folder: Path) -> list[Case]:
    python, torchrun = [sys.executable], [sys.executable, "-m", "torch.distributed.run"]
    saved = ["--model_folder", str(model_folder)]
    translate = [*python, "-m", "translate_ddp", "translate", *saved, SENTENCE]
    data = model_folder / "data"
    return [
        Case("train.py --help", 1.5, lambda: until_end([*python, "train.py", "--help"])),
        Case("python train.py to first step", 6.0, lambda: until_first_step(python, data)),
        Case("torchrun train.py to first step", 6.0, lambda: until_first_step(torchrun, data)),
        Case("translate one sentence", 3.0, lambda: until_end(translate)),
    ]


def until_end(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise Failed(last_line(done.stderr) or f"exit code {done.returncode}")
    return seconds


def until_first_step(launcher: Sequence[str], data: Path) -> float:
    """Seconds to the first record of a new run, which is then asked to stop."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as said:
        shutil.copytree(data, Path(name) / "data")
        metrics = Path(name) / "metrics.jsonl"
        command = [*launcher, "train.py", "--model_folder", name, "--log_every", "1"]
        begun = time.time()  # the clock of the records
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | OFFLINE, stdout=said, stderr=said
        )
        try:
            while not (metrics.exists() and "\n" in metrics.read_text(encoding="utf-8")):
                if process.poll() is not None or time.time() - begun > PATIENCE_SECONDS:
                    said.seek(0)
                    raise Failed(last_line(said.read()) or "it took no step")
                time.sleep(POLL_SECONDS)
            first, _, _ = metrics.read_text(encoding="utf-8").partition("\n")
            return json.loads(first)["time"] - begun
        finally:
            process.terminate()
            process.wait()


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as work:
        settings = tyro.cli(StartupBenchmark, description=__doc__, use_underscores=True)
        model_folder = settings.model_folder or train_demo(Path(work) / "model")
        tried = cases(Path(model_folder).absolute())
        seconds, failures = run_cases(tried, settings.rounds)
        write_report(
            "startup",
            "Time from launch",
            [row(case, seconds[case.name], failures.get(case.name, "")) for case in tried],
            [BAR, "least to most", "target"],
            BAR,
            facts(),
            seconds,
            folder=settings.results,
            first_column="what",
        )


def run_cases(tried: list[Case], rounds: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds by case, and why those that failed did; the first round warms up."""
    seconds: dict[str, list[float]] = {case.name: [] for case in tried}
    failures: dict[str, str] = {}
    for counts, case in (bar := tqdm([(n > 0, c) for n in range(rounds + 1) for c in tried])):
        bar.set_postfix_str(case.name)
        if case.name in failures:
            continue
        try:
            taken = case.measure()
        except Failed as error:
            failures[case.name] = str(error)
        else:
            seconds[case.name] += [taken] * counts
    return seconds, failures


def row(case: Case, seconds: list[float], failure: str) -> Row:
    label = f"{OWN}: {case.name}"
    if failure:
        return Row(label, {"target": case.target_seconds}, failure)
    least, most = min(seconds), max(seconds)
    values: dict[str, str | float] = {
        BAR: statistics.median(seconds),
        "least to most": f"{least:.2f} to {most:.2f}",
        "target": case.target_seconds,
    }
    return Row(label, values, spread=(least, most))


if __name__ == "__main__":
    main()
