"""Exponents and bends of measured curves, and their figure."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from benchmarks.common import Values
from benchmarks.report import Row
from translate_ddp.apps.reporting.svg_charts import Series, lines, standalone

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


def figure(curves: Mapping[str, Curve]) -> str:
    """Two charts for each x axis, side by side: time and memory."""
    names = [name for name in curves if name not in ("one_pass", "ranks")]
    return standalone(
        *(_draw(name, curves, quantity) for name in names for quantity in (TIME, MEMORY)),
    )


def _draw(name: str, curves: Mapping[str, Curve], quantity: str) -> Markup:
    """The points and the fitted power; for `batch` also those of one pass."""
    series = _series(curves[name], quantity, "")
    if name == "batch" and "one_pass" in curves:
        series += _series(curves["one_pass"], quantity, "one pass: ")
    return lines(quantity, series, LABELS[name].partition(",")[0])


def _series(curve: Curve, quantity: str, label: str) -> list[Series]:
    found = [Series(f"{label}measured", curve.y[quantity].tolist(), curve.x.tolist())]
    exponent, factor = curve.line(quantity)
    if not math.isnan(exponent):
        rest = curve.x[len(curve.x) // 2 :]
        fitted = (factor * rest**exponent).tolist()
        found.append(Series(f"{label}exponent {exponent:.2f}", fitted, rest.tolist()))
    return found
