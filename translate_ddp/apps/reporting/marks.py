"""Marks at places of the x axis: where a run was resumed, skipped a step, or was saved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from translate_ddp.apps.reporting.axes import Axes, drawable
from translate_ddp.apps.reporting.svg import hover

Kind = Literal["resumed", "skipped", "saved"]
NEAREST = 5  # marks of one kind that are nearer become one


@dataclass(frozen=True)
class Mark:
    """An event at a place of the x axis."""

    x: float
    kind: Kind
    text: str


def draw_marks(axes: Axes, marks: Sequence[Mark]) -> Markup:
    """All marks, those that are close to each other as one."""
    parts: list[Markup] = []
    for kind in kinds(marks):
        for x, texts in _groups(axes, [mark for mark in marks if mark.kind == kind]):
            more = f" and {len(texts) - 1:,} more" if len(texts) > 1 else ""
            parts.append(_draw(kind, x, axes, f"{kind}: {texts[0]}{more}"))
    return Markup("").join(parts)


def kinds(marks: Sequence[Mark]) -> list[Kind]:
    return list(dict.fromkeys(mark.kind for mark in marks if drawable(mark.x)))


def swatch(kind: Kind) -> Markup:
    """The shape of the mark, for a legend."""
    return Markup('<path class="mark {}" d="{}"/>').format(kind, _shape(kind, 14, -8))


def _groups(axes: Axes, marks: Sequence[Mark]) -> list[tuple[float, list[str]]]:
    found: list[tuple[float, list[str]]] = []
    for mark in sorted(
        (mark for mark in marks if drawable(mark.x, axes.x.is_log)), key=lambda mark: mark.x
    ):
        x = axes.x(mark.x)
        if found and x - found[-1][0] < NEAREST:
            found[-1][1].append(mark.text)
        else:
            found.append((x, [mark.text]))
    return found


def _draw(kind: Kind, x: float, axes: Axes, name: str) -> Markup:
    line = f"M{x:.1f} {axes.bottom}V{axes.top}" if kind == "resumed" else ""
    y = axes.bottom - 4 if kind == "saved" else axes.top - 4
    return Markup('<path class="mark {}" data-at="{:.1f}" d="{}">{}</path>').format(
        kind, x, line + _shape(kind, x, y), hover(name)
    )


def _shape(kind: Kind, x: float, y: float) -> str:
    """A triangle, a cross or a diamond, 8 high, below the place."""
    if kind == "resumed":
        return f"M{x:.1f} {y:g}l8 4-8 4z"
    if kind == "skipped":
        return f"M{x - 4:.1f} {y:g}l8 8m0-8l-8 8"
    return f"M{x:.1f} {y:g}l4 4-4 4-4-4z"
