"""How the cost of a training step grows: `python -m benchmarks.curves`.

Time per target token and memory of a step against sentence length, model width, vocabulary and
batch, one at a time around one small model, and steps a second against processes. Each point is a
process of its own that trains the product's own trainer on random ids; points come in shuffled
order, so that a machine that slows down bends no curve.

An exponent is the slope of a least-squares line through the logarithms, over the last half of a
curve, where what grows is least hidden by what stays. The bend is where the two are equal, by a fit
of a + b x^p with the power p that theory gives (`POWERS`), to all points alike. Memory is the peak
resident size of the process in training beyond what it was with the model just built: gradients,
optimizer and activations (of a GPU: the peak that torch allocated, the model included).
"""

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

from benchmarks.machine import default_device, facts, matrix_peaks
from benchmarks.report import RESULTS, Row, table, write_report
from benchmarks.rounds import Contestant, Outcome, run_rounds
from benchmarks.workbench import open_trainer, random_pairs, status_mib, take_steps, wait_for
from translate_ddp.errors import report_errors
from translate_ddp.runtime.distributed import World

TIMEOUT_SECONDS = 170
STEPS_AT_LEAST = 3
STEPS_AN_EPOCH = 4
LEAST_SPAN = 8  # of a y axis, as a factor
TIME, MEMORY, PACE = "µs a target token", "MiB of a step", "steps a second"
LABELS = {
    "length": "sentence length, tokens",
    "d_model": "d_model",
    "vocabulary": "vocabulary",
    "batch": "tokens of a step, in passes of 2,048",
    "one_pass": "tokens of a step, in one pass",
    "ranks": "processes x threads",
}
GROUPS = [name for name in LABELS if name != "one_pass"]  # it is drawn beside "batch"
# What grows with x, or falls, for each target token (time) and for the step (memory).
POWERS = {
    "length": {TIME: 1, MEMORY: 1},  # each token attends to all of its sentence
    "d_model": {TIME: 2, MEMORY: 2},  # matrices have two sides
    "vocabulary": {TIME: 1, MEMORY: 1},  # one of the projection's two sides
    "batch": {TIME: -1, MEMORY: 1},  # a step's fixed costs are shared by its tokens
    "one_pass": {TIME: -1, MEMORY: 1},
}
# Below the bend one sees what stays; this is what and why.
READING = """How to read them:

- **Sentence length**: flat as long as the matrices, 12 d² weights an encoder layer and 16 d² a
  decoder layer, outweigh attention, which costs a token its sentence's length; in time per sentence
  linear below the bend and quadratic beyond. Plain products (bf16 on a CPU) keep their scores,
  length² a sentence, for backward; the fused kernel (fp32) keeps none, so memory stays flat.
- **d_model**: between 1 and 2. Matrices grow with d², the projection and all that is elementwise
  with d, and wider products come closer to the machine's peak.
- **Vocabulary**: linear beyond the bend, where the projection outweighs the layers. Memory bends
  much later: scores of a few rows exist at once, whatever the vocabulary, and what grows is the
  embedding's gradient and moments.
- **Tokens of a step**: a step's fixed costs (optimizer, dispatch, Python) are shared by its tokens,
  so a token's time falls at first and is flat from some hundred tokens on. In passes of 2,048
  tokens memory stops growing there; in one pass it is linear, and buys little time on a CPU."""


@dataclass(frozen=True)
class Point:
    """One measurement: which curve, where on it, and the trainer that stands there."""

    curve: str
    x: int
    precision: str
    length: int = 32  # of all sentences, on both sides
    d_model: int = 128
    vocabulary: int = 4096
    batch: int = 2048
    max_tokens: int = 2048
    ranks: int = 1
    threads: int = 0  # of each rank; 0 shares the cores out

    @property
    def name(self) -> str:
        return f"{self.ranks} x {self.threads}" if self.curve == "ranks" else f"{self.x:,}"

    @property
    def group(self) -> str:
        return "batch" if self.curve == "one_pass" else self.curve

    def flags(self) -> list[str]:
        """For train.py: 2+2 layers, heads of 64, as the usual Transformer has them."""
        settings = {
            "d_model": self.d_model,
            "num_heads": self.d_model // 64,
            "d_ff": 4 * self.d_model,
            "dropout": 0.1,
            "seq_len": self.length,
            "batch_tokens": self.batch,
            "max_tokens": self.max_tokens,
            "precision": self.precision,
        }
        return [text for name, value in settings.items() for text in (f"--{name}", str(value))]

    def contestant(self, seconds: float) -> Contestant:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={self.ranks}"]
        command = [sys.executable, *(launcher if self.ranks > 1 else []), "-m", "benchmarks.curves"]
        arguments = ["--point", json.dumps(asdict(self)), "--seconds", str(seconds)]
        return Contestant(f"{self.curve} {self.name}", command + arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=3.0, help="timed for each point")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.point:
        with report_errors():
            measure(Point(**settings.point), settings.seconds)
        return
    points = [p for p in all_points(settings.precision) if p.group in settings.only]
    shuffled = random.Random(0).sample(points, len(points))
    contestants = [point.contestant(settings.seconds) for point in shuffled]
    outcomes = run_rounds(contestants, rounds=1, timeout=TIMEOUT_SECONDS)
    by_name = {outcome.contestant.name: outcome for outcome in outcomes}
    results = [(p, by_name[p.contestant(settings.seconds).name]) for p in points]
    report(results, settings.precision, settings.results)


