"""Charts as inline SVG with a text alternative: lines, histograms, bars, heat maps.

Places are in the units of the drawing's `viewBox`, from its upper left corner. Colours are those of
`charts.css`, so charts follow the light and dark form of the page. All text is escaped. Values that
are not finite have no place and are left out. A chart is complete without scripts; `charts.js`
shows the values of lines at the pointer.
"""

import math
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from markupsafe import Markup

from translate_ddp.console import printable
from translate_ddp.quantities import number

STYLE = Path(__file__).with_name("charts.css")
WIDTH, PLOT_HEIGHT = 360, 160
LEFT, TOP, RIGHT, BOTTOM = 52, 8, 10, 40  # margins around the area of the values
EDGE = 4  # lines at the end of the y axis keep their width and dots
COLORS = 8
TICKS = 5
MAX_DECIMALS, MOST_WRITTEN = 6, 1e12  # of a tick; others are written as 1e+12
MAX_DOTS = 12  # series with at most so many values have a dot at each
NEAREST = 5  # marks of one kind that are nearer become one
SCALE = 10  # coordinates of paths are integers of 1/10
BETWEEN = "|"  # of the texts of values
LARGEST = 1e300  # the differences of larger values are not finite
FARTHEST = 1e5  # places outside of the chart: browsers draw with 32 bits
CHARACTER_WIDTH, WIDE_CHARACTER = 6.5, 12.0  # about, of the font in charts.css
LEGEND_ROW, LEGEND_CHARACTERS = 16, 44
BAR_ROW, BAR_HEIGHT, BAR_CHARACTERS = 40, 16, 52
CELL, CELL_CHARACTERS = 16, 16  # of a heat map, with 1 between two cells; of its labels
TURN = -60  # of the labels of a heat map's columns, in degrees
LEAST_DRAWN, LEAST_NAMED = 0.02, 0.1  # values of a heat map
MARGIN, GAP, HEADING, ZOOM = 12, 24, 24, 1.25  # of files
NO_XML = str.maketrans(dict.fromkeys("\ufffe\uffff", "\ufffd"))

Limits = tuple[float, float]
Place = tuple[float, float]
MarkKind = Literal["resumed", "skipped"]


@dataclass(frozen=True)
class Series:
    """Values with a name, which the legend shows."""

    name: str
    y: Sequence[float]
    x: Sequence[float] = ()


@dataclass(frozen=True)
class Mark:
    """An event at a place of the x axis: the run was resumed, or skipped steps."""

    x: float
    kind: MarkKind
    text: str


class Bar(NamedTuple):
    """A value from zero on, and the value as text."""

    label: str
    value: float
    text: str
    color: int = 0


# --- charts ---


def lines(
    title: str,
    series: Sequence[Series],
    x_label: str,
    y_from_zero: bool = True,
    marks: Sequence[Mark] = (),
    x_range: Sequence[float] = (),
    y_within: Limits | None = None,
) -> Markup:
    """A line for each series, with gaps at values that are not finite.

    The x axis covers at least `x_range`. The y axis covers only `y_within`, if that is given: lines
    leave the chart there, and a text states how far they go.
    """
    shown = [_drawable(each) for each in series]
    marks = [mark for mark in marks if is_drawable(mark.x)]
    xs = [x for each in shown for x in each.x] + [mark.x for mark in marks] + [*x_range]
    ys = [y for each in shown for y in each.y if is_drawable(y)] or [0.0]
    full = min([*ys, 0.0] if y_from_zero else ys), max(ys)
    kinds = list(dict.fromkeys(mark.kind for mark in marks))
    entries = [(_line_swatch(color), each.name) for color, each in _many(series)]
    entries += [(_mark_path(kind, _mark_shape(kind, 14, -8)), kind) for kind in kinds]
    legend, height = _legend(entries)
    axes = Axes((min(xs, default=0), max(xs, default=0)), y_within or full, height)
    drawn = [legend, axes.draw(x_label), axes.draw_cut(full)]
    drawn += [_draw_marks(axes, kind, [m for m in marks if m.kind == kind]) for kind in kinds]
    drawn.append(axes.window([_line(axes, n % COLORS, each) for n, each in enumerate(shown)]))
    attributes = Markup(' data-points="{}" data-area="{} {}"').format(
        clean(x_label), axes.top, axes.bottom
    )
    return _figure(title, _summary(x_label, shown), drawn, axes.height, attributes=attributes)


