"""Results as three files of one name: JSON for programs, a Markdown table, an SVG bar chart."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

OWN = "translate_ddp"  # a row whose label starts with it is ours
RESULTS = Path("benchmarks/results")
COLOURS = {True: "#c44e52", False: "#8c96a3"}  # ours, others


@dataclass(frozen=True)
class Row:
    """A line of the table; `failure` stands in place of values that there are none of."""

    label: str
    values: dict[str, str | float]
    failure: str = ""
    spread: tuple[float, float] | None = None  # least and most of the bar's column


def write_report(
    name: str,
    title: str,
    rows: Sequence[Row],
    columns: Sequence[str],
    bar: str,
    facts: Mapping[str, Any],
    raw: Any,
    folder: Path = RESULTS,
    first_column: str = "contestant",
    notes: Sequence[str] = (),
) -> None:
    """Write NAME.json, NAME.md and NAME.svg; `bar` is the column, of numbers, that is drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"title": title, "command": command_line(), "facts": dict(facts), "notes": list(notes)}
    content = about | {"rows": [asdict(row) for row in rows], "raw": raw}
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    draw(rows, bar, title, folder / f"{name}.svg")
    parts = [
        f"# {title}",
        f"`{command_line()}`",
        table(rows, columns, first_column),
        *(f"{row.label} failed: {row.failure}" for row in rows if row.failure),
        *notes,
        one_line(facts),
        f"![{bar}]({name}.svg)",
    ]
    text = "\n\n".join(parts) + "\n"
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


def command_line() -> str:
    """How this was started."""
    return shlex.join(["python", *map(short, sys.orig_argv[1:])])


def short(path: str) -> str:
    """Of an absolute path only the end, which is the same on other machines."""
    return "/".join(path.split("/")[-2:]) if path.startswith("/") else path


def table(rows: Sequence[Row], columns: Sequence[str], first_column: str) -> str:
    """A Markdown table, a line a row."""
    lines = [[first_column, *columns], ["---", *("---:" for _ in columns)]]
    for row in rows:
        missing = "failed" if row.failure else ""
        lines.append([row.label, *(shown(row.values.get(c, missing)) for c in columns)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: str | float) -> str:
    """Text as it is; numbers to three digits, or whole ones from 100 on."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 or value % 1 == 0 else f"{value:.3g}"


def one_line(facts: Mapping[str, Any]) -> str:
    parts = (f"{name.replace('_', ' ')}: {value}" for name, value in facts.items())
    return "Measured on: " + "; ".join(parts) + "."


def draw(rows: Sequence[Row], bar: str, title: str, path: Path) -> None:
    """Horizontal bars, the first row on top, with a whisker from least to most."""
    drawn = [
        row for row in rows if not row.failure and isinstance(row.values.get(bar), int | float)
    ]
    lengths = [float(row.values[bar]) for row in drawn]
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.34 * len(drawn)), layout="constrained")
    colours = [COLOURS[row.label.startswith(OWN)] for row in drawn]
    axes.barh(range(len(drawn)), lengths, color=colours, tick_label=[row.label for row in drawn])
    for place, (row, length) in enumerate(zip(drawn, lengths, strict=True)):
        least, most = row.spread or (length, length)
        axes.hlines(place, least, most, color="black", linewidth=1)
        axes.annotate(
            shown(length),
            (max(most, length), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set(title=title, xlabel=bar)
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    with plt.rc_context({"svg.hashsalt": "translate_ddp"}):  # the same drawing, the same file
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def pyplot() -> Any:
    """matplotlib's plotting, into files only. Imported here, since tables need none of it."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    return plt
