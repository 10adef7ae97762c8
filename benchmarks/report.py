"""Results as files of one name: JSON for programs, Markdown tables, for some also an SVG chart."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, Values

FIGURES = Path("docs/figures")


@dataclass(frozen=True)
class Row:
    """A line of a table; `failure` is the reason why it has no values."""

    label: str
    values: Values = field(default_factory=dict)
    failure: str = ""


def write_report(
    name: str,
    title: str,
    rows: Sequence[Row],
    *,
    folder: Path,
    facts: Mapping[str, Any] | None = None,
    raw: Any = None,
    notes: Sequence[str] = (),
    draw: Callable[[Path], None] | None = None,
) -> None:
    """Write NAME.json and NAME.md to `folder`, and the chart of `draw` as NAME.svg.

    A chart of the default results folder is a figure of the documentation and goes to
    docs/figures. Without matplotlib there is no chart.
    """
    content = {"title": title, "command": command_line(), "facts": dict(facts or {})}
    content |= {"notes": list(notes), "rows": [asdict(row) for row in rows], "raw": raw}
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    parts = [
        f"# {title}",
        f"`{command_line()}`",
        table(rows),
        *(f"{row.label} failed: {row.failure}" for row in rows if row.failure),
        *notes,
    ]
    if facts:
        shown_facts = "; ".join(f"{n.replace('_', ' ')}: {v}" for n, v in facts.items())
        parts.append(f"Measured on: {shown_facts}.")
    if draw and find_spec("matplotlib"):
        chart = (FIGURES if folder == RESULTS else folder) / f"{name}.svg"
        chart.parent.mkdir(parents=True, exist_ok=True)
        draw(chart)
        parts.append(f"![{title}]({Path(os.path.relpath(chart, folder)).as_posix()})")
    elif draw:
        print("No chart: matplotlib is not installed.", file=sys.stderr)
    text = "\n\n".join(parts) + "\n"
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


def command_line() -> str:
    """The command that started this process; absolute paths are shortened, except --results."""
    words = sys.orig_argv[1:]
    pairs = zip(["", *words], words, strict=False)
    shortened = [word if before == "--results" else short(word) for before, word in pairs]
    return shlex.join(["python", *shortened])


def short(path: str) -> str:
    """The last two parts of an absolute path, which are the same on other machines."""
    return "/".join(path.split("/")[-2:]) if path.startswith("/") else path


def table(rows: Sequence[Row]) -> str:
    """A Markdown table with one line per row and one column per name of a value."""
    columns = list(dict.fromkeys(name for row in rows for name in row.values))
    lines = [["", *columns], ["---", *("---:" for _ in columns)]]
    for row in rows:
        missing = "failed" if row.failure else ""
        lines.append([row.label, *(shown(row.values.get(c, missing)) for c in columns)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: str | float) -> str:
    """Text unchanged; numbers with three significant digits, from 100 on without decimals."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 or value % 1 == 0 else f"{value:.3g}"