def histogram(
    title: str, edges: Sequence[float], series: Sequence[Series], label: str, is_open: bool = False
) -> Markup:
    """Bars of the numbers of values between consecutive edges; those of all series side by side.

    `is_open`: the last bar also has all larger values.
    """
    most = max((max(each.y, default=0) for each in series), default=0) or 1
    legend, height = _legend([(_rect((8, -10), 11, 11, n), s.name) for n, s in _many(series)])
    axes = Axes((edges[0], edges[-1]), (0, most), height)
    drawn = [legend, axes.draw(label)]
    for color, each in enumerate(series):
        for index, count in enumerate(each.y):
            if not count:
                continue
            low, high = axes.x(edges[index]), axes.x(edges[index + 1])
            width, top = (high - low) / len(series), axes.y(count)
            is_last = is_open and index == len(edges) - 2
            end = "or more" if is_last else f"to {number(edges[index + 1])}"
            name = f"{each.name}: {number(edges[index])} {end}: {count:,.0f}"
            place, size = (low + color * width, top), (max(width - 0.5, 0.5), axes.bottom - top)
            drawn.append(_rect(place, *size, color, name))
    return _figure(title, f"Histogram of {label}.", drawn, axes.height)


def bars(title: str, items: Iterable[Bar]) -> Markup:
    """A horizontal bar for each item, below its label."""
    items = [bar for bar in items if is_drawable(bar.value)]
    most = max((bar.value for bar in items), default=0) or 1
    beside = max((_text_width(bar.text) for bar in items), default=0) + 10
    drawn: list[Markup] = []
    for index, bar in enumerate(items):
        y = index * BAR_ROW
        width = max(bar.value / most * max(WIDTH - beside, WIDTH / 2), 1)
        drawn.append(_text(1, y + 14, shortened(bar.label, BAR_CHARACTERS)))
        name = f"{bar.label}: {bar.text}"
        drawn.append(_rect((1, y + 20), width, BAR_HEIGHT, bar.color, name))
        drawn.append(_text(width + 6, y + 32, bar.text))
    description = "; ".join(f"{bar.label}: {bar.text}" for bar in items)
    return _figure(title, description, drawn, len(items) * BAR_ROW)


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]
) -> Markup:
    """A cell for each row and column, the stronger the larger its value, which is 0 to 1.

    Values from 0.1 on have a text for a pointer that rests on them; those below 0.02 look like 0.
    """
    row_labels = [shortened(row, CELL_CHARACTERS) for row in rows]
    column_labels = [shortened(column, CELL_CHARACTERS) for column in columns]
    left = max(map(_text_width, row_labels), default=0) + 8
    longest, turn = max(map(_text_width, column_labels), default=0), math.radians(-TURN)
    top = longest * math.sin(turn) + 12
    right, bottom = left + len(columns) * CELL, top + len(rows) * CELL
    drawn = [
        _text(left - 6, top + y * CELL + 12, label, "end") for y, label in enumerate(row_labels)
    ]
    drawn += [
        _text(left + x * CELL + 11, top - 5, label, turn=TURN)
        for x, label in enumerate(column_labels)
    ]
    frame = Markup('<path class="frame" d="M{0:.1f} {1:.1f}H{2:.1f}V{3:.1f}H{0:.1f}z"/>')
    drawn.append(frame.format(left, top, right, bottom))
    strongest: list[str] = []
    for y, (row, of_row) in enumerate(zip(rows, values, strict=True)):
        known = [(value, x) for x, value in enumerate(of_row) if is_drawable(value)]
        for value, x in known:
            place = left + x * CELL + 0.5, top + y * CELL + 0.5
            drawn.append(_cell(place, f"{row} / {columns[x]}: {value:.2f}", value))
        if known:
            value, x = max(known)
            strongest.append(f"{row}: {columns[x]} {value:.2f}")
    description = f"Largest value of each row: {'; '.join(strongest) or 'none'}."
    width = right + longest * math.cos(turn) + 12
    size = Markup(' width="{:.0f}" height="{:.0f}"').format(width, bottom + 1)
    return _figure(title, description, drawn, bottom + 1, width, size, "chart wide")