def all_points(precision: str) -> list[Point]:
    """Every curve leaves all but one setting as they are."""
    usual = Point("", 0, precision)

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


def measure(point: Point, seconds: float) -> None:
    """Train at this point and print what it takes."""
    sentences = point.batch // point.length
    data = random_pairs(STEPS_AN_EPOCH * sentences, point.length, point.vocabulary)
    with open_trainer(point.flags(), data) as trainer:
        world = trainer.world
        if point.threads:
            torch.set_num_threads(point.threads)
        start_mib = forget_peak(world)
        trainer.warm_up()
        steps = take_steps(trainer)
        untimed, timed = [], []
        for taken, limit, least in ((untimed, seconds / 3, 1), (timed, seconds, STEPS_AT_LEAST)):
            # Every rank takes the same steps: rank 0's clock counts.
            while world.any(world.is_main and (len(taken) < least or sum(taken) < limit))[0]:
                begun = time.perf_counter()
                next(steps)
                wait_for(world.device)
                taken.append(time.perf_counter() - begun)
        result = {
            "step_seconds": statistics.median(timed),
            "fastest": min(timed),
            "slowest": max(timed),
            "steps": len(timed),
            "target_tokens": sentences * point.length,
            "start_mib": start_mib,
            "peak_mib": peak_mib(world),
        }
    if world.is_main:
        print(json.dumps(result))


def forget_peak(world: World) -> float:
    """Let the peak be counted from here on; what is there now, in MiB."""
    if world.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return 0.0
    Path("/proc/self/clear_refs").write_text("5")  # of proc(5): VmHWM becomes VmRSS
    return status_mib("VmRSS")


def peak_mib(world: World) -> float:
    if world.device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return status_mib("VmHWM")


@dataclass(frozen=True)
class Curve:
    """The points of a curve that were measured, in order."""

    name: str
    points: list[Point]
    results: list[dict[str, Any]]

    @property
    def x(self) -> np.ndarray:
        return np.array([point.x for point in self.points], dtype=float)

    def y(self, quantity: str) -> np.ndarray:
        return np.array([quantities(result)[quantity] for result in self.results])

    def exponent(self, quantity: str) -> float:
        """Over the last half of the curve; NaN of too few points."""
        rest = len(self.points) // 2
        if len(self.points) - rest < 2:
            return math.nan
        return float(np.polyfit(np.log(self.x[rest:]), np.log(self.y(quantity)[rest:]), 1)[0])

    def bend(self, quantity: str) -> float:
        """The x at which what changes with it equals what does not; NaN if nothing is seen to."""
        power, y = POWERS[self.name][quantity], self.y(quantity)
        if len(y) < 3:
            return math.nan
        terms = np.stack([np.ones_like(self.x), self.x**power], axis=1)
        # Divided by y: every point counts alike, however large.
        stays, grows = np.linalg.lstsq(terms / y[:, None], np.ones_like(y))[0]
        return float((stays / grows) ** (1 / power)) if stays > 0 and grows > 0 else math.nan


def quantities(result: dict[str, Any]) -> dict[str, float]:
    return {
        TIME: 1e6 * result["step_seconds"] / result["target_tokens"],
        MEMORY: result["peak_mib"] - result["start_mib"],
        PACE: 1 / result["step_seconds"],
    }


