"""Axes of charts: map values to places, and draw ticks, grid and labels."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from translate_ddp.pages.svg import WIDTH, text, text_width

PLOT_HEIGHT = 160
LEFT, RIGHT, BOTTOM = 52, 10, 40  # margins around the area of the values
TICKS = 5
LARGEST = 1e300  # the differences of larger values are not finite

Limits = tuple[float, float]
Form = Callable[[float], str]


def compact(value: float) -> str:
    """`0.25`, `1,200`, `45k`, `1.2M`: short enough for an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def precise(value: float) -> str:
    """`0.1235`, `1,780`, `12,345.7`: integers in full, others to four digits at least."""
    if not drawable(value):
        return str(value)
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def drawable(value: float, is_log: bool = False) -> bool:
    """Whether a value has a place: not NaN, not infinite, and positive on a logarithmic axis."""
    return abs(value) < LARGEST and (not is_log or value > 1 / LARGEST)


@dataclass(frozen=True)
class Scale:
    """Maps values of `limits` to places from `start` to `end`, linearly or by their logarithms."""

    limits: Limits
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.limits
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


class Axes:
    """The area of the values below a legend of height `top`, with both axes."""

    def __init__(self, x: Limits, y: Limits, top: float = 0, is_log: bool = False) -> None:
        if not is_log and 0 < x[0] == x[1]:
            x = 0, 2 * x[0]  # the only place is in the middle
        x = widened(x, is_log)
        self.top = top + 8
        self.bottom = self.top + PLOT_HEIGHT
        self.height = self.bottom + BOTTOM
        if is_log:
            y = widened(y, is_log)
            self.x_ticks, self.y_ticks = log_ticks(*x), log_ticks(*y)
        else:
            self.x_ticks, self.y_ticks = ticks(*x), ticks(*y)
            y = min(y[0], self.y_ticks[0]), self.y_ticks[-1]
        self.x_ticks = [value for value in self.x_ticks if x[0] <= value <= x[1]]
        self.x = Scale(x, LEFT, WIDTH - RIGHT, is_log)
        self.y = Scale(y, self.bottom, self.top, is_log)

    def draw(self, x_label: str, y_text: Form = compact) -> Markup:
        """Grid, values at the ticks, and the label of the x axis."""
        line = Markup('<path class="grid" d="M{} {:.1f}H{}"/>')
        parts = [
            line.format(LEFT, self.y(value), WIDTH - RIGHT)
            + text(LEFT - 6, self.y(value) + 4, y_text(value), "end")
            for value in self.y_ticks
        ]
        for value in self.x_ticks:
            shown = compact(value)
            place = min(self.x(value), WIDTH - text_width(shown) / 2)  # the last one is not cut off
            parts.append(text(place, self.bottom + 16, shown, "middle"))
        parts.append(text((LEFT + WIDTH - RIGHT) / 2, self.bottom + 34, x_label, "middle"))
        return Markup("").join(parts)


def widened(limits: Limits, is_log: bool = False) -> Limits:
    """The limits, or wider ones if they are nearly equal."""
    low, high = limits
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-290):
        return limits
    return (low / 2, low * 2) if is_log else (low, low + (abs(low) or 1))


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from at most `low` to at least `high`."""
    low, high = widened((low, high))
    raw = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between positive limits, about as far from each other on a logarithmic axis.

    The limits themselves if there is at most one.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, len(decades) // TICKS)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        found = [factor * 10.0**power for power in decades[::every] for factor in factors]
        found = [value for value in found if low <= value <= high]
        if len(found) >= 3:
            return found
    return found if len(found) > 1 else [low, high]
