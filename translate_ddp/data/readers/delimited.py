"""Tables in text: TSV and CSV.

Every field is text, also NA, null and numbers. In CSV quotes enclose fields, in TSV only if all its
quotes do: spreadsheets and pandas quote fields, others do not. Semicolons or tabs may separate the
fields of CSV: spreadsheets write semicolons where the comma is the decimal sign.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from translate_ddp.data.direction import CLEAR, Direction
from translate_ddp.data.read_errors import list_names
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.lines import TextFile
from translate_ddp.data.readers.quotes import ESCAPED, MAX_FIELD, csv_lines, find_quoting
from translate_ddp.data.rows import BY_POSITION, Advance, Columns, Remark
from translate_ddp.errors import UserError
from translate_ddp.quantities import counted
from translate_ddp.text import has_letter

BATCH_ROWS = 10_000
SEPARATORS = (",", ";", "\t")  # of the fields of CSV
STATED_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # a first line, as Excel reads it
SAMPLE_LINES = 50  # of the start of a CSV file, which show what separates its fields
NUMBER_NAMES = ("id", "no")  # of columns, which are also codes of languages
CLEAR_SHARE = 0.8  # of these rows, in which one separator divides the languages best


def _read(
    path: Path, wanted: Wanted, advance: Advance, notices: list[str], separator: str
) -> Iterator[Columns]:
    """The wanted columns of a table. Raises UserError, with the line, if it cannot be read."""
    quoting = wanted.quoting if separator or wanted.quoting == "none" else "csv"
    table, blocks = Table(path, wanted, notices), TextFile(path, advance, notices).blocks()
    head: list[str] = []
    while len(head) < SAMPLE_LINES and (block := next(blocks, None)) is not None:
        head += block
    start = 1
    if head and (stated := STATED_SEPARATOR.fullmatch(head[0])):
        separator, start = stated[1], 2
        del head[0]
    separator = separator or _separator(path, wanted, head[:SAMPLE_LINES], quoting)
    number = start  # of the next line
    for lines in chain([head], blocks):
        # Up to the first field that begins with a quote, both readings are the same.
        if quoting == "auto" and any(ln[:1] == '"' or f'{separator}"' in ln for ln in lines):
            quoting, meaning = find_quoting(path, separator, start)
            notices.append(Remark(f"{path}: {meaning}"))
        if quoting == "csv" and any('\\"' in ln for ln in lines):  # as R writes it
            found, meaning = find_quoting(path, separator, start)
            if found == ESCAPED:
                quoting = found
                notices.append(Remark(f"{path}: {meaning}"))
        if quoting in ("csv", ESCAPED):
            quoted = csv_lines(chain([lines], blocks), quoting)
            for rows, starts in _parse_csv(path, quoted, separator, number):
                yield table.columns(rows, starts)
            return
        rows = [line.split(separator) for line in lines]
        yield table.columns(rows, range(number, number + len(lines)))
        number += len(lines)


read_tsv = partial(_read, separator="\t")
read_csv = partial(_read, separator="")


def _parse_csv(
    path: Path, lines: Iterable[str], separator: str, first: int
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Rows of fields, and the number of the line in which each begins, that of the first given."""
    csv.field_size_limit(MAX_FIELD)
    # Unless it is strict, a stray quote joins two rows in silence.
    reader = csv.reader(lines, delimiter=separator, strict=True)
    rows: list[list[str]] = []
    starts: list[int] = []
    start = first  # of the next row
    try:
        for row in reader:
            rows.append(row or [""])
            starts.append(start)
            start = first + reader.line_num
            if len(rows) == BATCH_ROWS:
                yield rows, starts
                rows, starts = [], []
    except csv.Error as error:
        problem = f"a quote in line {start:,} is never closed"
        last = first - 1 + reader.line_num
        if "expected after" in str(error):
            problem = f"text follows a quote in line {last:,} that ends a field of line {start:,}"
            if last == start:
                problem = f"in line {start:,}, text follows the quote that ends a field"
        raise UserError(
            f"{path} cannot be read: {problem}. In CSV a field with a quote is written as"
            ' "5"" disk". If quotes are text, pass --quoting none.'
        ) from error
    yield rows, starts


