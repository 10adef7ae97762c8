"""Tables in text: TSV and CSV.

Every field is text, also NA, null and numbers. In CSV quotes enclose fields, in TSV only if all its
quotes do: spreadsheets and pandas quote fields, others do not. Semicolons or tabs may separate the
fields of CSV: spreadsheets write semicolons where the comma is the decimal sign.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain

from translate_ddp.corpus_settings import Quoting
from translate_ddp.data.readers.streams import TextFile
from translate_ddp.data.rows import BY_POSITION, Columns, Reading, Remark, list_names
from translate_ddp.errors import UserError
from translate_ddp.quantities import counted
from translate_ddp.text import has_letter

BATCH_ROWS = 10_000
MAX_FIELD = 2**24  # characters; the parser takes 4 bytes for each
SEPARATORS = (",", ";", "\t")  # of the fields of CSV
STATED_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # a first line, as Excel reads it
SAMPLE_LINES = 50  # of the start of a CSV file, which show what separates its fields
NUMBER_NAMES = ("id", "no")  # of columns, which are also codes of languages
# Programs quote a field with a quote, a separator or a line break; Excel also one with a comma (or
# what separates a list), SQLite also one with a space.
OPEN_FIELD = re.compile('"(?:[^"]|"")*')
NEEDS_QUOTES = re.compile('""|[\r\n\t]')
SOMETIMES_QUOTED = {",", ";", " "}
MAX_BARE_SHARE = 0.1  # texts without quotes, as NA, per quoted text of a column that is all quoted


def _read(reading: Reading, separator: str) -> Iterator[Columns]:
    """The wanted columns of a table. Raises UserError, with the line, if it cannot be read."""
    quoting = reading.wanted.quoting
    if not separator and quoting == "auto":
        quoting = "csv"
    table, blocks = Table(reading), TextFile(reading).blocks()
    head: list[str] = []
    while len(head) < SAMPLE_LINES and (block := next(blocks, None)) is not None:
        head += block
    start = 1
    if head and (stated := STATED_SEPARATOR.fullmatch(head[0])):
        separator, start = stated[1], 2
        del head[0]
    separator = separator or _separator(reading, head[:SAMPLE_LINES], quoting)
    number = start  # of the next line
    for lines in chain([head], blocks):
        # Up to the first field that begins with a quote, both readings are the same.
        if quoting == "auto" and any(ln[:1] == '"' or f'{separator}"' in ln for ln in lines):
            quoting, meaning = _find_quoting(lines, separator)
            reading.notices.append(Remark(f"{reading.path}: {meaning}"))
        if quoting == "csv":
            quoted = chain.from_iterable(chain([lines], blocks))
            for rows, starts in _parse_csv(reading, quoted, separator, number):
                yield table.columns(rows, starts)
            return
        rows = [line.split(separator) for line in lines]
        yield table.columns(rows, range(number, number + len(lines)))
        number += len(lines)


read_tsv = partial(_read, separator="\t")
read_csv = partial(_read, separator="")


def _csv_lines(lines: Iterable[str]) -> Iterator[str]:
    r"""The lines as `csv` reads them, in which a \r is an error."""
    return (line.replace("\r", " ") + "\n" for line in lines)


def _parse_csv(
    reading: Reading, lines: Iterable[str], separator: str, first: int
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Rows of fields, and the number of the line in which each begins, that of the first given."""
    csv.field_size_limit(MAX_FIELD)
    # Unless it is strict, a stray quote joins two rows in silence.
    parser = csv.reader(_csv_lines(lines), delimiter=separator, strict=True)
    rows: list[list[str]] = []
    starts: list[int] = []
    start = first  # of the next row
    try:
        for row in parser:
            rows.append(row or [""])
            starts.append(start)
            start = first + parser.line_num
            if len(rows) == BATCH_ROWS:
                yield rows, starts
                rows, starts = [], []
    except csv.Error as error:
        problem = f"a quote in line {start:,} is never closed"
        if "expected after" in str(error):
            last = first - 1 + parser.line_num
            problem = f"text follows a quote in line {last:,} that ends a field of line {start:,}"
        raise UserError(
            f"{reading.path} cannot be read: {problem}. In CSV a field with a quote is written as"
            ' "5"" disk". If quotes are text, pass --quoting none.'
        ) from error
    yield rows, starts


