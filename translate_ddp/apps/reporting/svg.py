"""Parts of charts as SVG: text, bars, the paths of curves, legends, figures. All text is escaped.

Places are in the units of the drawing's `viewBox`, from its upper left corner.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

from markupsafe import Markup

from translate_ddp.console import printable

WIDTH = 360  # of a chart
LEGEND_ROW, LEGEND_CHARACTERS = 16, 44
CHARACTER_WIDTH, WIDE_CHARACTER = 6.5, 12.0  # about, of the font in charts.css
SCALE = 10  # coordinates of paths are integers of 1/10

NO_XML = str.maketrans(dict.fromkeys("\ufffe\uffff", "\ufffd"))

Place = tuple[float, float]
Anchor = Literal["start", "middle", "end"]


def clean(content: str) -> str:
    """The text, without characters that no SVG file can hold or that reorder a line."""
    return printable(content).translate(NO_XML)


def text(x: float, y: float, content: str, anchor: Anchor = "start", turn: int = 0) -> Markup:
    """Text whose start, middle or end is at a place, turned by so many degrees."""
    turned = Markup(' transform="rotate({} {:.1f} {:.1f})"').format(turn, x, y) if turn else ""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>').format(
        x, y, anchor, turned, clean(content)
    )


def hover(content: str) -> Markup:
    """What a pointer that rests on the element shows."""
    return Markup("<title>{}</title>").format(clean(content)) if content else Markup("")


def rect(place: Place, width: float, height: float, color: int, name: str = "") -> Markup:
    """A bar, with the text for a pointer that rests on it."""
    return Markup(
        '<rect class="color-{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>'
    ).format(color, *place, max(width, 0), max(height, 0), hover(name))


def shortened(content: str, characters: int) -> str:
    return content if len(content) <= characters else f"{content[: characters - 1]}…"


def text_width(content: str) -> float:
    """About the width of the text."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in content)
    return wide * WIDE_CHARACTER + (len(content) - wide) * CHARACTER_WIDTH


def path(places: Iterable[Place | None]) -> str:
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


def dots(places: Iterable[Place]) -> str:
    """The `d` of a path with a line of length 0 at each place, which round ends make a dot."""
    return path(each for place in places for each in (place, place, None))


def line_swatch(x: float, y: float, color: int) -> Markup:
    """A piece of a line as in the chart, 22 wide."""
    place = Markup('<g class="color-{}" transform="translate({:.1f} {:.1f}) scale(.1)">')
    return place.format(color, x, y - 4) + Markup('<path class="line" d="m0 0 220 0"/></g>')


def bar_swatch(x: float, y: float, color: int) -> Markup:
    return rect((x + 8, y - 10), 11, 11, color)


class Legend:
    """Swatches with names, in as many rows as they need."""

    def __init__(self, entries: Sequence[tuple[Markup, str]] = (), width: float = WIDTH) -> None:
        """Entries are the swatch, drawn for a text that starts at (26, 0), and the name."""
        self._parts: list[Markup] = []
        x, row = 0.0, 0
        for swatch, name in entries:
            name = shortened(name, LEGEND_CHARACTERS)
            needed = 26 + text_width(clean(name)) + 14
            if x and x + needed > width:
                x, row = 0.0, row + 1
            place = Markup('<g transform="translate({:.1f} {})">').format(x, 12 + row * LEGEND_ROW)
            self._parts.append(place + swatch + text(26, 0, name) + Markup("</g>"))
            x += needed
        self.height = (row + 1) * LEGEND_ROW + 4 if entries else 0

    def draw(self) -> Markup:
        return Markup("").join(self._parts)


def figure(
    name: str,
    description: str,
    parts: Iterable[Markup],
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
        clean(name),
        width,
        height,
        attributes,
        clean(description),
        Markup("").join(parts),
        kind,
    )
