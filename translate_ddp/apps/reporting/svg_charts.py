"""Charts of lines, as inline SVG with a text alternative.

Places are in the units of the drawing's `viewBox`, from its upper left corner. `charts.css`
has the colours, so charts follow the light and dark form of the page. All text is escaped. Values
that are not finite have no place and are left out. There are no scripts.
"""

import math
import unicodedata
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from translate_ddp.console import number, printable

WIDTH, PLOT_HEIGHT = 360, 160
LEFT, TOP, RIGHT, BOTTOM = 58, 8, 10, 40  # margins around the area of the values
EDGE = 4  # lines at the end of the y axis keep their width and dots
COLORS, TICKS = 8, 5
MAX_DOTS = 40  # series with at most so many values have a dot at each, which shows its value
NEAREST = 5  # marks of one kind that are nearer become one
FARTHEST = 1e5  # places outside of the chart: browsers draw with 32 bits
CHARACTER_WIDTH, WIDE_CHARACTER = 6.5, 12.0  # about, of the font in charts.css
LEGEND_ROW, LEGEND_CHARACTERS = 16, 44
NO_XML = str.maketrans(dict.fromkeys("\ufffe\uffff", "\ufffd"))

Limits = tuple[float, float]


class Series(NamedTuple):
    """Values with a name, which the legend shows."""

    name: str
    y: Sequence[float]
    x: Sequence[float]

    def finite(self) -> list[tuple[float, float]]:
        return [point for point in zip(self.x, self.y, strict=True) if math.isfinite(point[1])]


class Mark(NamedTuple):
    """An event at a place of the x axis. Its kind, resumed or skipped, is a class of charts.css."""

    x: float
    kind: str
    text: str


# --- charts ---


def lines(
    title: str,
    series: Sequence[Series],
    x_label: str,
    marks: Sequence[Mark] = (),
    x_range: Sequence[float] = (),
    y_limits: Limits | None = None,
) -> Markup:
    """A line for each series, with gaps at values that are not finite.

    The x axis covers all values and `x_range`, the y axis all values and 0, or only `y_limits`, at
    which lines leave the chart.
    """
    xs = [x for each in series for x in each.x] + [mark.x for mark in marks] + [*x_range] or [0]
    ys = [0.0] + [y for each in series for _, y in each.finite()]
    # The title names the only line.
    named = enumerate(series) if len(series) > 1 else ()
    line = Markup('<g class="color-{}"><path class="line" d="M0 -4h22"/></g>')
    entries = [(line.format(color % COLORS), each.name) for color, each in named]
    swatch = Markup('<path class="mark {}" d="M14 2V-11"/>')
    entries += [(swatch.format(kind), kind) for kind in sorted({mark.kind for mark in marks})]
    legend, height = _legend(entries)
    axes = Axes((min(xs), max(xs)), y_limits or (min(ys), max(ys)), height)
    window = Markup(
        '<svg class="window" y="{0}" width="{1}" height="{2}" viewBox="0 {0} {1} {2}">{3}</svg>'
    ).format(
        axes.top - EDGE,
        WIDTH,
        PLOT_HEIGHT + 2 * EDGE,
        Markup("").join(_line(axes, n % COLORS, each) for n, each in enumerate(series)),
    )
    drawn = [legend, axes.draw(x_label), *_draw_marks(axes, marks), window]
    description = " ".join([f"Lines over {x_label}.", *map(_summary, series)])
    return _figure(title, description, drawn, axes.bottom + BOTTOM)


# --- axes ---


class Axes:
    """The area of the values below a legend of height `above`, with both axes."""

    def __init__(self, x: Limits, y: Limits, above: float) -> None:
        self.x_limits, self.y_ticks = _widened(x), ticks(*y)
        self.y_limits = min(y[0], self.y_ticks[0]), self.y_ticks[-1]
        self.top = above + TOP
        self.bottom = self.top + PLOT_HEIGHT

    def x(self, value: float) -> float:
        """The place of a value on the x axis."""
        low, high = self.x_limits
        return LEFT + (value - low) / (high - low) * (WIDTH - RIGHT - LEFT)

    def y(self, value: float) -> float:
        low, high = self.y_limits
        place = self.bottom - (value - low) / (high - low) * PLOT_HEIGHT
        return min(max(place, -FARTHEST), FARTHEST)

    def draw(self, x_label: str) -> Markup:
        """Grid, values at the ticks, and the label of the x axis."""
        grid = Markup('<path class="grid" d="M{} {:.1f}H{}"/>')
        parts = [
            grid.format(LEFT, self.y(value), WIDTH - RIGHT)
            + _text(LEFT - 6, self.y(value) + 4, shown, "end")
            for value, shown in zip(self.y_ticks, tick_texts(self.y_ticks), strict=True)
        ]
        low, high = self.x_limits
        x_ticks = [value for value in ticks(low, high) if low <= value <= high]
        for value, shown in zip(x_ticks, tick_texts(x_ticks), strict=True):
            place = min(self.x(value), WIDTH - _text_width(shown) / 2)  # the last is not cut off
            parts.append(_text(place, self.bottom + 16, shown, "middle"))
        parts.append(_text((LEFT + WIDTH - RIGHT) / 2, self.bottom + 34, x_label, "middle"))
        return Markup("").join(parts)


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from at most `low` to at least `high`."""
    low, high = _widened((low, high))
    raw = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [place * step for place in range(first, last + 1)]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The ticks as short numbers: `0.25` and `0.5`; `10k` and `12.5k` from 10,000 on."""
    size, unit = (1000, "k") if max(map(abs, ticks), default=0) >= 10_000 else (1, "")
    return [f"{value / size:,.6g}{unit}" if value else "0" for value in ticks]


