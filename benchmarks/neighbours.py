"""Training throughput while other trainings run on the same cores.

    python -m benchmarks.neighbours
    python -m benchmarks.neighbours --presets tiny --others 0 1 --rounds 5

Each measurement starts one training and as many others, all with the same settings, and counts the
target tokens of the first once all of them take steps. Idle OpenMP threads poll for work before
they sleep, as often as GOMP_SPINCOUNT is large; while they poll they take a core from another
program. `default` is what train.py sets, `libgomp` the default of GCC's OpenMP, `passive` no
polling.
"""

import itertools
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.common import (
    ROOT,
    Failed,
    Settings,
    Values,
    as_flags,
    python,
    read_settings,
    work_folder,
)
from benchmarks.machine import facts
from benchmarks.report import OWN, Row, write_report
from benchmarks.rounds import Outcome, Result, interleave
from translate_ddp.errors import report_errors
from translate_ddp.runtime.environment import SPIN_COUNT

START_SECONDS = 300  # until all trainings have taken their first steps
POLICIES: dict[str, dict[str, str]] = {
    "default": {"GOMP_SPINCOUNT": str(SPIN_COUNT)},
    "libgomp": {"GOMP_SPINCOUNT": "300000"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
}
PACE = "target_tokens_per_second"
Step = tuple[float, int]  # time of its end, its tokens


@dataclass(frozen=True)
class NeighboursBenchmark(Settings):
    presets: tuple[str, ...] = ("tiny", "small", "base")
    """Model shapes."""
    policies: tuple[str, ...] = tuple(POLICIES)
    """Wait policies; a number is a GOMP_SPINCOUNT."""
    others: tuple[int, ...] = (0, 1, 2)
    """Numbers of other trainings."""
    seconds: float = 8.0
    """Length of each measurement."""
    rounds: int = 3
    """Measurements of each combination."""


def main() -> None:
    with report_errors():
        settings = read_settings(NeighboursBenchmark, __doc__)
        measures = {
            name_of(*combination): partial(measure, *combination, settings.seconds)
            for combination in itertools.product(
                settings.presets, settings.policies, settings.others
            )
        }
        report(settings, interleave(measures, settings.rounds))


def name_of(preset: str, policy: str, others: int) -> str:
    return f"{preset}, {policy}, {others}"


def measure(preset: str, policy: str, others: int, seconds: float) -> Result:
    """The pace of the first of `others` + 1 trainings."""
    variables = POLICIES.get(policy, {"GOMP_SPINCOUNT": policy})
    with work_folder() as folder, ExitStack() as stack:
        files = [folder / str(number) for number in range(others + 1)]
        for file in files:
            stack.enter_context(training(preset, file, variables))
        deadline = time.monotonic() + START_SECONDS
        while not all(len(steps_in(file)) >= 2 for file in files):
            if time.monotonic() > deadline:
                raise Failed(f"not all trainings took steps within {START_SECONDS} s")
            time.sleep(0.2)
        begin = time.monotonic()
        time.sleep(seconds)
        return {PACE: pace(steps_in(files[0]), begin)}


def pace(steps: list[Step], begin: float) -> float:
    """Tokens per second from the last step before `begin` to the last step of all."""
    first = max((at for at, _ in steps if at <= begin), default=begin)
    inside = [(at, tokens) for at, tokens in steps if at > begin]
    return sum(tokens for _, tokens in inside) / (inside[-1][0] - first) if inside else 0.0


@contextmanager
def training(preset: str, file: Path, variables: dict[str, str]) -> Iterator[None]:
    """A training on random ids that runs until the end of the block."""
    unset = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    flags = as_flags({"preset": preset, "write_to": file})
    process = subprocess.Popen(
        [*python(), "-m", "benchmarks.trainers.steps", *flags],
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
    lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may be incomplete
    return [(float(at), int(tokens)) for at, tokens in map(str.split, lines)]


def report(settings: NeighboursBenchmark, outcomes: Mapping[str, Outcome]) -> None:
    rows = []
    for preset, policy in itertools.product(settings.presets, settings.policies):
        label = f"{OWN if policy == 'default' else ''} {preset}, {policy}".strip()
        tried = {others: outcomes[name_of(preset, policy, others)] for others in settings.others}
        failure = next((outcome.failure for outcome in tried.values() if outcome.failure), "")
        values: Values = {}
        medians = {} if failure else {n: outcome.median(PACE) for n, outcome in tried.items()}
        for others, median in medians.items():
            values[f"tokens/s next to {others}"] = median
            if others != settings.others[0]:
                values[f"% kept next to {others}"] = 100 * median / medians[settings.others[0]]
        rows.append(Row(label, values, failure))
    write_report(
        "neighbours",
        "Training next to other trainings on the same cores",
        rows,
        list(dict.fromkeys(name for row in rows for name in row.values)),
        facts=facts() | {"measured": f"{settings.rounds} rounds of {settings.seconds:g} s"},
        raw={name: [r[PACE] for r in outcome.rounds] for name, outcome in outcomes.items()},
        folder=settings.results,
        first_column="training",
    )


if __name__ == "__main__":
    main()