def standalone(*charts: Markup, columns: int = 1) -> str:
    """The content of an .svg file: the charts with their titles in rows of `columns`.

    It has a background of its own, as its colours may be dark where the page around it is light.
    """
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "group"})
    ET.SubElement(root, "style").text = STYLE.read_text(encoding="utf-8")
    ET.SubElement(root, "rect", {"class": "background", "width": "100%", "height": "100%"})
    titles: list[str] = []
    right = bottom = float(MARGIN)
    for place, chart in enumerate(charts):
        title, drawing = ET.fromstring(chart)
        width, height = map(float, drawing.get("viewBox", "").split()[2:])
        if place % columns == 0:
            x, y = float(MARGIN), bottom + GAP * (place > 0)
        else:
            x, y = x + width + GAP, y
        heading = {"class": "heading", "x": f"{x:g}", "y": f"{y + 12:g}"}
        ET.SubElement(root, "text", heading).text = title.text
        places = {"x": x, "y": y + HEADING, "width": width, "height": height}
        drawing.attrib.update({name: f"{value:g}" for name, value in places.items()})
        root.append(drawing)
        titles.append(title.text or "")
        right, bottom = max(right, x + width), max(bottom, y + HEADING + height)
    root.set("aria-label", "; ".join(titles))
    root.set("viewBox", f"0 0 {right + MARGIN:g} {bottom + MARGIN:g}")
    root.set("width", f"{ZOOM * (right + MARGIN):.0f}")
    root.set("height", f"{ZOOM * (bottom + MARGIN):.0f}")
    return ET.tostring(root, encoding="unicode") + "\n"


# --- axes ---


class Axes:
    """The area of the values below a legend of height `top`, with both axes."""

    def __init__(self, x: Limits, y: Limits, top: float) -> None:
        self.x_limits = x = _widened(x)
        self.x_ticks = [value for value in ticks(*x) if x[0] <= value <= x[1]]
        self.y_ticks = ticks(*y)
        self.y_limits = min(y[0], self.y_ticks[0]), self.y_ticks[-1]
        self.top = top + TOP
        self.bottom = self.top + PLOT_HEIGHT
        self.height = self.bottom + BOTTOM

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
        for value, shown in zip(self.x_ticks, tick_texts(self.x_ticks), strict=True):
            place = min(self.x(value), WIDTH - _text_width(shown) / 2)  # the last is not cut off
            parts.append(_text(place, self.bottom + 16, shown, "middle"))
        parts.append(_text((LEFT + WIDTH - RIGHT) / 2, self.bottom + 34, x_label, "middle"))
        return Markup("").join(parts)

    def draw_cut(self, full: Limits) -> Markup:
        """How far the values go beyond the ends of the y axis: at the right, inside the area."""
        (low, high), right = self.y_limits, WIDTH - RIGHT
        top = _text(right, self.top + 12, f"up to {number(full[1])}", "end")
        bottom = _text(right, self.bottom - 5, f"down to {number(full[0])}", "end")
        return Markup("").join([top] * (full[1] > high) + [bottom] * (full[0] < low))

    def window(self, drawn: Sequence[Markup]) -> Markup:
        """The lines, of which only the parts within the area can be seen."""
        return Markup(
            '<svg class="window" y="{0}" width="{1}" height="{2}" viewBox="0 {0} {1} {2}">{3}</svg>'
        ).format(self.top - EDGE, WIDTH, PLOT_HEIGHT + 2 * EDGE, Markup("").join(drawn))