def _separator(reading: Reading, lines: list[str], quoting: Quoting) -> str:
    """What separates the fields of these lines: it gives all their rows the same number of them.

    Of several, what gives a header. Raises UserError if that is not clear.
    """
    wanted = reading.wanted
    quotes = csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL
    tables: dict[str, list[str]] = {}  # separator -> first row
    for separator in SEPARATORS:
        with suppress(csv.Error):
            parser = csv.reader(_csv_lines(lines), delimiter=separator, quoting=quotes)
            rows = [row for row in parser if row]
            # These lines may end within a quoted field of the last row.
            widths = set(map(len, rows[:-1] or rows))
            if len(widths) == 1 and widths != {1}:
                tables[separator] = rows[0]
    named = [each for each, row in tables.items() if wanted.find(row)]
    usable = [each for each, row in tables.items() if wanted.numbered(len(row))]
    if len(usable) > 1 and not named:
        raise UserError(
            f"{reading.path} cannot be read: {' or '.join(map(repr, usable))} may separate its"
            f" fields. Add a first line {' or '.join(f'sep={each}' for each in usable)}, or one"
            f" that names the columns, such as"
            f" {usable[0].join(code or '...' for code in wanted.both)}."
        )
    return next(iter(named or usable or tables), ",")


def _find_quoting(lines: Sequence[str], separator: str) -> tuple[Quoting, str]:
    """csv or none for a table of which these are rows, and what that means."""
    if _are_quoted(lines, separator):
        return "csv", "quotes enclose fields, as in CSV. If they are text, pass --quoting none."
    return "none", "quotes are text. If they enclose fields, pass --quoting csv."


def _are_quoted(lines: Sequence[str], separator: str) -> bool:
    """Whether a program has written these lines that quotes fields.

    It quotes each field that holds a quote. Besides, it quotes all texts of a column, or only those
    that hold certain characters.
    """
    between = re.escape(separator)
    field = re.compile(rf'("(?:[^"]|"")*"|[^"{between}\n][^{between}\n]*|)({between}|\n)')
    text = "".join(f"{line}\n" for line in lines)
    place, row = 0, list[str]()
    rows: list[list[str]] = []
    while found := field.match(text, place):
        place = found.end()
        row.append(found[1])
        if found[2] == "\n":
            rows.append(row)
            row = []
    # These lines may end within a field. But no text has a separator and a line break: they are
    # the ends of two rows.
    is_open = OPEN_FIELD.fullmatch(text, place) and separator not in text[place:]
    is_joined = any("\n" in each and separator in each for row in rows for each in row)
    rows = [row for row in rows if any(row)]
    if (place < len(text) and not is_open) or len(set(map(len, rows))) > 1 or is_joined:
        return False
    return all(map(_is_column_quoted, zip(*rows[1:], strict=True)))  # a header may be, alone


def _is_column_quoted(fields: Sequence[str]) -> bool:
    """Whether a program writes these quotes: where they are needed, in all texts, or as Excel."""
    needless = [text for text in fields if len(text) > 2 and text[0] == '"']
    needless = [text for text in needless if not NEEDS_QUOTES.search(text[1:-1])]
    bare = [text for text in fields if text[:1] != '"']
    if len(bare) <= MAX_BARE_SHARE * len(needless):
        return True
    unquoted = SOMETIMES_QUOTED.intersection("".join(bare))
    return all((SOMETIMES_QUOTED - unquoted).intersection(text) for text in needless)