def _widened(limits: Limits) -> Limits:
    """The limits, or wider ones if they are nearly equal."""
    low, high = limits
    is_wide = high - low > 1e-9 * max(abs(low), abs(high), 1e-290)
    return limits if is_wide else (low, low + (abs(low) or 1))


# --- parts of charts ---


def clean(content: str) -> str:
    """The text, without characters that no SVG file can hold or that reorder a line."""
    return printable(content).translate(NO_XML)


def shortened(content: str, characters: int) -> str:
    return content if len(content) <= characters else f"{content[: characters - 1]}…"


def _figure(title: str, description: str, drawn: Sequence[Markup], height: float) -> Markup:
    """A drawing with its title above, and its description as a text alternative."""
    return Markup(
        '<figure class="chart"><figcaption>{0}</figcaption><svg role="img" aria-label="{0}" '
        'viewBox="0 0 {1} {2:.0f}"><desc>{3}</desc>{4}</svg></figure>'
    ).format(clean(title), WIDTH, height, clean(description), Markup("").join(drawn))


def _text(x: float, y: float, content: str, anchor: str = "start") -> Markup:
    """Text whose start, middle or end is at a place."""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, clean(content)
    )


def _text_width(content: str) -> float:
    """About the width of the text."""
    kinds = map(unicodedata.east_asian_width, clean(content))
    return sum(WIDE_CHARACTER if kind in "WF" else CHARACTER_WIDTH for kind in kinds)


def _legend(entries: Sequence[tuple[Markup, str]]) -> tuple[Markup, float]:
    """Swatches with names, in as many rows as they need, and the height of the rows.

    Entries are the swatch, drawn for a text that starts at (26, 0), and the name.
    """
    parts: list[Markup] = []
    x, row = 0.0, 0
    for swatch, name in entries:
        name = shortened(name, LEGEND_CHARACTERS)
        needed = 26 + _text_width(name) + 14
        if x and x + needed > WIDTH:
            x, row = 0.0, row + 1
        place = Markup('<g transform="translate({:.1f} {})">').format(x, 12 + row * LEGEND_ROW)
        parts.append(place + swatch + _text(26, 0, name) + Markup("</g>"))
        x += needed
    return Markup("").join(parts), (row + 1) * LEGEND_ROW + 4 if entries else 0


def _line(axes: Axes, color: int, series: Series) -> Markup:
    """The line, and dots if there are few values, each of which shows its value at the pointer.

    Each part of the path begins with a line of length 0, which is a dot, as lines have round ends.
    """
    path, is_gap, few = "", True, len(series.finite()) <= MAX_DOTS
    dot = Markup('<path class="dots" d="M{}h0"><title>{} at {}</title></path>')
    dots: list[Markup] = []
    for x, y in zip(series.x, series.y, strict=True):
        if math.isfinite(y):
            place = f"{axes.x(x):.1f} {axes.y(y):.1f}"
            path += f"M{place}h0" if is_gap else f"L{place}"
            if few:
                dots.append(dot.format(place, number(y), number(x)))
        is_gap = not math.isfinite(y)
    line = Markup('<g class="color-{}"><title>{}</title><path class="line" d="{}"/>{}</g>')
    return line.format(color, clean(series.name), path, Markup("").join(dots))


def _summary(series: Series) -> str:
    """The first, last, lowest and highest value."""
    if not (points := series.finite()):
        return f"{series.name}: no values."
    (x0, y0), (x1, y1), ys = points[0], points[-1], [y for _, y in points]
    ends = f"{number(y0)} at {number(x0)}, {number(y1)} at {number(x1)}"
    return f"{series.name}: {ends}; minimum {number(min(ys))}, maximum {number(max(ys))}."


def _draw_marks(axes: Axes, marks: Sequence[Mark]) -> list[Markup]:
    """A vertical line for each mark; marks of one kind that are close to each other have one."""
    path = Markup('<path class="mark {0}" d="M{1:.1f} {2}V{3}"><title>{4}</title></path>')
    drawn: list[Markup] = []
    ordered = sorted(marks, key=lambda mark: (mark.kind, mark.x))
    for _, close in groupby(ordered, key=lambda mark: (mark.kind, axes.x(mark.x) // NEAREST)):
        (x, kind, text), *others = close
        name = clean(f"{kind}: {text}" + f" and {len(others):,} more" * bool(others))
        drawn.append(path.format(kind, axes.x(x), axes.bottom, axes.top, name))
    return drawn
