"""Spreadsheets, .xlsx and .ods: each sheet is a table, as a CSV file is.

python-calamine, an optional dependency, holds the sheet in memory; its rows become Python objects
one batch at a time. What it does not report (hidden rows) or cannot read (a cell far away) is read
from the XML before.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from itertools import islice, product
from pathlib import Path
from posixpath import join
from shlex import quote
from string import ascii_uppercase
from typing import Any
from xml.etree import ElementTree
from xml.parsers.expat import ParserCreate
from zipfile import ZipFile

from translate_ddp.console import counted
from translate_ddp.data.readers.delimited import BATCH_ROWS, Table
from translate_ddp.data.readers.streams import BLOCK_BYTES, check_content
from translate_ddp.data.rows import Columns, Reading, Remark, explain_read_errors, list_names
from translate_ddp.errors import UserError, import_optional
from translate_ddp.runtime.long_calls import heartbeat, library_call

SPREADSHEETS = (".xlsx", ".ods")  # endings of names
SAVE_AGAIN = (
    "Open it in Excel or LibreOffice and save it as a new .xlsx or .ods, without a password. If it"
    " does not open there, it is damaged."
)
MERGED = "It has merged cells: their text belongs to the first of them, the others are empty."
SPACES = ("text:tab", "text:line-break")  # elements of .ods that calamine reads as nothing
# Names of elements, of .xlsx and .ods -> what they mean.
MARKS = {
    "f": "It has formulas, whose saved results are read. A formula without a saved result is an"
    " empty cell: open the file in Excel or LibreOffice and save it.",
    "mergeCell": MERGED,
    "table:covered-table-cell": MERGED,
    **dict.fromkeys(SPACES, ""),
}
ROWS, VALUES, DESCRIBED = ("row", "table:table-row"), ("v", "is"), ("col", "table:table-column")
CELLS = ("c", "table:table-cell", "table:covered-table-cell")
COLUMNS = ["".join(letters) for n in (1, 2, 3) for letters in product(ascii_uppercase, repeat=n)]
NUMBERS = {name: number for number, name in enumerate(COLUMNS, 1)}
MAX_CELLS = 2**26  # in the rectangle that holds all values: calamine takes 32 bytes for each
SPACE = re.compile(rb"<text:(tab|line-break)\b[^>]*?(/>|>\s*</text:\1>)")


@dataclass
class Layout:
    """What the XML of a sheet has, and calamine does not report. Rows and columns count from 1."""

    rows: int = 0  # up to the last value
    columns: int = 0
    farthest: str = ""  # a cell with a value in the last column
    hidden_rows: set[int] = field(default_factory=set)  # also filtered ones; with values
    hidden_columns: set[int] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)  # the MARKS that it has
    _rows: range = range(1, 1)  # numbers of the current row, which .ods may repeat
    _columns: range = range(1, 1)
    _is_hidden: bool = False  # the current row

    def add(self, tag: str, attributes: dict[str, str]) -> None:
        """Add the start of an element of .xlsx or .ods. They come in their order."""
        get = attributes.get
        if tag in ROWS:
            first = int(get("r", self._rows.stop))
            self._rows = range(first, first + int(get("table:number-rows-repeated", 1)))
            self._columns, self._is_hidden = range(1, 1), _is_hidden(attributes)
        elif tag in CELLS or tag in DESCRIBED:
            name = get("r", "").rstrip("0123456789")
            first = NUMBERS[name] if name else int(get("min", self._columns.stop))
            last = int(get("max", first + int(get("table:number-columns-repeated", 1)) - 1))
            self._columns = range(first, last + 1)
            if tag in DESCRIBED and _is_hidden(attributes):
                self.hidden_columns.update(self._columns)
        if tag in VALUES or "office:value-type" in attributes:
            self.rows = self._rows.stop - 1
            if self._columns.stop > self.columns + 1:
                self.columns = self._columns.stop - 1
                self.farthest = f"{COLUMNS[self.columns - 1]}{self.rows}"
            if self._is_hidden:
                self.hidden_rows.update(self._rows)
        if tag in MARKS or "table:formula" in attributes:
            self.marks.add(tag if tag in MARKS else "f")


def _is_hidden(attributes: dict[str, str]) -> bool:
    """Whether a row or a column is hidden or, in .ods, filtered."""
    is_hidden = attributes.get("hidden", "0") in ("1", "true")
    return is_hidden or attributes.get("table:visibility", "visible") in ("collapse", "filter")


def is_spreadsheet(path: Path) -> bool:
    return path.suffix.lower() in SPREADSHEETS


def sheet_names(path: Path) -> list[str]:
    """The visible sheets, of several those with cells.

    Raises UserError if there are none, or if the file cannot be read.
    """
    with _open(path) as (workbook, _):
        return _sheet_names(path, workbook)


def read_spreadsheet(reading: Reading) -> Iterator[Columns]:
    """The wanted columns of the sheet `reading.sheet`, or of the only one.

    Raises UserError if the file cannot be read, or if it has several sheets and none is named.
    """
    path = reading.path
    with explain_read_errors(path, SAVE_AGAIN), _open(path) as (workbook, layouts):
        names = _sheet_names(path, workbook)
        name = _choose(path, names, reading.sheet)
        layout = layouts.get(name, Layout())
        place = f"{path}:{name}" if len(names) > 1 else str(path)
        with library_call():
            sheet = workbook.get_sheet_by_name(name)
        notes = {MARKS[mark]: None for mark in sorted(layout.marks) if MARKS[mark]}
        reading.notices.extend(Remark(f"{place}: {note}") for note in notes)
        reading.advance(path.stat().st_size)
        table = Table(replace(reading, path=Path(place)))
        others, first = 0, ""
        number, rows = 1, sheet.iter_rows()  # from row 1 on, also if it is empty
        while cells := list(islice(rows, BATCH_ROWS)):
            heartbeat()
            numbers = range(number, number + len(cells))
            texts = [[x if type(x) is str else text_of(x) for x in row] for row in cells]
            # No pair is an empty row; in one column of texts it keeps its place.
            is_kept = len(reading.wanted.sides) == 1
            yield table.columns([r if is_kept or any(r) else [""] for r in texts], numbers)
            for row, at in zip(cells, numbers, strict=True):
                for value in (row[place] for place in table.places):
                    if type(value) is not str:
                        others += 1
                        first = first or f"row {at:,}: {text_of(value)}"
            number = numbers.stop
    if others:
        text = f"numbers or dates in {counted(others, 'cell')}, first in {first}. Values are read,"
        text += " not what the sheet shows. For other text, format the cell as text and type it"
        text += " again."
        reading.notices.append(Remark(f"{place}: {text}"))
    hidden = layout.hidden_rows
    columns = layout.hidden_columns.intersection(place + 1 for place in table.places)
    held = [f"{counted(len(hidden), 'hidden row')} (first: {min(hidden):,})"] if hidden else []
    held += [f"the hidden column {COLUMNS[column - 1]}" for column in sorted(columns)]
    if held:
        text = f"this is read, too: {' and '.join(held)}. Delete what should not be used."
        reading.notices.append(Remark(f"{place}: {text}"))


def text_of(value: object) -> str:
    """The text of a cell: ISO dates, TRUE or FALSE, whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value).upper() if isinstance(value, bool) else str(value)


