"""Tables in text: TSV, in which quotes are text, and CSV, in which they enclose fields.

Every field is text, also NA, null and numbers. Semicolons or tabs may separate the fields of CSV:
spreadsheets write semicolons where the comma is the decimal sign.
"""

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from translate_ddp.data.read_errors import list_names
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.lines import TextFile
from translate_ddp.data.rows import Advance, Columns
from translate_ddp.errors import UserError
from translate_ddp.quantities import counted

BATCH_ROWS = 10_000
MAX_FIELD = 2**24  # characters; the parser takes 4 bytes for each
SEPARATORS = (",", ";", "\t")  # of the fields of CSV
SAMPLE_LINES = 50  # of the start of a CSV file, which show what separates its fields
END = "\0end of file\0"  # a field that no file has


def read_tsv(path: Path, wanted: Wanted, advance: Advance, notices: list[str]) -> Iterator[Columns]:
    """The wanted columns of a table. Raises UserError, with the line, if it cannot be read."""
    file, table = TextFile(path, advance, notices), Table(path, wanted, notices)
    for lines in file.blocks():
        rows = [line.split("\t") for line in lines]
        yield table.columns(rows, range(file.count - len(lines) + 1, file.count + 1))


def read_csv(path: Path, wanted: Wanted, advance: Advance, notices: list[str]) -> Iterator[Columns]:
    """The wanted columns of a table. Raises UserError, with the line, if it cannot be read."""
    file, table = TextFile(path, advance, notices), Table(path, wanted, notices)
    for rows, lines in _parse_csv(file):
        yield table.columns(rows, lines)


def _parse_csv(file: TextFile) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Rows of fields, and the number of the line in which each begins."""
    csv.field_size_limit(MAX_FIELD)
    # A lone \r is a blank in text, but an error of `csv`.
    lines = (line.replace("\r", " ") + "\n" for block in file.blocks() for line in block)
    sample = list(islice(lines, SAMPLE_LINES))
    # The last row then shows whether a quote is still open.
    lines = chain(sample, lines, [END])
    # Unless it is strict, a stray quote joins two rows in silence.
    reader = csv.reader(lines, delimiter=_separator(sample), strict=True)
    rows: list[list[str]] = []
    starts: list[int] = []
    begin = start = 1  # of the last row, and of the next
    try:
        for row in reader:
            begin, start = start, reader.line_num + 1
            if END in row:
                break
            rows.append(row or [""])
            starts.append(begin)
            if len(rows) == BATCH_ROWS:
                yield rows, starts
                rows, starts = [], []
        else:
            start = begin
            raise csv.Error
    except csv.Error as error:
        problem = f"a quote in line {start:,} is never closed"
        if "expected after" in str(error):
            problem = f"in line {start:,}, text follows the quote that ends a field"
            if (last := reader.line_num) > start:
                problem = (
                    f"text follows a quote in line {last:,} that ends a field of line {start:,}"
                )
        raise UserError(
            f"{file.path} cannot be read: {problem}. In CSV a field with a quote is written as"
            ' "5"" disk"; a .tsv has no such rule.'
        ) from error
    yield rows, starts


def _separator(lines: list[str]) -> str:
    """What separates the fields of these lines: it gives all their rows the same number of them."""
    for separator in SEPARATORS:
        with suppress(csv.Error):
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
            # These lines may end within a quoted field of the last row.
            widths = set(map(len, rows[:-1] or rows))
            if len(widths) == 1 and widths != {1}:
                return separator
    return SEPARATORS[0]


class Table:
    """The columns of rows of fields, chosen by the first row."""

    def __init__(self, path: Path, wanted: Wanted, notices: list[str]) -> None:
        self.path, self.wanted, self._notices = path, wanted, notices
        self.width = 0  # of the first row
        self._places: list[int] = []

    def columns(self, rows: list[list[str]], lines: Sequence[int]) -> Columns:
        """The wanted columns of the next rows, which begin in these lines.

        Raises UserError if there are no such columns, or if a row has more or fewer fields than the
        first one. Blank lines are left out, except of a table with one column.
        """
        if not self.width:
            rows, lines = self._begin(rows, lines)
        if not rows:
            return [[] for _ in self.wanted.sides]
        if any(len(row) != self.width for row in rows):
            rows = [row for row, line in zip(rows, lines, strict=True) if self._is_whole(row, line)]
        return [[row[place] for row in rows] for place in self._places]

    def _is_whole(self, row: list[str], line: int) -> bool:
        if len(row) == self.width:
            return True
        if any(map(str.strip, row)):
            raise UserError(
                f"{self.path} cannot be read: line {line:,} has {counted(len(row), 'field')}, "
                f"but the first row has {self.width}. {self._advice}"
            )
        return False

    @property
    def _advice(self) -> str:
        if ".tsv" in self.path.suffixes:
            return "Fields are separated by tabs, and have none."
        return (
            "Fields with a comma (or what separates the fields), a quote or a line break must be in"
            " quotes."
        )

    def _begin(
        self, rows: list[list[str]], lines: Sequence[int]
    ) -> tuple[list[list[str]], Sequence[int]]:
        """Choose the columns by the first row that is not blank; the rows with texts."""
        first = next((at for at, row in enumerate(rows) if any(map(str.strip, row))), None)
        if first is None:
            return [], []
        cells = [cell.strip() for cell in rows[first]]
        self.width = len(cells)
        names = self.wanted.find(cells)
        if names is not None:
            self._places = [cells.index(name) for name in names]
            return rows[first + 1 :], lines[first + 1 :]
        self._places = self._without_header(cells)
        if replace(self.wanted, given=("",) * len(self._places)).find(
            [cells[place] for place in self._places]
        ):
            first += 1  # a header, although the user gave numbers
        if self.width > 1:
            return rows[first:], lines[first:]
        return rows, lines  # in one column, a blank line is a text

    def _without_header(self, cells: list[str]) -> list[int]:
        """The places of the wanted columns. Raises UserError if they are not known."""
        given = self.wanted.given
        if all(name.isdecimal() and 1 <= int(name) <= self.width for name in given):
            return [int(name) - 1 for name in given]
        if not any(given) and not self.wanted.is_header(cells):
            if self.width == len(self.wanted.sides):
                if self.width == 2 and all(map(str.isidentifier, cells)):  # names, or words
                    self._notices.append(
                        f"{self.path}: its first row, {list_names(cells)}, is read as a pair. If "
                        "it is a header, pass its names as --src_column and --tgt_column."
                    )
                return list(range(self.width))
            if self.width == 2:
                return [("src", "tgt").index(side) for side in self.wanted.sides]
        raise UserError(
            f"{self.path} has no {self.wanted.described}: its first row is {list_names(cells)}."
            f" {self._advice_on_columns}"
        )

    @property
    def _advice_on_columns(self) -> str:
        flags = f"names that it has, or numbers from 1 to {self.width}"
        if any(self.wanted.given):
            return f"Correct --src_column and --tgt_column: {flags}."
        if len(self.wanted.sides) == 1:
            return f"Name the column there, {self.wanted.languages[0]} or {self.wanted.sides[0]}."
        return (
            "Choose languages that it names, name columns src and tgt there, or pass --src_column"
            f" and --tgt_column: {flags}."
        )