def report(results: Sequence[tuple[Point, Outcome]], precision: str, folder: Path) -> None:
    rows = []
    for point, outcome in results:
        values = quantities(outcome.rounds[0]) if outcome.rounds else {}
        label = f"{LABELS[point.curve]}: {point.name}"
        rows.append(Row(label, dict(values), outcome.failure))
    measured = [(point, outcome.rounds[0]) for point, outcome in results if outcome.rounds]
    curves = {}
    for name in dict.fromkeys(point.curve for point, _ in measured):
        mine = [(point, result) for point, result in measured if point.curve == name]
        curves[name] = Curve(name, [p for p, _ in mine], [r for _, r in mine])
    fitted = [fits(curve) for curve in curves.values() if curve.name != "ranks"]
    notes = [
        f"{precision}. Where it is not the setting that varies: width 128, 2+2 layers, "
        "vocabulary 4,096, sentences of 32 tokens on both sides, steps of 2,048 tokens, "
        "dropout 0.1. Medians of the steps of one process a point; memory is that of rank 0.",
        "Exponents over the last half of each curve, and the bend: where what changes with x "
        "equals what does not, by a fit of a + b x^p with the power in brackets; '-' where the "
        "points show no such growth.\n\n"
        + table(fitted, list(fitted[0].values) if fitted else [], "against"),
        READING,
    ]
    raw = [asdict(p) | (o.rounds[0] if o.rounds else {"failure": o.failure}) for p, o in results]
    peaks = {
        f"{name} GFLOP/s": round(pace) for name, pace in matrix_peaks(default_device()).items()
    }
    title = f"How the cost of a training step grows, {precision}"
    columns = [TIME, MEMORY, PACE]
    about = facts() | peaks
    write_report("curves", title, rows, columns, TIME, about, raw, folder, "point", notes)
    if curves:
        draw(curves, title, folder / "curves.svg")


def fits(curve: Curve) -> Row:
    values: dict[str, str | float] = {}
    for quantity in (TIME, MEMORY):
        bend = curve.bend(quantity)
        values[f"{quantity}: exponent"] = f"{curve.exponent(quantity):.2f}"
        told = "-" if math.isnan(bend) else f"{bend:,.0f}"
        values[f"{quantity}: bend"] = f"{told} ({POWERS[curve.name][quantity]})"
    return Row(LABELS[curve.name], values)


def draw(curves: dict[str, Curve], title: str, path: Path) -> None:
    """Time above, memory below, in place of the report's chart; processes as bars on the right."""
    names = [name for name in GROUPS if name in curves and name != "ranks"]
    width = len(names) + ("ranks" in curves)
    figure, grid = plt.subplots(
        2, width, figsize=(3.4 * width, 6), layout="constrained", squeeze=False
    )
    for column, name in enumerate(names):
        shown = [part for part in curves if curves[part].points[0].group == name]
        for axes, quantity in zip(grid[:, column], (TIME, MEMORY), strict=True):
            for part in shown:
                _draw_curve(axes, curves[part], quantity)
            axes.set(xlabel=LABELS[name].partition(",")[0], ylabel=quantity)
            low, high = axes.get_ylim()
            widen = max(1.0, LEAST_SPAN * low / high) ** 0.5  # lest noise look like a slope
            axes.set_ylim(low / widen, high * widen)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(lambda value, _: _short(value))
    if "ranks" in curves:
        for axes, quantity in zip(grid[:, -1], (PACE, MEMORY), strict=True):
            bars = axes.bar([p.name for p in curves["ranks"].points], curves["ranks"].y(quantity))
            axes.margins(y=0.12)
            axes.bar_label(bars, fmt="%.2f" if quantity == PACE else "%.0f")
            axes.set(xlabel=LABELS["ranks"], ylabel=quantity)
    figure.suptitle(title)
    with plt.rc_context({"svg.hashsalt": "translate_ddp"}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _short(value: float) -> str:
    return f"{value / 1024:g}k" if value >= 1024 else f"{value:g}"


def _draw_curve(axes: Any, curve: Curve, quantity: str) -> None:
    exponent = curve.exponent(quantity)
    style = "s--" if curve.name == "one_pass" else "o-"
    label = "in one pass, " if curve.name == "one_pass" else ""
    y = curve.y(quantity)
    axes.loglog(curve.x, y, style, base=2, label=f"{label}exponent {exponent:.2f}")
    rest = curve.x[len(curve.points) // 2 :]
    middle = np.exp(np.log(y[len(curve.points) // 2 :]).mean() - exponent * np.log(rest).mean())
    axes.plot(rest, middle * rest**exponent, color="black", linewidth=0.8)
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
