"""Charts as inline SVG: bars, histograms and lines, with a text alternative.

Colours are those of the page (`page.html`), so charts follow its light and dark form. All text is
escaped.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 42  # margins around the area of the values
BAR_HEIGHT, LABEL_WIDTH, VALUE_WIDTH = 24, 150, 110  # of horizontal bars
LABEL_CHARACTERS = 22
TICKS = 5


@dataclass(frozen=True)
class Series:
    """Values with a name, which the legend shows."""

    name: str
    y: Sequence[float]
    x: Sequence[float] = ()


def compact(value: float) -> str:
    """`0.25`, `1,200`, `45k`, `1.2M`: short enough for an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def bars(title: str, items: Sequence[tuple[str, float, str]], description: str = "") -> Markup:
    """Horizontal bars: label, value, and the value as text."""
    most = max((value for _, value, _ in items), default=0) or 1
    full = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    parts = []
    for index, (label, value, text) in enumerate(items):
        y = index * BAR_HEIGHT
        short = label if len(label) <= LABEL_CHARACTERS else f"{label[: LABEL_CHARACTERS - 1]}…"
        parts += [
            _text(LABEL_WIDTH - 8, y + 16, short, "end"),
            _rect(LABEL_WIDTH, y + 4, max(full * value / most, 1), BAR_HEIGHT - 8, 0, label, text),
            _text(LABEL_WIDTH + full * value / most + 6, y + 16, text),
        ]
    alternative = description or "; ".join(f"{label}: {text}" for label, _, text in items)
    return _svg(title, alternative, parts, len(items) * BAR_HEIGHT)


def histogram(
    title: str, edges: Sequence[float], series: Sequence[Series], label: str, description: str = ""
) -> Markup:
    """Bars of the numbers of values between consecutive edges; those of all series side by side."""
    most = max((max(each.y, default=0) for each in series), default=0) or 1
    axes = Axes((edges[0], edges[-1]), (0, most))
    parts = [axes.grid(compact), axes.x_axis(compact, label), _legend(series)]
    for number, each in enumerate(series):
        for index, count in enumerate(each.y):
            low, high = axes.x(edges[index]), axes.x(edges[index + 1])
            width = (high - low) / len(series)
            name = f"{each.name}: {compact(edges[index])} to {compact(edges[index + 1])}"
            if count:
                y = axes.y(count)
                height = axes.y(0) - y
                left = low + number * width
                parts.append(
                    _rect(left, y, max(width - 0.5, 0.5), height, number, name, f"{count:,.0f}")
                )
    return _svg(title, description or f"Histogram of {label}.", parts, HEIGHT)


def lines(
    title: str,
    series: Sequence[Series],
    x_label: str,
    description: str = "",
    y_text: Callable[[float], str] = compact,
    y_from_zero: bool = True,
) -> Markup:
    """A line for each series, which has at least one point. Values that are not finite are gaps."""
    xs = [x for each in series for x in each.x]
    ys = [y for each in series for y in each.y if math.isfinite(y)] or [0.0]
    low = min(0.0, *ys) if y_from_zero else min(ys)
    axes = Axes((min(xs, default=0), max(xs, default=1)), (low, max(ys)))
    parts = [axes.grid(y_text), axes.x_axis(compact, x_label), _legend(series)]
    for number, each in enumerate(series):
        path, starts = [], True
        for x, y in zip(each.x, each.y, strict=True):
            if math.isfinite(y):
                path.append(f"{'M' if starts else 'L'}{axes.x(x):.1f} {axes.y(y):.1f}")
            starts = not math.isfinite(y)
        parts.append(
            Markup('<path class="line color-{}" d="{}"><title>{}</title></path>').format(
                number, " ".join(path), each.name
            )
        )
    return _svg(title, description or f"Lines over {x_label}.", parts, HEIGHT)


class Axes:
    """Maps values to places in the chart, and draws the axes."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.x_range = x if x[1] > x[0] else (x[0], x[0] + 1)
        self.y_ticks = ticks(*y)
        self.y_range = min(y[0], self.y_ticks[0]), self.y_ticks[-1]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - BOTTOM - TOP)

    def grid(self, form: Callable[[float], str]) -> Markup:
        line = Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>')
        return Markup("").join(
            line.format(LEFT, WIDTH - RIGHT, self.y(value), self.y(value))
            + _text(LEFT - 6, self.y(value) + 4, form(value), "end")
            for value in self.y_ticks
        )

    def x_axis(self, form: Callable[[float], str], label: str) -> Markup:
        low, high = self.x_range
        shown = [value for value in ticks(low, high) if low <= value <= high]
        marks = [_text(self.x(v), HEIGHT - BOTTOM + 16, form(v), "middle") for v in shown]
        middle = (LEFT + WIDTH - RIGHT) / 2
        return Markup("").join([*marks, _text(middle, HEIGHT - 6, label, "middle")])


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from at most `low` to at least `high`."""
    if not high > low:
        high = low + (abs(low) or 1)
    raw = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _legend(series: Sequence[Series]) -> Markup:
    if len(series) < 2:
        return Markup("")
    parts, x = [], float(LEFT)
    for number, each in enumerate(series):
        parts += [_rect(x, 6, 10, 10, number, "", ""), _text(x + 15, 15, each.name)]
        x += 30 + 7 * len(each.name)
    return Markup("").join(parts)


def _rect(
    x: float, y: float, width: float, height: float, color: int, name: str, value: str
) -> Markup:
    """A bar, with name and value for a pointer that rests on it."""
    title = Markup("<title>{}: {}</title>").format(name, value) if name else Markup("")
    return Markup(
        '<rect class="color-{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>'
    ).format(color, x, y, width, height, title)


def _text(x: float, y: float, text: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )


def _svg(title: str, description: str, parts: Sequence[Markup], height: int) -> Markup:
    content = Markup("").join(parts)
    return Markup(
        '<figure class="chart"><figcaption>{0}</figcaption><svg role="img" aria-label="{0}" '
        'viewBox="0 0 {1} {2}"><desc>{3}</desc>{4}</svg></figure>'
    ).format(title, WIDTH, height, description, content)
