"""A table of a page, or of a terminal."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells as text."""

    columns: list[str]
    rows: list[list[str]]
