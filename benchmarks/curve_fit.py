"""Exponents and bends of measured curves, and their drawing."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.charts import figure
from benchmarks.curve_point import Point
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


@dataclass(frozen=True)
class Curve:
    """The measured points of a curve, in order of x."""

    name: str
    points: list[Point]
    results: list[dict[str, Any]]

    @property
    def x(self) -> np.ndarray:
        return np.array([point.x for point in self.points], dtype=float)

    def y(self, quantity: str) -> np.ndarray:
        return np.array([quantities(result)[quantity] for result in self.results])

    def exponent(self, quantity: str) -> float:
        """Slope of the logarithms over the last half of the curve; NaN if it has one point."""
        rest = len(self.points) // 2
        if len(self.points) - rest < 2:
            return math.nan
        return float(np.polyfit(np.log(self.x[rest:]), np.log(self.y(quantity)[rest:]), 1)[0])

    def bend(self, quantity: str) -> float:
        """The x at which b x^p equals a in the fit of a + b x^p; NaN if a or b is not positive."""
        power, y = POWERS[self.name][quantity], self.y(quantity)
        if len(y) < 3:
            return math.nan
        terms = np.stack([np.ones_like(self.x), self.x**power], axis=1)
        # Division by y gives all points the same weight.
        fixed, growing = np.linalg.lstsq(terms / y[:, None], np.ones_like(y))[0]
        return float((fixed / growing) ** (1 / power)) if min(fixed, growing) > 0 else math.nan


def quantities(result: dict[str, Any]) -> dict[str, float]:
    return {
        TIME: 1e6 * result["step_seconds"] / result["target_tokens"],
        MEMORY: result["peak_mib"] - result["start_mib"],
        PACE: 1 / result["step_seconds"],
    }


def fit_row(curve: Curve) -> Row:
    """Exponents and bends of time and memory."""
    values: dict[str, str | float] = {}
    for quantity in (TIME, MEMORY):
        bend = curve.bend(quantity)
        shown = "-" if math.isnan(bend) else f"{bend:,.0f}"
        values[f"{quantity}: exponent"] = f"{curve.exponent(quantity):.2f}"
        values[f"{quantity}: bend"] = f"{shown} ({POWERS[curve.name][quantity]})"
    return Row(LABELS[curve.name], values)


def draw(curves: Mapping[str, Curve], title: str, path: Path) -> None:
    """Time in the first row, memory in the second; processes as bars in the last column."""
    names = list(dict.fromkeys(curve.points[0].group for curve in curves.values()))
    with figure(path, 2, len(names), figsize=(3.4 * len(names), 6)) as (drawing, grid):
        for column, name in zip(grid.T, names, strict=True):
            for axes, quantity in zip(column, (TIME, MEMORY), strict=True):
                if name == "ranks":
                    _draw_bars(axes, curves[name], PACE if quantity == TIME else MEMORY)
                    continue
                for curve in curves.values():
                    if curve.points[0].group == name:
                        _draw_curve(axes, curve, quantity)
                axes.set(xlabel=LABELS[name].partition(",")[0], ylabel=quantity)
                low, high = axes.get_ylim()
                widen = max(1.0, LEAST_SPAN * low / high) ** 0.5  # noise must not look like a slope
                axes.set_ylim(low / widen, high * widen)
                for axis in (axes.xaxis, axes.yaxis):
                    axis.set_major_formatter(lambda value, _: _short(value))
        drawing.suptitle(title)


def _draw_bars(axes: Any, curve: Curve, quantity: str) -> None:
    labels = [f"{point.ranks} x {point.threads}" for point in curve.points]
    bars = axes.bar(labels, curve.y(quantity))
    axes.margins(y=0.12)
    axes.bar_label(bars, fmt="%.2f" if quantity == PACE else "%.0f")
    axes.set(xlabel=LABELS[curve.name], ylabel=quantity)


def _draw_curve(axes: Any, curve: Curve, quantity: str) -> None:
    exponent, x, y = curve.exponent(quantity), curve.x, curve.y(quantity)
    style, label = ("s--", "in one pass, ") if curve.name == "one_pass" else ("o-", "")
    axes.loglog(x, y, style, base=2, label=f"{label}exponent {exponent:.2f}")
    rest = slice(len(x) // 2, None)
    factor = np.exp(np.log(y[rest]).mean() - exponent * np.log(x[rest]).mean())
    axes.plot(x[rest], factor * x[rest] ** exponent, color="black", linewidth=0.8)
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)


def _short(value: float) -> str:
    return f"{value / 1024:g}k" if value >= 1024 else f"{value:g}"
