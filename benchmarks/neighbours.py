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
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.common import OWN, ROOT, Failed, Settings, Values, module_command, read_settings
from benchmarks.machine import facts
from benchmarks.report import Row, write_report
from benchmarks.rounds import Outcomes, Result, interleave, raw
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
        combinations = itertools.product(settings.presets, settings.policies, settings.others)
        measures = {
            "{}, {}, {}".format(*combination): partial(measure, *combination, settings.seconds)
            for combination in combinations
        }
        outcomes = interleave(measures, settings.rounds)
        write_report(
            "neighbours",
            "Training next to other trainings on the same cores",
            [
                row(preset, policy, settings.others, outcomes)
                for preset, policy in itertools.product(settings.presets, settings.policies)
            ],
            facts=facts() | {"measured": f"{settings.rounds} rounds of {settings.seconds:g} s"},
            raw=raw(outcomes),
            folder=settings.results,
        )


def measure(preset: str, policy: str, others: int, seconds: float, _: int) -> Result:
    """The pace of the first of `others` + 1 trainings."""
    variables = POLICIES.get(policy, {"GOMP_SPINCOUNT": policy})
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        files = [Path(folder) / str(number) for number in range(others + 1)]
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
    process = subprocess.Popen(
        module_command("trainers.steps", {"preset": preset, "write_to": file}),
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


def row(preset: str, policy: str, others: tuple[int, ...], outcomes: Outcomes) -> Row:
    label = f"{OWN if policy == 'default' else ''} {preset}, {policy}".strip()
    tried = {number: outcomes[f"{preset}, {policy}, {number}"] for number in others}
    if failure := next((outcome.failure for outcome in tried.values() if outcome.failure), ""):
        return Row(label, failure=failure)
    values: Values = {}
    medians = {number: outcome.median(PACE) for number, outcome in tried.items()}
    for number, median in medians.items():
        values[f"tokens/s next to {number}"] = median
        if number != others[0]:
            values[f"% kept next to {number}"] = 100 * median / medians[others[0]]
    return Row(label, values)


if __name__ == "__main__":
    main()