class Table:
    """The columns of rows of fields, chosen by the first row."""

    def __init__(self, reading: Reading) -> None:
        self._path, self._wanted, self._notices = reading.path, reading.wanted, reading.notices
        self._width = 0  # of the first row
        self._places: list[int] = []

    def columns(self, rows: list[list[str]], lines: Sequence[int]) -> Columns:
        """The wanted columns of the next rows, which begin in these lines.

        Raises UserError if there are no such columns, or if a row has more or fewer fields than the
        first one. Empty lines are left out, except of a table with one column.
        """
        if not self._width:
            start = self._begin(rows)
            rows, lines = rows[start:], lines[start:]
        if not rows:
            return [[] for _ in self._wanted.sides]
        if any(len(row) != self._width for row in rows):
            rows = [row for row, line in zip(rows, lines, strict=True) if self._is_whole(row, line)]
        return [[row[place] for row in rows] for place in self._places]

    def _is_whole(self, row: list[str], line: int) -> bool:
        """Whether the row is not empty. Raises UserError if it has another number of fields."""
        if len(row) != self._width and any(map(str.strip, row)):
            raise UserError(
                f"{self._path} cannot be read: line {line:,} has {counted(len(row), 'field')}, "
                f"but the first row has {self._width}. A field with a separator, a quote or a line"
                " break must be in quotes; if it is, pass --quoting csv. If R wrote names of rows,"
                " which the first row lacks, write the file with row.names=FALSE."
            )
        return len(row) == self._width

    def _begin(self, rows: list[list[str]]) -> int:
        """Choose the columns by the first row that is not empty; the number of the first text."""
        first = next((at for at, row in enumerate(rows) if any(map(str.strip, row))), None)
        if first is None:
            return len(rows)
        cells = [cell.strip(' "') for cell in rows[first]]  # a header may be in quotes alone
        self._width = len(cells)
        if names := self._wanted.find(cells):
            self._places = [cells.index(name) for name in names]
            self._check_header(cells, rows[first + 1 :])
            return first + 1
        self._places = self._without_header(cells)
        chosen = [cells[place] for place in self._places]
        if replace(self._wanted, given=("",) * len(chosen)).find(chosen):
            return first + 1  # a header, although the user gave numbers
        return first if self._width > 1 else 0  # in one column, an empty line is a text

    def _check_header(self, cells: list[str], rows: list[list[str]]) -> None:
        """Raise UserError if a column is named like a language but has the numbers of rows."""
        for place in () if any(self._wanted.given) else self._places:
            texts = (row[place] for row in rows if len(row) == self._width)
            if cells[place].casefold() in NUMBER_NAMES and not any(map(has_letter, texts)):
                raise UserError(
                    f"{self._path}: column {cells[place]} has no text. Pass the names or the"
                    " numbers of the columns as --src_column and --tgt_column."
                )

    def _without_header(self, cells: list[str]) -> list[int]:
        """The places of the wanted columns. Raises UserError if they are not known."""
        places = self._wanted.numbered(self._width)
        if any(self._wanted.given) and places:
            return places
        if not any(self._wanted.given) and not self._wanted.is_header(cells):
            if self._width == 1 == len(self._wanted.sides):
                return [0]
            if places:
                if all(map(str.isidentifier, cells)):  # names, or words
                    text = f"its first row, {list_names(cells)}, is read as a pair. If it is"
                    text += " a header, pass its names as --src_column and --tgt_column."
                    self._notices.append(Remark(f"{self._path}: {text}"))
                self._notices.append(BY_POSITION)
                return [("src", "tgt").index(side) for side in self._wanted.sides]
        numbers = f" These may be numbers from 1 to {self._width}." * (len(self._wanted.sides) == 2)
        raise UserError(
            f"{self._path} has no {self._wanted.described}: its first row is {list_names(cells)}."
            f" {self._wanted.advice}{numbers}"
        )
