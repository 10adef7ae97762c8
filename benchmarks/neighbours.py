"""How much of its speed a training keeps next to others on the same cores.

    python -m benchmarks.neighbours
    python -m benchmarks.neighbours --presets tiny --others 0 1 --rounds 5

Each measurement starts one training and as many others as asked for, all alike, and counts the
target tokens of the first once all of them train. Its idle threads look for work before they sleep,
as often as GOMP_SPINCOUNT says: in that time they take a core from another program. `default` is
what train.py sets, `libgomp` what GCC's OpenMP does by itself, `passive` no looking at all.
"""

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import tyro
from tqdm import tqdm

from benchmarks.machine import facts
from benchmarks.report import OWN, RESULTS, Row, write_report
from benchmarks.rounds import ROOT
from translate_ddp.errors import UserError, report_errors
from translate_ddp.runtime.environment import SPIN_COUNT

START_SECONDS = 300  # for all trainings to take their first steps
POLICIES: dict[str, dict[str, str]] = {
    "default": {"GOMP_SPINCOUNT": str(SPIN_COUNT)},
    "libgomp": {"GOMP_SPINCOUNT": "300000"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
}
Step = tuple[float, int]  # when it ended, its tokens


@dataclass(frozen=True)
class NeighboursBenchmark:
    """Measure training next to other trainings on the same cores."""

    presets: tuple[str, ...] = ("tiny", "small", "base")
    """Shapes of the model."""
    policies: tuple[str, ...] = tuple(POLICIES)
    """Ways of waiting; a number is a GOMP_SPINCOUNT."""
    others: tuple[int, ...] = (0, 1, 2)
    """Numbers of other trainings."""
    seconds: float = 8.0
    """Length of each measurement."""
    rounds: int = 3
    """Measurements of each combination, which take turns."""
    results: Path = RESULTS
    """Folder that receives the report."""


def main() -> None:
    with report_errors():
        settings = tyro.cli(NeighboursBenchmark, description=__doc__, use_underscores=True)
        combinations = list(itertools.product(settings.presets, settings.policies, settings.others))
        paces: dict[tuple[str, str, int], list[float]] = {c: [] for c in combinations}
        for combination in tqdm(combinations * settings.rounds, unit="run"):
            paces[combination].append(measure(*combination, settings.seconds))
        report(settings, paces)


def measure(preset: str, policy: str, others: int, seconds: float) -> float:
    """Target tokens a second of the first of `others` + 1 trainings."""
    variables = POLICIES.get(policy, {"GOMP_SPINCOUNT": policy})
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        files = [Path(folder) / str(number) for number in range(others + 1)]
        for file in files:
            stack.enter_context(training(preset, file, variables))
        deadline = time.monotonic() + START_SECONDS
        while not all(len(steps_in(file)) >= 2 for file in files):
            if time.monotonic() > deadline:
                raise UserError(f"Not all trainings of {preset} began in {START_SECONDS} s.")
            time.sleep(0.2)
        begun = time.monotonic()
        time.sleep(seconds)
        return pace(steps_in(files[0]), begun)


def pace(steps: list[Step], begun: float) -> float:
    """Tokens a second between the last step before `begun` and the last of all."""
    first = max((at for at, _ in steps if at <= begun), default=begun)
    inside = [(at, tokens) for at, tokens in steps if at > begun]
    return sum(tokens for _, tokens in inside) / (inside[-1][0] - first) if inside else 0.0


@contextmanager
def training(preset: str, file: Path, variables: dict[str, str]) -> Iterator[None]:
    unset = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-m", "benchmarks.trainers.steps"]
    command += ["--preset", preset, "--write_to", str(file)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=unset | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def steps_in(file: Path) -> list[Step]:
    text = file.read_text() if file.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half written
    return [(float(at), int(tokens)) for at, tokens in map(str.split, lines)]


def report(settings: NeighboursBenchmark, paces: dict[tuple[str, str, int], list[float]]) -> None:
    def median(preset: str, policy: str, others: int) -> float:
        return statistics.median(paces[preset, policy, others])

    rows = []
    for preset, policy in itertools.product(settings.presets, settings.policies):
        alone = median(preset, policy, settings.others[0])
        values: dict[str, str | float] = {}
        for others in settings.others:
            name = f"tokens/s next to {others}"
            values[name] = median(preset, policy, others)
            if others != settings.others[0]:
                values[f"% kept next to {others}"] = 100 * median(preset, policy, others) / alone
        rows.append(Row(f"{OWN if policy == 'default' else ''} {preset}, {policy}".strip(), values))
    columns = list(dict.fromkeys(name for row in rows for name in row.values))
    write_report(
        "neighbours",
        "Training next to other trainings on the same cores",
        rows,
        columns,
        columns[-1],
        facts() | {"measured": f"{settings.rounds} rounds of {settings.seconds:g} s"},
        {", ".join(map(str, combination)): values for combination, values in paces.items()},
        settings.results,
        "training",
    )


if __name__ == "__main__":
    main()
