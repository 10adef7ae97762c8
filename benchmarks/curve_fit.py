"""Exponents and bends of measured curves, and their drawing."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.charts import figure
from benchmarks.common import Values
from benchmarks.report import Row

LEAST_SPAN = 8  # of a y axis, as a factor
TIME, MEMORY, PACE = "µs per target token", "MiB of a step", "steps per second"
LABELS = {
    "length": "sentence length, tokens",
    "d_model": "d_model",
    "vocabulary": "vocabulary",
    "batch": "tokens of a step, in passes of 2,048",
    "one_pass": "tokens of a step, in one pass",
    "ranks": "processes x threads",
}
# The power of x in what grows with it, or falls, per target token (time) and per step (memory).
POWERS = {
    "length": {TIME: 1, MEMORY: 1},  # each token attends to all tokens of its sentence
    "d_model": {TIME: 2, MEMORY: 2},  # both dimensions of the layers' matrices
    "vocabulary": {TIME: 1, MEMORY: 1},  # one dimension of the projection
    "batch": {TIME: -1, MEMORY: 1},  # the fixed cost of a step is divided by its tokens
    "one_pass": {TIME: -1, MEMORY: 1},
}


class Curve:
    """The measured points of a curve, in order of x; `y` holds each quantity."""

    def __init__(self, name: str, x: Sequence[float], results: Sequence[Values]) -> None:
        self.name, self.x = name, np.array(x, dtype=float)
        self.y = {q: np.array([float(r[q]) for r in results]) for q in (TIME, MEMORY, PACE)}

    def line(self, quantity: str) -> tuple[float, float]:
        """Exponent and factor of a x^p, fitted to the last half of the curve; NaN if one point."""
        rest = slice(len(self.x) // 2, None)
        if len(self.x[rest]) < 2:
            return math.nan, math.nan
        slope, height = np.polyfit(np.log(self.x[rest]), np.log(self.y[quantity][rest]), 1)
        return float(slope), math.exp(height)

    def bend(self, quantity: str) -> float:
        """The x at which b x^p equals a in the fit of a + b x^p; NaN if a or b is not positive."""
        power, y = POWERS[self.name][quantity], self.y[quantity]
        if len(y) < 3:
            return math.nan
        # Weights of 1 / y: all points count equally.
        growing, fixed = np.polyfit(self.x**power, y, 1, w=1 / y)
        return float((fixed / growing) ** (1 / power)) if min(fixed, growing) > 0 else math.nan

    def fit_row(self) -> Row:
        """Exponents and bends of time and memory."""
        values: Values = {}
        for quantity in (TIME, MEMORY):
            bend, power = self.bend(quantity), POWERS[self.name][quantity]
            values[f"{quantity}: exponent"] = f"{self.line(quantity)[0]:.2f}"
            values[f"{quantity}: bend"] = f"{'-' if math.isnan(bend) else f'{bend:,.0f}'} ({power})"
        return Row(LABELS[self.name], values)


def draw(curves: Mapping[str, Curve], title: str, path: Path) -> None:
    """Time in the first row, memory in the second; a column for each x axis."""
    names = [name for name in curves if name not in ("one_pass", "ranks")]
    with figure(path, title, 2, max(1, len(names)), figsize=(3.4 * len(names) + 1, 6)) as grid:
        for column, name in zip(grid.T, names, strict=False):
            for axes, quantity in zip(column, (TIME, MEMORY), strict=True):
                _draw_curve(axes, curves[name], quantity, "o-")
                if name == "batch" and "one_pass" in curves:
                    _draw_curve(axes, curves["one_pass"], quantity, "s--")
                axes.set(xlabel=LABELS[name].partition(",")[0], ylabel=quantity)
                low, high = axes.get_ylim()
                widen = max(1.0, LEAST_SPAN * low / high) ** 0.5  # noise must not look like a slope
                axes.set_ylim(low / widen, high * widen)


def _draw_curve(axes: Any, curve: Curve, quantity: str, style: str) -> None:
    (exponent, factor), x = curve.line(quantity), curve.x
    label = "in one pass, " if curve.name == "one_pass" else ""
    axes.loglog(x, curve.y[quantity], style, base=2, label=f"{label}exponent {exponent:.2f}")
    rest = x[len(x) // 2 :]
    axes.plot(rest, factor * rest**exponent, color="black", linewidth=0.8)
    axes.legend(frameon=False, fontsize="small")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda v, _: f"{v / 1024:g}k" if v >= 1024 else f"{v:g}")
