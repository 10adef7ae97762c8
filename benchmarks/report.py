"""Results as files of one name: JSON for programs, and Markdown tables."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import Values


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
) -> None:
    """Write NAME.json and NAME.md to `folder`."""
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
