"""Horizontal bars with their values as text, and ranges if there are any."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from translate_ddp.apps.reporting.axes import Scale, drawable
from translate_ddp.apps.reporting.svg import (
    WIDTH,
    Legend,
    bar_swatch,
    clean,
    figure,
    rect,
    shortened,
    text,
    text_width,
)

ROW, BAR = 24, 16  # heights
LABEL_WIDTH = 150  # beside the bar; if a label needs more, all are above their bars
LABEL_CHARACTERS = 52


class Bar(NamedTuple):
    """A value from zero on; `low` and `high` are the ends of its range."""

    label: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    color: int = 0


def bars(
    title: str,
    items: Sequence[tuple[str, float, str] | Bar],
    legend: Sequence[str] = (),
) -> Markup:
    """A bar for each item: label, value, and the value as text. `legend` names the colours."""
    found = [item if isinstance(item, Bar) else Bar(*item) for item in items]
    found = [bar for bar in found if drawable(bar.value)]
    named = Legend([(bar_swatch(0, 0, number), name) for number, name in enumerate(legend)])
    is_above = any(text_width(clean(bar.label)) > LABEL_WIDTH - 8 for bar in found)
    ends = [end for bar in found for end in (bar.value, bar.low, bar.high) if end is not None]
    least, most = min(ends, default=0), max(ends, default=0)
    limits = min(least, 0), max(most, 0) if least < 0 else most or 1
    beside = max((text_width(bar.text) for bar in found), default=0) + 10
    scale = Scale(limits, 1 if is_above else LABEL_WIDTH, max(WIDTH - beside, WIDTH / 2))
    height = ROW + (BAR if is_above else 0)
    parts = [named.draw()]
    for index, bar in enumerate(found):
        y = named.height + index * height
        if is_above:
            parts.append(text(1, y + 14, shortened(bar.label, LABEL_CHARACTERS)))
            y += BAR
        else:
            parts.append(text(LABEL_WIDTH - 8, y + 16, bar.label, "end"))
        parts += _bar(scale, y, bar)
    bottom = named.height + len(found) * height
    alternative = "; ".join(f"{bar.label}: {bar.text}" for bar in found)
    return figure(title, alternative, parts, bottom)


def _bar(scale: Scale, y: float, bar: Bar) -> list[Markup]:
    start, end = sorted((scale(0), scale(bar.value)))
    name = f"{bar.label}: {bar.text}"
    parts = [rect((start, y + 4), max(end - start, 1), BAR, bar.color, name)]
    if scale.limits[0] < 0:
        parts.append(Markup('<path class="zero" d="M{:.1f} {}v{}"/>').format(scale(0), y, ROW))
    if bar.low is not None and bar.high is not None and bar.low < bar.high:
        low, high = scale(bar.low), scale(bar.high)
        ends = f"M{low:.1f} {y + 12}H{high:.1f}M{low:.1f} {y + 8}v8M{high:.1f} {y + 8}v8"
        parts.append(Markup('<path class="range" d="{}"/>').format(ends))
        end = max(end, high)
    return [*parts, text(end + 6, y + 16, bar.text)]
