"""Axes of charts: map values to places, and draw ticks, grid and labels."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from translate_ddp.apps.reporting.svg import WIDTH, text, text_width

PLOT_HEIGHT = 160
LEFT, RIGHT, BOTTOM = 52, 10, 40  # margins around the area of the values
TICKS = 5
LARGEST = 1e300  # the differences of larger values are not finite
MAX_DIGITS = 9  # of a tick
CUT_ROW = 22
EDGE = 4  # lines at the end of the y axis keep their width and dots
FARTHEST = 1e5  # places outside of the chart: browsers draw with 32 bits

Limits = tuple[float, float]
Form = Callable[[float], str]


def compact(value: float, digits: int = 3) -> str:
    """`0.25`, `1,200`, `45k`, `1.2M`: short enough for an axis."""
    rounded = abs(float(f"{value:.{digits}g}"))  # it chooses the unit: 999.7 is 1,000
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if rounded >= size:
            return f"{value / (1e3 if unit == 'k' else size):.{digits}g}{unit}"
    return f"{value:,.{digits - 3}f}" if rounded >= 1000 else f"{value:.{digits}g}"


def tick_texts(ticks: Sequence[float], form: Form = compact) -> list[str]:
    """The ticks as different texts, with as few digits as that takes: `1.412`, `1.413`."""
    texts = list(map(form, ticks))
    for digits in range(4, MAX_DIGITS):
        if form is not compact or len(set(texts)) == len(texts):
            break
        texts = [compact(value, digits) for value in ticks]
    return texts


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
        place = self.start + (value - low) / (high - low) * (self.end - self.start)
        return min(max(place, -FARTHEST), FARTHEST)


class Axes:
    """The area of the values below a legend of height `top`, with both axes."""

    def __init__(
        self, x: Limits, y: Limits, top: float = 0, is_log: bool = False, is_cut: bool = False
    ) -> None:
        """`is_cut`: there is a row for `draw_cut` above the area."""
        if not is_log and 0 < x[0] == x[1]:
            x = 0, 2 * x[0]  # the only place is in the middle
        x = widened(x, is_log)
        self.top = top + (CUT_ROW if is_cut else 8)
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
            + text(LEFT - 6, self.y(value) + 4, shown, "end")
            for value, shown in zip(self.y_ticks, tick_texts(self.y_ticks, y_text), strict=True)
        ]
        for value, shown in zip(self.x_ticks, tick_texts(self.x_ticks), strict=True):
            place = min(self.x(value), WIDTH - text_width(shown) / 2)  # the last one is not cut off
            parts.append(text(place, self.bottom + 16, shown, "middle"))
        parts.append(text((LEFT + WIDTH - RIGHT) / 2, self.bottom + 34, x_label, "middle"))
        return Markup("").join(parts)

    def window(self, lines: Sequence[Markup]) -> Markup:
        """The lines, of which only the parts within the area can be seen."""
        frame = self.top - EDGE, WIDTH, PLOT_HEIGHT + 2 * EDGE
        return Markup(
            '<svg class="window" y="{0}" width="{1}" height="{2}" viewBox="0 {0} {1} {2}">{3}</svg>'
        ).format(*frame, Markup("").join(lines))

    def draw_cut(self, values: Limits, y_text: Form) -> Markup:
        """How far the values go beyond the ends of the y axis, at these ends."""
        low, high = self.y.limits
        ends = [("up", values[1], self.top - 8)] if values[1] > high else []
        ends += [("down", values[0], self.bottom + 34)] if values[0] < low else []
        return Markup("").join(
            text(LEFT, place, f"{way} to {y_text(value)}") for way, value, place in ends
        )


def cut(limits: Limits, within: Limits | None) -> Limits:
    """The part of the limits that is `within` others; all of them if none is."""
    if within is None:
        return limits
    low, high = max(limits[0], within[0]), min(limits[1], within[1])
    return (low, high) if low < high else limits


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