def _separator(path: Path, wanted: Wanted, lines: list[str], quoting: str) -> str:
    """What separates the fields of these lines: it gives all their rows the same number of them.

    Of several, what gives a header, or columns of the two languages. Raises UserError if that is
    not clear.
    """
    quotes = csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL
    tables: dict[str, list[list[str]]] = {}
    for separator in SEPARATORS:
        with suppress(csv.Error):
            reader = csv.reader(csv_lines([lines], quoting), delimiter=separator, quoting=quotes)
            rows = [row for row in reader if row]
            # These lines may end within a quoted field of the last row.
            widths = set(map(len, rows[:-1] or rows))
            if len(widths) == 1 and widths != {1}:
                tables[separator] = [row for row in rows if len(row) in widths]
    if named := [each for each, rows in tables.items() if wanted.find(rows[0])]:
        return named[0]
    usable = {each: rows for each, rows in tables.items() if wanted.numbered(len(rows[0]))}
    written = {each: rows for each, rows in usable.items() if not _is_text(each, lines)}
    if len(written or usable) < 2:
        return next(iter(written or usable or tables), ",")
    lean = Direction(wanted.both).lean
    votes: Counter[str] = Counter()
    for rows in zip(*usable.values(), strict=False):
        pairs = [[lean(row[place]) for place in wanted.numbered(len(row))] for row in rows]
        found = [abs(src - tgt) for src, tgt in pairs]
        second, best = sorted(found)[-2:]
        votes[[*usable][found.index(best)]] += best - second > CLEAR
    best = max(usable, key=votes.__getitem__)
    if not votes[best] > CLEAR_SHARE * votes.total():
        raise UserError(
            f"{path} cannot be read: {' or '.join(map(repr, usable))} may separate its fields. Add"
            f" a first line {' or '.join(f'sep={each}' for each in usable)}, or one that names the"
            f" columns, such as {best.join(code or '...' for code in wanted.both)}."
        )
    return best


def _is_text(separator: str, lines: list[str]) -> bool:
    """Whether all these characters are as in text: before a blank, or between digits."""
    mark = re.escape(separator)
    return not re.search(rf"{mark}(?![ \d])|(?<!\d){mark}\d", "\n".join(lines))


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
                f"but the first row has {self.width}. A field with a separator, a quote or a line"
                " break must be in quotes; if it is, pass --quoting csv. If R wrote names of rows,"
                " which the first row lacks, write the file with row.names=FALSE."
            )
        return False

    def _begin(
        self, rows: list[list[str]], lines: Sequence[int]
    ) -> tuple[list[list[str]], Sequence[int]]:
        """Choose the columns by the first row that is not blank; the rows with texts."""
        first = next((at for at, row in enumerate(rows) if any(map(str.strip, row))), None)
        if first is None:
            return [], []
        cells = [cell.strip(' "') for cell in rows[first]]  # a header may be in quotes alone
        self.width = len(cells)
        names = self.wanted.find(cells)
        if names is not None and not self._recurs(rows, first, [cells.index(n) for n in names]):
            if names != self.wanted.find(cells, in_words=False):
                read = f"its first row, {list_names(cells)}, is read as a header."
                self._notices.append(Remark(f"{self.path}: {read}"))
            self._places = [cells.index(name) for name in names]
            return rows[first + 1 :], lines[first + 1 :]
        self._places = self._without_header(cells)
        if replace(self.wanted, given=("",) * len(self._places)).find(
            [cells[place] for place in self._places], in_words=False
        ):
            first += 1  # a header, although the user gave numbers
        if self.width > 1:
            return rows[first:], lines[first:]
        return rows, lines  # in one column, a blank line is a text

    def _recurs(self, rows: list[list[str]], first: int, places: list[int]) -> bool:
        """Whether the next row has the same cells, as columns of language codes have.

        Raises UserError if a column is named like a language but has the numbers of rows.
        """
        following = [row for row in rows[first + 1 :] if len(row) == self.width]
        for place in () if any(self.wanted.given) else places:
            is_number = rows[first][place].strip(' "').casefold() in NUMBER_NAMES
            if is_number and not any(has_letter(row[place]) for row in following):
                raise UserError(
                    f"{self.path}: column {rows[first][place]} has no text. Pass the names or the"
                    " numbers of the columns as --src_column and --tgt_column."
                )
        cells = [[row[place] for place in places] for row in (rows[first], *following[:1])]
        return len(places) > 1 and len(cells) > 1 and cells[0] == cells[1]

    def _without_header(self, cells: list[str]) -> list[int]:
        """The places of the wanted columns. Raises UserError if they are not known."""
        places = self.wanted.numbered(self.width)
        if any(self.wanted.given) and places:
            return places
        if not any(self.wanted.given) and not self.wanted.is_header(cells):
            if self.width == 1 == len(self.wanted.sides):
                return [0]
            if places:
                if all(map(str.isidentifier, cells)):  # names, or words
                    text = f"its first row, {list_names(cells)}, is read as a pair. If it is"
                    text += " a header, pass its names as --src_column and --tgt_column."
                    self._notices.append(Remark(f"{self.path}: {text}"))
                self._notices.append(BY_POSITION)
                return [("src", "tgt").index(side) for side in self.wanted.sides]
        numbers = f" These may be numbers from 1 to {self.width}." * (len(self.wanted.sides) == 2)
        raise UserError(
            f"{self.path} has no {self.wanted.described}: its first row is {list_names(cells)}."
            f" {self.wanted.advice}{numbers}"
        )