@contextmanager
def _open(path: Path) -> Iterator[tuple[Any, Mapping[str, Layout]]]:
    """The workbook, and the layout of each sheet. Raises UserError if it cannot be read."""
    calamine = import_optional("python_calamine", "requirements-spreadsheet.txt")
    with path.open("rb") as file:
        if not (head := file.read(BLOCK_BYTES)).startswith(b"PK"):
            check_content(path, head)
    with explain_read_errors(path, SAVE_AGAIN):
        with library_call():
            layouts = _read_layouts(path, path.stat().st_mtime_ns)
            for name, each in layouts.items():
                if each.rows * each.columns > MAX_CELLS:  # calamine would end the process
                    raise UserError(
                        f"{path} cannot be read: a value in cell {each.farthest} of the sheet"
                        f" {name} makes it {each.columns:,} columns wide, with {each.rows:,} rows."
                        " Delete the columns right of the texts and the rows below them."
                    )
            is_spaced = any(each.marks.intersection(SPACES) for each in layouts.values())
            workbook = calamine.load_workbook(_spaced_copy(path) if is_spaced else path)
        with workbook:
            yield workbook, layouts


def _sheet_names(path: Path, workbook: Any) -> list[str]:
    sheets = [each for each in workbook.sheets_metadata if str(each.typ).endswith(".WorkSheet")]
    names = [each.name for each in sheets if str(each.visible).endswith(".Visible")]
    with library_call():
        if len(names) > 1:
            names = [name for name in names if workbook.get_sheet_by_name(name).height]
    if not names:
        raise UserError(f"{path} has no visible sheet with text.")
    return names


def _choose(path: Path, names: list[str], wanted: str) -> str:
    if wanted in names or (not wanted and len(names) == 1):
        return wanted or names[0]
    raise UserError(
        f"{path} has the sheets {list_names(names)}: name one, as in {quote(f'{path}:{names[0]}')}."
    )


def _spaced_copy(path: Path) -> BytesIO:
    """The parts of an .ods file that calamine reads, with spaces for other white space."""
    with ZipFile(path) as archive, ZipFile(copy := BytesIO(), "w") as spaced:
        for name in ("mimetype", "META-INF/manifest.xml", "content.xml"):
            spaced.writestr(name, SPACE.sub(b"<text:s/>", archive.read(name)))
    copy.seek(0)
    return copy


@lru_cache(8)  # a file is read several times
def _read_layouts(path: Path, _changed: int) -> Mapping[str, Layout]:
    """The layout of each sheet of a file that was changed at this time."""
    layouts: dict[str, Layout] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "table:table":
            layouts[attributes.get("table:name", "")] = Layout()
        next(reversed(layouts.values())).add(tag.removeprefix("x:"), attributes)

    with suppress(Exception), ZipFile(path) as archive:  # calamine explains what is damaged
        for part, name in _sheet_parts(archive).items():
            layouts[name] = Layout()
            parser = ParserCreate()
            parser.StartElementHandler = start
            parser.ParseFile(archive.open(part))
    return layouts


def _sheet_parts(archive: ZipFile) -> dict[str, str]:
    """Each part of the archive with a sheet, and its name; '' for the only part of .ods."""
    if "content.xml" in archive.namelist():
        return {"content.xml": ""}
    links = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    parts = {link.get("Id"): join("xl", link.get("Target", "")).lstrip("/") for link in links}
    sheets = ElementTree.fromstring(archive.read("xl/workbook.xml")).iterfind("{*}sheets/{*}sheet")
    return {
        parts[value]: sheet.get("name", "")
        for sheet in sheets
        for key, value in sheet.items()
        if key.endswith("}id")
    }
