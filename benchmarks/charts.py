"""Charts as SVG files. Only these functions import matplotlib."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import OWN, Row, shown

COLOURS = {True: "#c44e52", False: "#8c96a3"}  # ours, others
Range = tuple[float, float]  # minimum and maximum


@contextmanager
def figure(
    path: Path, rows: int = 1, columns: int = 1, **options: Any
) -> Iterator[tuple[Any, Any]]:
    """A matplotlib figure and its grid of axes, saved to `path` at the end of the block."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    drawing, grid = plt.subplots(rows, columns, layout="constrained", squeeze=False, **options)
    yield drawing, grid
    with plt.rc_context({"svg.hashsalt": "translate_ddp"}):  # the same data give the same file
        drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)


def draw_bars(
    rows: Sequence[Row], ranges: Sequence[Range | None], column: str, title: str, path: Path
) -> None:
    """One horizontal bar per row, the first on top, with a line from minimum to maximum."""
    bars = [(row.label, row.values[column], r) for row, r in zip(rows, ranges, strict=True) if r]
    with figure(path, figsize=(9, 1.2 + 0.34 * len(bars))) as (_, grid):
        axes = grid[0, 0]
        for place, (label, length, (least, most)) in enumerate(bars):
            axes.barh(place, length, color=COLOURS[label.startswith(OWN)])
            axes.hlines(place, least, most, color="black", linewidth=1)
            axes.annotate(
                shown(length),
                (most, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
        axes.set_yticks(range(len(bars)), [label for label, _, _ in bars])
        axes.set(title=title, xlabel=column)
        axes.margins(x=0.12)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