def is_drawable(value: float) -> bool:
    """Whether a value has a place: neither NaN nor infinite."""
    return abs(value) < LARGEST


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from at most `low` to at least `high`."""
    low, high = _widened((low, high))
    raw = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [place * step for place in range(first, last + 1)]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The ticks with as many decimals as they need: `0.25` and `0.50`, `10k` and `12k`."""
    most = max(map(abs, ticks), default=0.0)
    tolerance = 1e-4 * ((ticks[-1] - ticks[0]) or most) if ticks else 0.0
    units = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
    size, unit = next((each[1:] for each in units if most >= each[0]), (1.0, ""))
    for digits in range(MAX_DECIMALS if most < MOST_WRITTEN else 0):
        if all(abs(round(value / size, digits) * size - value) <= tolerance for value in ticks):
            return [f"{value / size:,.{digits}f}{unit}" if value else "0" for value in ticks]
    return [f"{value:.4g}" for value in ticks]


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


def _figure(
    title: str,
    description: str,
    drawn: Iterable[Markup],
    height: float,
    width: float = WIDTH,
    attributes: Markup | str = "",
    kind: str = "chart",
) -> Markup:
    """A drawing with its title above, and its description as a text alternative."""
    return Markup(
        '<figure class="{6}"><figcaption>{0}</figcaption><svg role="img" aria-label="{0}" '
        'viewBox="0 0 {1:.0f} {2:.0f}"{3}><desc>{4}</desc>{5}</svg></figure>'
    ).format(
        clean(title),
        width,
        height,
        attributes,
        clean(description),
        Markup("").join(drawn),
        kind,
    )


def _text(x: float, y: float, content: str, anchor: str = "start", turn: int = 0) -> Markup:
    """Text whose start, middle or end is at a place, turned by so many degrees."""
    turned = Markup(' transform="rotate({} {:.1f} {:.1f})"').format(turn, x, y) if turn else ""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>').format(
        x, y, anchor, turned, clean(content)
    )


def _text_width(content: str) -> float:
    """About the width of the text."""
    shown = clean(content)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in shown)
    return wide * WIDE_CHARACTER + (len(shown) - wide) * CHARACTER_WIDTH


def _hover(content: str) -> Markup:
    """What a pointer that rests on the element shows."""
    return Markup("<title>{}</title>").format(clean(content)) if content else Markup("")


def _rect(place: Place, width: float, height: float, color: int, name: str = "") -> Markup:
    """A bar, with the text for a pointer that rests on it."""
    return Markup(
        '<rect class="color-{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>'
    ).format(color, *place, width, height, _hover(name))


def _cell(place: Place, name: str, value: float) -> Markup:
    if value < LEAST_DRAWN:
        return Markup("")
    cell = Markup('<rect class="cell" x="{:.1f}" y="{:.1f}" fill-opacity="{:.2g}">{}</rect>')
    return cell.format(*place, min(value, 1), _hover(name if value >= LEAST_NAMED else ""))


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


def _many(series: Sequence[Series]) -> list[tuple[int, Series]]:
    """The series with their numbers, for a legend; none if there is one, which the title names."""
    return list(enumerate(series)) if len(series) > 1 else []


# --- parts of charts of lines ---


def _drawable(series: Series) -> Series:
    """Without points that have no x; y that have no place become NaN, which is a gap."""
    points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if is_drawable(x)]
    ys = [y if is_drawable(y) else math.nan for _, y in points]
    return Series(series.name, ys, [x for x, _ in points])


