"""Charts as inline SVG with a text alternative: lines and histograms here, others in their files.

Colours are those of `charts.css`, so charts follow the light and dark form of the page. All text
is escaped. Values that are not finite have no place and are left out. A chart is complete without
scripts; `charts.js` shows the values of lines at the pointer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from translate_ddp.apps.reporting.axes import Axes, Form, Limits, compact, cut, drawable
from translate_ddp.apps.reporting.bars import Bar, bars
from translate_ddp.apps.reporting.heat_map import heat_map
from translate_ddp.apps.reporting.marks import Mark, draw_marks, kinds, swatch
from translate_ddp.apps.reporting.standalone import standalone
from translate_ddp.apps.reporting.svg import (
    Legend,
    bar_swatch,
    clean,
    dots,
    figure,
    hover,
    line_swatch,
    path,
    rect,
)
from translate_ddp.quantities import number

__all__ = [
    "Bar",
    "Mark",
    "Series",
    "bars",
    "compact",
    "heat_map",
    "histogram",
    "lines",
    "standalone",
]

COLORS = 8
MAX_DOTS = 12  # series with at most so many values have a dot at each
BETWEEN = "|"  # of the texts of values


@dataclass(frozen=True)
class Series:
    """Values with a name, which the legend shows."""

    name: str
    y: Sequence[float]
    x: Sequence[float] = ()


def lines(
    title: str,
    series: Sequence[Series],
    x_label: str,
    y_text: Form = compact,
    y_from_zero: bool = True,
    marks: Sequence[Mark] = (),
    x_range: Limits | None = None,
    y_range: Limits | None = None,
    y_within: Limits | None = None,
    is_log: bool = False,
) -> Markup:
    """A line for each series, with gaps at values that are not finite.

    The axes cover at least `x_range` and `y_range`. The y axis ends at `y_within`: lines leave the
    chart there, and a text says how far they go. `is_log`: both axes are logarithmic, and values
    that are not positive are left out.
    """
    shown = [_drawable(each, is_log) for each in series]
    xs = [x for each in shown for x in each.x]
    xs += x_range or ()
    xs += [mark.x for mark in marks if drawable(mark.x, is_log)]
    ys = [y for each in shown for y in each.y if drawable(y)] or [1.0 if is_log else 0.0]
    ys += y_range or ()
    floor = [0.0] if y_from_zero and not is_log else []
    full = min(floor + ys), max(ys)
    limits = cut(full, y_within and (min([*floor, *y_within]), max(y_within)))
    entries = [(line_swatch(0, 0, color % COLORS), each.name) for color, each in _many(series)]
    entries += [(swatch(kind), kind) for kind in kinds(marks)]
    legend = Legend(entries)
    x_limits = min(xs, default=1), max(xs, default=1)
    axes = Axes(x_limits, limits, legend.height, is_log, is_cut=limits[1] < full[1])
    parts = [legend.draw(), axes.draw(x_label, y_text), draw_marks(axes, marks)]
    texts = number if y_text is compact else y_text
    drawn = [_line(axes, color % COLORS, each, texts) for color, each in enumerate(shown)]
    parts.append(axes.window(drawn))
    parts.append(axes.draw_cut(full, y_text))
    attributes = Markup(' data-points="{}" data-area="{} {}"').format(
        clean(x_label), axes.top, axes.bottom
    )
    alternative = _summary(x_label, shown)
    return figure(title, alternative, parts, axes.height, attributes=attributes)


def histogram(
    title: str,
    edges: Sequence[float],
    series: Sequence[Series],
    label: str,
    description: str = "",
    is_open: bool = False,
) -> Markup:
    """Bars of the numbers of values between consecutive edges; those of all series side by side.

    `is_open`: the last bar also has all larger values.
    """
    edges = edges if len(edges) > 1 else (0, 1)
    most = max((max(each.y, default=0) for each in series), default=0) or 1
    legend = Legend([(bar_swatch(0, 0, color), each.name) for color, each in _many(series)])
    axes = Axes((edges[0], edges[-1]), (0, most), legend.height)
    parts = [legend.draw(), axes.draw(label)]
    for color, each in enumerate(series):
        for index, count in enumerate(each.y):
            low, high = axes.x(edges[index]), axes.x(edges[index + 1])
            width = (high - low) / len(series)
            is_last = is_open and index == len(edges) - 2
            end = "or more" if is_last else f"to {compact(edges[index + 1])}"
            span = f"{compact(edges[index])} {end}"
            if count:
                place = low + color * width, axes.y(count)
                name = f"{each.name}: {span}: {count:,.0f}"
                height = axes.bottom - place[1]
                parts.append(rect(place, max(width - 0.5, 0.5), height, color, name))
    return figure(title, description or f"Histogram of {label}.", parts, axes.height)


def _many(series: Sequence[Series]) -> list[tuple[int, Series]]:
    """The series with their numbers, for a legend; none if there is one, which the title names."""
    return list(enumerate(series)) if len(series) > 1 else []


def _drawable(series: Series, is_log: bool) -> Series:
    """Without points that have no x; y that have no place become NaN, which is a gap."""
    kept = [
        (x, y if drawable(y, is_log) else float("nan"))
        for x, y in zip(series.x, series.y, strict=True)
        if drawable(x, is_log)
    ]
    return Series(series.name, [y for _, y in kept], [x for x, _ in kept])


def _line(axes: Axes, color: int, series: Series, y_text: Form) -> Markup:
    """The line, dots, and the texts of the values for `charts.js`."""
    points = list(zip(series.x, series.y, strict=True))
    places = [(axes.x(x), axes.y(y)) if drawable(y) else None for x, y in points]
    padded = [None, *places, None]
    count = len(places) - places.count(None)
    dotted = [
        place
        for before, place, after in zip(padded, places, padded[2:], strict=False)
        if place and (count <= MAX_DOTS or before is None is after)
    ]
    drawn = [(x, y) for x, y in points if drawable(y)]
    return Markup(
        '<g class="color-{}" transform="scale(.1)">{}'
        '<path class="line" d="{}" data-x="{}" data-y="{}"/><path class="dots" d="{}"/></g>'
    ).format(
        color,
        hover(series.name),
        path(places),
        BETWEEN.join(number(x) for x, _ in drawn),
        BETWEEN.join(y_text(y) for _, y in drawn),
        dots(dotted),
    )


def _summary(x_label: str, series: Sequence[Series]) -> str:
    """The first, last, lowest and highest value of each series."""
    parts = [f"Lines over {x_label}."]
    for each in series:
        points = [(x, y) for x, y in zip(each.x, each.y, strict=True) if drawable(y)]
        if points:
            (x0, y0), (x1, y1) = points[0], points[-1]
            low, high = (number(limit(y for _, y in points)) for limit in (min, max))
            parts.append(
                f"{each.name}: {number(y0)} at {number(x0)}, {number(y1)} at {number(x1)}; "
                f"minimum {low}, maximum {high}."
            )
        else:
            parts.append(f"{each.name}: no values.")
    return " ".join(parts)
