"""Spreadsheets, .xlsx and .ods: each sheet is a table, as a CSV file is.

python-calamine, an optional dependency, holds the sheet in memory; its rows become Python objects
one batch at a time.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any
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
NOUNS = {
    bool: "truth value",
    int: "number",
    float: "number",
    date: "date",
    datetime: "date",
    time: "time",
    timedelta: "duration",
}
WITH_CELLS = re.compile(r"xl/worksheets/[^/]+\.xml|content\.xml")  # parts of the archive
# What the parts have in one sheet or another -> what that means.
NOTES = {
    rb"<(\w+:)?f[\s/>]|table:formula=": "It has formulas, whose saved results are read. A formula"
    " without a saved result is an empty cell: open the file in Excel or LibreOffice and save it.",
    rb'<(\w+:)?mergeCell\s|-spanned="(?!1")': "It has merged cells: their text belongs to the"
    " first of them, the others are empty.",
}
LONGEST_MARK = 64  # bytes, which may be divided between two blocks


def is_spreadsheet(path: Path) -> bool:
    return path.suffix.lower() in SPREADSHEETS


def sheet_names(path: Path) -> list[str]:
    """The visible sheets, of several those with cells.

    Raises UserError if there are none, or if the file cannot be read.
    """
    with _open(path) as workbook:
        return _sheet_names(path, workbook)


def read_spreadsheet(reading: Reading) -> Iterator[Columns]:
    """The wanted columns of the sheet `reading.sheet`, or of the only one.

    Raises UserError if the file cannot be read, or if it has several sheets and none is named.
    """
    path = reading.path
    with explain_read_errors(path, SAVE_AGAIN), _open(path) as workbook:
        name = _sheet(path, workbook, reading.sheet)
        with library_call():
            sheet = workbook.get_sheet_by_name(name)
            reading.notices.extend(Remark(f"{path}: {note}") for note in _notes(path))
        reading.advance(path.stat().st_size)
        table, kinds, first = Table(reading), Counter[str](), ""
        number, rows = 1, sheet.iter_rows()  # from row 1 on, also if it is empty
        while cells := list(islice(rows, BATCH_ROWS)):
            heartbeat()
            numbers = range(number, number + len(cells))
            texts = [[x if type(x) is str else text_of(x) for x in row] for row in cells]
            # A row without text is an empty line.
            yield table.columns([row if any(row) else [""] for row in texts], numbers)
            for row, at in zip(cells, numbers, strict=True):
                for value in (row[place] for place in table.places):
                    if type(value) is not str:
                        kinds[NOUNS[type(value)]] += 1
                        first = first or f"row {at:,}: {text_of(value)}"
            number = numbers.stop
    if kinds:
        found = list_names(counted(count, noun) for noun, count in kinds.items())
        reading.notices.append(
            Remark(
                f"{path}: {found} among the texts, first in {first}. Values are read, not what the"
                " sheet shows. For other text, format the cell as text and type it again."
            )
        )


def text_of(value: object) -> str:
    """The text of a cell: ISO dates, TRUE or FALSE, whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value).upper() if isinstance(value, bool) else str(value)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    calamine = import_optional("python_calamine", "requirements-spreadsheet.txt")
    with path.open("rb") as file:
        if not (head := file.read(BLOCK_BYTES)).startswith(b"PK"):
            check_content(path, head)
    with explain_read_errors(path, SAVE_AGAIN):
        with library_call():
            workbook = calamine.load_workbook(path)
        with workbook:
            yield workbook


def _sheet_names(path: Path, workbook: Any) -> list[str]:
    sheets = [each for each in workbook.sheets_metadata if str(each.typ).endswith(".WorkSheet")]
    names = [each.name for each in sheets if str(each.visible).endswith(".Visible")]
    with library_call():
        if len(names) > 1:
            names = [name for name in names if workbook.get_sheet_by_name(name).height]
    if not names:
        raise UserError(f"{path} has no visible sheet with text.")
    return names


def _sheet(path: Path, workbook: Any, wanted: str) -> str:
    names = _sheet_names(path, workbook)
    if wanted in names or (not wanted and len(names) == 1):
        return wanted or names[0]
    raise UserError(
        f"{path} has the sheets {list_names(names)}: name one, as in {quote(f'{path}:{names[0]}')}."
    )


def _notes(path: Path) -> list[str]:
    """The texts of `NOTES` that hold for a sheet of the file; calamine does not report them."""
    found: set[bytes] = set()
    with ZipFile(path) as archive:
        for name in filter(WITH_CELLS.fullmatch, archive.namelist()):
            with archive.open(name) as part:
                end = b""
                while block := part.read(BLOCK_BYTES):
                    found |= {mark for mark in NOTES if re.search(mark, end + block)}
                    end = block[-LONGEST_MARK:]
    return [note for mark, note in NOTES.items() if mark in found]
