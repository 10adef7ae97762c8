"""Shares of a whole as a table of cells, such as the attention of a translation."""

from collections.abc import Sequence
from math import cos, radians, sin

from markupsafe import Markup

from translate_ddp.apps.reporting.axes import drawable
from translate_ddp.apps.reporting.svg import clean, figure, hover, shortened, text, text_width

CELL = 16  # with 1 between two
TURN = -60  # of the labels of the columns, in degrees
LABEL_CHARACTERS = 16
LEAST_DRAWN, LEAST_NAMED = 0.02, 0.1


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
) -> Markup:
    """A cell for each row and column, the stronger the larger its value, which is 0 to 1.

    Values from 0.1 on have a text for a pointer that rests on them; those below 0.02 look like 0.
    """
    row_labels, column_labels = (
        [shortened(n, LABEL_CHARACTERS) for n in s] for s in (rows, columns)
    )
    left = max(map(_width, row_labels), default=0) + 8
    longest = max(map(_width, column_labels), default=0)
    turn = radians(-TURN)
    top = longest * sin(turn) + 12
    right = left + len(columns) * CELL
    bottom = top + len(rows) * CELL
    parts = [
        text(left - 6, top + y * CELL + 12, label, "end") for y, label in enumerate(row_labels)
    ]
    parts += [
        text(left + x * CELL + 11, top - 5, label, turn=TURN)
        for x, label in enumerate(column_labels)
    ]
    frame = Markup('<path class="frame" d="M{:.1f} {:.1f}H{:.1f}V{:.1f}H{:.1f}z"/>')
    parts.append(frame.format(left, top, right, bottom, left))
    for y, (row, row_values) in enumerate(zip(rows, values, strict=True)):
        for x, (column, value) in enumerate(zip(columns, row_values, strict=True)):
            place = left + x * CELL + 0.5, top + y * CELL + 0.5
            parts.append(_cell(place, row, column, value))
    width = right + longest * cos(turn) + 12
    size = Markup(' width="{:.0f}" height="{:.0f}"').format(width, bottom + 1)
    alternative = _summary(rows, columns, values)
    return figure(title, alternative, parts, bottom + 1, width, size, "chart wide")


def _width(label: str) -> float:
    return text_width(clean(label))


def _cell(place: tuple[float, float], row: str, column: str, value: float) -> Markup:
    if not drawable(value) or value < LEAST_DRAWN:
        return Markup("")
    named = hover(f"{row} / {column}: {value:.2f}") if value >= LEAST_NAMED else Markup("")
    cell = Markup('<rect class="cell" x="{:g}" y="{:g}" fill-opacity="{:g}">{}</rect>')
    return cell.format(*(round(each, 1) for each in place), round(min(value, 1), 2), named)


def _summary(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> str:
    """The largest value of each row."""
    found = []
    for row, row_values in zip(rows, values, strict=True):
        known = [
            (value, column)
            for value, column in zip(row_values, columns, strict=True)
            if drawable(value)
        ]
        if known:
            value, column = max(known)
            found.append(f"{row}: {column} {value:.2f}")
    return f"Largest value of each row: {'; '.join(found)}." if found else "No values."