def _line(axes: Axes, color: int, series: Series) -> Markup:
    """The line, dots, and the texts of the values for `charts.js`."""
    points = list(zip(series.x, series.y, strict=True))
    places = [(axes.x(x), axes.y(y)) if is_drawable(y) else None for x, y in points]
    drawn = [point for point in points if is_drawable(point[1])]
    padded = [None, *places, None]
    dotted = [
        place
        for before, place, after in zip(padded, places, padded[2:], strict=False)
        if place and (len(drawn) <= MAX_DOTS or before is None is after)
    ]
    # A line of length 0 is a dot, as lines have round ends.
    dots = _path(each for place in dotted for each in (place, place, None))
    return Markup(
        '<g class="color-{}" transform="scale(.1)">{}'
        '<path class="line" d="{}" data-x="{}" data-y="{}"/><path class="dots" d="{}"/></g>'
    ).format(
        color,
        _hover(series.name),
        _path(places),
        BETWEEN.join(number(x) for x, _ in drawn),
        BETWEEN.join(number(y) for _, y in drawn),
        dots,
    )


def _line_swatch(color: int) -> Markup:
    """A piece of a line as in the chart, 22 wide."""
    place = Markup('<g class="color-{}" transform="translate(0 -4) scale(.1)">')
    return place.format(color % COLORS) + Markup('<path class="line" d="m0 0 220 0"/></g>')


def _path(places: Iterable[Place | None]) -> str:
    """The `d` of a path in 1/SCALE of a unit: a place for each that is not None, which is a gap.

    Integers relative to the place before: the shortest form, and the sums are the places.
    """
    parts: list[str] = []
    before, starts = (0, 0), True
    for place in places:
        if place is None:
            starts = True
            continue
        x, y = round(place[0] * SCALE), round(place[1] * SCALE)
        dx, dy = x - before[0], y - before[1]
        parts.append(f"{'m' if starts else ' ' if dx >= 0 else ''}{dx}{' ' if dy >= 0 else ''}{dy}")
        before, starts = (x, y), False
    return "".join(parts)


def _summary(x_label: str, series: Sequence[Series]) -> str:
    """The first, last, lowest and highest value of each series."""
    parts = [f"Lines over {x_label}."]
    for each in series:
        points = [(x, y) for x, y in zip(each.x, each.y, strict=True) if is_drawable(y)]
        if not points:
            parts.append(f"{each.name}: no values.")
            continue
        ends = (f"{number(y)} at {number(x)}" for x, y in (points[0], points[-1]))
        ys = [y for _, y in points]
        limits = f"minimum {number(min(ys))}, maximum {number(max(ys))}"
        parts.append(f"{each.name}: {', '.join(ends)}; {limits}.")
    return " ".join(parts)


def _draw_marks(axes: Axes, kind: MarkKind, marks: Sequence[Mark]) -> Markup:
    """The marks of one kind; those that are close to each other as one."""
    groups: list[tuple[float, list[str]]] = []
    for mark in sorted(marks, key=lambda mark: mark.x):
        x = axes.x(mark.x)
        if groups and x - groups[-1][0] < NEAREST:
            groups[-1][1].append(mark.text)
        else:
            groups.append((x, [mark.text]))
    parts: list[Markup] = []
    for x, texts in groups:
        more = f" and {len(texts) - 1:,} more" if len(texts) > 1 else ""
        line = f"M{x:.1f} {axes.bottom}V{axes.top}" if kind == "resumed" else ""
        shape = line + _mark_shape(kind, x, axes.top - 4)
        parts.append(_mark_path(kind, shape, x, f"{kind}: {texts[0]}{more}"))
    return Markup("").join(parts)


def _mark_path(kind: MarkKind, shape: str, x: float | None = None, name: str = "") -> Markup:
    at = "" if x is None else Markup(' data-at="{:.1f}"').format(x)
    return Markup('<path class="mark {}"{} d="{}">{}</path>').format(kind, at, shape, _hover(name))


def _mark_shape(kind: MarkKind, x: float, y: float) -> str:
    """A triangle or a cross, 8 high, below the place."""
    return f"M{x:.1f} {y:g}l8 4-8 4z" if kind == "resumed" else f"M{x - 4:.1f} {y:g}l8 8m0-8l-8 8"
