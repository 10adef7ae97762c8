"""How time and memory of a training step grow with its sizes: `python -m benchmarks.curves`.

Time per target token and memory of a step against sentence length, model width, vocabulary and
batch, one at a time, starting from one small model; and steps per second against processes. Each
point is a process of its own that trains on random ids. The points run in random order, so that a
change of the machine's speed does not bend a curve.

Memory is the peak resident size in training minus that of the process with the model just built:
gradients, optimizer and activations. On a GPU it is the peak that torch allocated, model included.
"""

import random
from dataclasses import asdict, dataclass, replace
from typing import Literal

from benchmarks.common import Settings, Values, module_command, read_settings
from benchmarks.curve_fit import LABELS, MEMORY, PACE, TIME, Curve, figure
from benchmarks.curve_point import Point
from benchmarks.machine import facts_and_peaks
from benchmarks.report import Row, table, write_report
from benchmarks.rounds import Outcomes, Result, run_rounds
from translate_ddp.errors import report_errors

TIMEOUT_SECONDS = 170
NOTES = (
    "Except for the setting that varies: width 128, 2+2 layers, vocabulary 4,096, sentences of 32 "
    "tokens on both sides, steps of 2,048 tokens, dropout 0.1. Medians over the steps of one "
    "process per point; memory is that of rank 0.",
    "How to read the curves: `benchmarks/README.md`.",
    "Exponents over the last half of each curve, and the bend: the x at which the growing cost "
    "equals the fixed cost, by a fit of a + b x^p with the power in brackets; '-' where the "
    "points show no such growth.",
)


@dataclass(frozen=True)
class CurvesBenchmark(Settings):
    seconds: float = 3.0
    """Timed for each point."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """As for train.py."""
    only: tuple[Literal["length", "d_model", "vocabulary", "batch", "one_pass", "ranks"], ...] = ()
    """Curves to measure; all if empty."""


def main() -> None:
    with report_errors():
        settings = read_settings(CurvesBenchmark, __doc__)
        every = all_points(Point("", 0, settings.precision, seconds=settings.seconds))
        points = [p for p in every if not settings.only or p.curve in settings.only]
        shuffled = random.Random(0).sample(points, len(points))
        commands = {p.name: module_command("curve_point", asdict(p), p.ranks) for p in shuffled}
        report(settings, points, run_rounds(commands, rounds=1, timeout=TIMEOUT_SECONDS))


def all_points(usual: Point) -> list[Point]:
    """The points of all curves; along a curve all settings but one are the usual ones."""

    def curve(name: str, setting: str, first: int, last: int) -> list[Point]:
        powers = range(first.bit_length() - 1, last.bit_length())
        values = [2**power for power in powers]
        return [replace(usual, curve=name, x=x, **{setting: x}) for x in values]

    one_pass = curve("one_pass", "batch", 4096, 32768)
    worlds = [(1, 1), (1, 2), (2, 1)]
    return [
        *curve("length", "length", 8, 512),
        *curve("d_model", "d_model", 64, 1024),
        *curve("vocabulary", "vocabulary", 1024, 65536),
        *curve("batch", "batch", 256, 32768),
        *(replace(point, max_tokens=point.batch) for point in one_pass),
        *(replace(usual, curve="ranks", x=r, ranks=r, threads=t) for r, t in worlds),
    ]


def quantities(result: Result) -> Values:
    return {
        TIME: 1e6 * result["step_seconds"] / result["target_tokens"],
        MEMORY: result["peak_mib"] - result["start_mib"],
        PACE: 1 / result["step_seconds"],
    }


def report(settings: CurvesBenchmark, points: list[Point], outcomes: Outcomes) -> None:
    done = {p: quantities(outcomes[p.name].rounds[0]) for p in points if outcomes[p.name].rounds}
    curves = {}
    for name in dict.fromkeys(point.curve for point in done):
        of_curve = [point for point in done if point.curve == name]
        results = [done[point] for point in of_curve]
        curves[name] = Curve(name, [point.x for point in of_curve], results)
    rows = []
    for point in points:
        label = point.name.replace(f"{point.curve} ", f"{LABELS[point.curve]}: ")
        rows.append(Row(label, done.get(point, {}), outcomes[point.name].failure))
    fits = table([curve.fit_row() for name, curve in curves.items() if name != "ranks"])
    title = f"How the cost of a training step grows, {settings.precision}"
    write_report(
        "curves",
        title,
        rows,
        facts=facts_and_peaks(),
        raw=[asdict(point) | dict(*outcomes[point.name].rounds) for point in points],
        folder=settings.results,
        notes=[*NOTES, fits],
        figure=figure(curves),
    )


if __name__ == "__main__":
    main()
