"""Fewer items of many: points of a curve, so that its line stays close to those left out."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

POINTS = 400  # a chart is about as many pixels wide
TOLERANCE = 0.001  # of the range of the values: less than half a pixel of a chart
MAX_GAPS = 20
COARSE_PARTS = 8000  # of a very long curve, before its points are compared with the line


def thinned(
    x: np.ndarray,
    y: np.ndarray,
    count: int = POINTS,
    within: tuple[float, float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """About `count` of the points, in order of x, which must not fall.

    They are the first, the last, the lowest and the highest of each of many parts, so that noise
    looks as wide as it is; then those that deviate most from the line through those chosen so far,
    until none deviates by more than 0.1 % of the range. A NaN stands for each of the longest gaps
    of values that are not finite. A chart that shows only values `within` limits needs no points
    for the shape of the line beyond them.
    """
    drawn = np.clip(y, *within) if within else y
    is_finite = np.isfinite(y)
    finite = np.flatnonzero(is_finite)
    if not len(finite):
        return x[:0], y[:0]
    gaps = _gaps(finite)
    chosen = np.union1d(_limits(drawn, finite, count // 4), gaps)
    places = np.union1d(_limits(drawn, finite, COARSE_PARTS), chosen)
    chosen = places[_add_deviating(x[places], drawn[places], np.isin(places, chosen), count)]
    # A point without a value between the ends of each gap.
    chosen = np.union1d(chosen, gaps[:, 0] + 1)
    return x[chosen], np.where(is_finite[chosen], y[chosen], np.nan)


def _gaps(finite: np.ndarray) -> np.ndarray:
    """The finite places before and after each of the longest gaps: G x 2."""
    lengths = np.diff(finite)
    longest = np.argsort(-lengths, kind="stable")[:MAX_GAPS]
    longest = longest[lengths[longest] > 1]
    return np.stack([finite[longest], finite[longest + 1]], axis=1)


def _limits(y: np.ndarray, finite: np.ndarray, parts: int) -> np.ndarray:
    """The places of the lowest and the highest value of each part, and the ends of the curve."""
    size = -(-len(finite) // parts)
    padded = np.append(finite, np.full(-len(finite) % size, finite[-1])).reshape(-1, size)
    rows = np.arange(len(padded))
    lowest, highest = (pick(y[padded], axis=1) for pick in (np.argmin, np.argmax))
    return np.unique([*padded[rows, lowest], *padded[rows, highest], finite[0], finite[-1]])


def _add_deviating(x: np.ndarray, y: np.ndarray, is_chosen: np.ndarray, count: int) -> np.ndarray:
    """The places of the chosen points and of those that deviate most, `count` in total."""
    tolerance = TOLERANCE * (y.max() - y.min())
    while (free := count - np.count_nonzero(is_chosen)) > 0:
        chosen = np.flatnonzero(is_chosen)
        deviation = np.abs(y - np.interp(x, x[chosen], y[chosen]))
        deviation[chosen] = 0
        if len(chosen) < 2 or (most := deviation.max()) <= tolerance:
            break
        # The largest of each part of the line; those that are far smaller wait for the next line.
        largest = np.maximum.reduceat(deviation, chosen[:-1])
        part = np.searchsorted(chosen, np.arange(len(x)), side="right") - 1
        part = np.minimum(part, len(largest) - 1)
        candidates = np.flatnonzero((deviation == largest[part]) & (deviation >= most / 2))
        _, first = np.unique(part[candidates], return_index=True)
        candidates = candidates[first]
        order = np.argsort(-deviation[candidates], kind="stable")
        is_chosen[candidates[order[:free]]] = True
    return np.flatnonzero(is_chosen)


def few(items: Sequence[T], count: int) -> list[T]:
    """The first, the last, and those between at about equal distances: `count` of them at most."""
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[place] for place in places.tolist()]
