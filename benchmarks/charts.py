"""Charts as SVG files. Only these functions import matplotlib."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common import OWN
from benchmarks.report import shown
from benchmarks.rounds import Outcomes

COLOURS = {True: "#c44e52", False: "#8c96a3"}  # ours, others


@contextmanager
def figure(
    path: Path, title: str, rows: int = 1, columns: int = 1, **options: Any
) -> Iterator[Any]:
    """The grid of axes of a matplotlib figure, saved to `path` at the end of the block."""
    import matplotlib  # pyright: ignore[reportMissingImports]

    matplotlib.use("svg")
    import matplotlib.pyplot as plt  # pyright: ignore[reportMissingImports]

    drawing, grid = plt.subplots(rows, columns, layout="constrained", squeeze=False, **options)
    drawing.suptitle(title)
    yield grid
    with plt.rc_context({"svg.hashsalt": "translate_ddp"}):  # the same data give the same file
        drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)


def draw_bars(outcomes: Outcomes, key: str, label: str, title: str, path: Path) -> None:
    """A horizontal bar per contestant, the median, with a line from minimum to maximum."""
    done = {name: outcome for name, outcome in outcomes.items() if not outcome.failure}
    with figure(path, title, figsize=(9, 1.2 + 0.34 * len(done))) as grid:
        axes = grid[0, 0]
        for place, (name, outcome) in enumerate(done.items()):
            values, length = outcome.all(key), outcome.median(key)
            axes.barh(place, length, color=COLOURS[name.startswith(OWN)])
            axes.hlines(place, min(values), max(values), color="black", linewidth=1)
            axes.text(max(values), place, f" {shown(length)}", va="center")
        axes.set_yticks(range(len(done)), list(done))
        axes.set_xlabel(label)
        axes.margins(x=0.12)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
