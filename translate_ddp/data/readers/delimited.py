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
from itertools import chain, islice, zip_longest

from translate_ddp.console import counted
from translate_ddp.data.readers.streams import TextFile
from translate_ddp.data.row_choice import SAMPLE_ROWS, check_texts, choose_rows
from translate_ddp.data.rows import BY_POSITION, Columns, Reading, Remark, list_names
from translate_ddp.errors import NoSuchPair, UserError
from translate_ddp.text import has_letter, normalize

BATCH_ROWS = 10_000
MAX_FIELD = 2**24  # characters; the parser takes 4 bytes for each
SEPARATORS = (",", ";", "\t")  # between the fields of CSV
STATED_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # a first line, as Excel reads it
MAX_TITLES = 10  # rows in which a header may be
SAMPLE_LINES = 50  # at the start of a CSV file; they show what separates its fields
NUMBER_NAMES = ("id", "no")  # names of columns of numbers, which are also codes of languages
ESCAPED = "escaped"  # quoting as csv, but a quote within a field is \\", as R writes it, not ""
# Programs quote a field with a quote, a separator or a line break; Excel also one with a comma (or
# what separates a list), SQLite also one with a space.
SOMETIMES_QUOTED = {",", ";", " "}
MAX_BARE_SHARE = 0.01  # texts without quotes per quoted text of a column whose texts are all quoted
NO_TEXT = re.compile(r"[\W\d_]*|[\d.+-]+e[+-]?\d+|na|nan|null|none|inf|true|false|\\n", re.I)


def _read(reading: Reading, separator: str) -> Iterator[Columns]:
    """The wanted columns of a table. Raises UserError, with the line, if it cannot be read."""
    quoting: str = reading.wanted.quoting
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
    number = start  # the next line
    for lines in chain([head], blocks):
        # Up to the first field that begins with a quote, all readings are the same.
        is_open = quoting == "auto" and any(ln[:1] == '"' or f'{separator}"' in ln for ln in lines)
        if is_open or (quoting == "csv" and any('\\"' in line for line in lines)):
            found, meaning = _find_quoting(reading, separator, start)
            if is_open or found == ESCAPED:
                quoting = found
                reading.notices.append(Remark(f"{reading.path}: {meaning}"))
        if quoting in ("csv", ESCAPED):
            quoted = _csv_lines(chain.from_iterable(chain([lines], blocks)), quoting)
            for rows, starts in _parse_csv(reading, quoted, separator, number):
                yield table.columns(rows, starts)
            break
        rows = [line.split(separator) for line in lines]
        yield table.columns(rows, range(number, number + len(lines)))
        number += len(lines)
    if table.short:
        rows = f"{counted(len(table.short), 'row')}, first in line {table.short[0]:,}"
        text = f"{reading.path}: the last fields of {rows}, are missing, and read as empty."
        reading.notices.append(Remark(text))


read_tsv = partial(_read, separator="\t")
read_csv = partial(_read, separator="")


def _csv_lines(lines: Iterable[str], quoting: str) -> Iterator[str]:
    r"""The lines as `csv` reads them, in which a \r is an error."""
    for line in lines:
        line = line.replace("\r", " ")
        yield (line.replace('\\"', '""') if quoting == ESCAPED else line) + "\n"


def _parse_csv(
    reading: Reading, lines: Iterable[str], separator: str, first: int
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Rows of fields, and the number of the line in which each begins; the first is given."""
    csv.field_size_limit(MAX_FIELD)
    # Unless it is strict, a stray quote joins two rows in silence.
    parser = csv.reader(lines, delimiter=separator, strict=True)
    rows: list[list[str]] = []
    starts: list[int] = []
    start = first  # the line of the next row
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


def _separator(reading: Reading, lines: list[str], quoting: str) -> str:
    """What separates the fields of these lines: it gives all their rows the same number of them.

    Of several, what gives a header, or what is not only as in text. Below a header, rows may lack
    their last fields. Raises UserError if it is not clear.
    """
    wanted = reading.wanted
    quotes = csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL
    first_rows: dict[str, list[str]] = {}
    for separator in SEPARATORS:
        with suppress(csv.Error):
            parser = csv.reader(_csv_lines(lines, quoting), delimiter=separator, quoting=quotes)
            rows = [row for row in parser if row]
            # These lines may end within a quoted field of the last row.
            widths = set(map(len, rows[:-1] or rows))
            is_header = widths and len(rows[0]) > 1 and wanted.find(rows[0], min(widths) > 1)
            if is_header or (len(widths) == 1 and widths != {1}):
                first_rows[separator] = rows[0]
    if named := [each for each, row in first_rows.items() if wanted.find(row)]:
        return named[0]
    usable = [each for each, row in first_rows.items() if wanted.numbered(len(row))]
    usable = [each for each in usable if not _is_text(each, lines)] or usable
    if len(usable) < 2:
        return next(iter(usable or first_rows), ",")
    example = usable[0].join(code or "..." for code in wanted.both)
    raise UserError(
        f"{reading.path} cannot be read: {' or '.join(map(repr, usable))} may separate its fields."
        f" Add a first line {' or '.join(f'sep={each}' for each in usable)}, or one that names the"
        f" columns, such as {example}."
    )


def _is_text(separator: str, lines: list[str]) -> bool:
    """Whether all these characters are as in text: before a space, or between digits."""
    mark = re.escape(separator)
    return not re.search(rf"{mark}(?![ \d])|(?<!\d){mark}\d", "\n".join(lines))


def _find_quoting(reading: Reading, separator: str, start: int) -> tuple[str, str]:
    """csv, `ESCAPED` or none, and what that means. The table begins in line `start`.

    All lines decide: a file may cite a whole sentence long before half a one.
    """
    line, text = _find_other(reading, separator, start, "csv")
    if '\\"' in text and not _find_other(reading, separator, start, ESCAPED)[0]:
        return ESCAPED, 'quotes enclose fields, and are \\" within. If not, pass --quoting none.'
    if line:
        why = f"line {line:,} is not quoted as in CSV"
        return "none", f"quotes are text, as {why}. If they enclose fields, pass --quoting csv."
    return "csv", "quotes enclose fields, as in CSV. If they are text, pass --quoting none."


def _find_other(reading: Reading, separator: str, start: int, quoting: str) -> tuple[int, str]:
    """A row that no program writes that quotes fields: its line and text; 0 if there is none.

    Such a program quotes each field that holds a quote. It quotes all texts of a column, or only
    those that hold certain characters.
    """
    between = re.escape(separator)
    field = f'("[^"]*(?:""[^"]*)*"|[^"{between}\n]*)'
    is_row = re.compile(f"{field}(?:{between}{field})*").fullmatch
    fields_of = re.compile(f"(?:^|{between}){field}").findall
    needs_quotes = re.compile(f'""|[\r\n{between}]').search
    bare: Counter[int] = Counter()  # texts without quotes, by column
    in_bare: set[str] = set()  # the `SOMETIMES_QUOTED` in fields without quotes
    needless: Counter[int] = Counter()  # quoted texts without what needs quotes, by column
    # The first with each set of characters of `SOMETIMES_QUOTED`, by column: line and row.
    examples: dict[tuple[int, frozenset[str]], tuple[int, str]] = {}
    width = 0  # fields in the first row, a header that may be quoted or not
    for number, row in _quoted_rows(reading, start, quoting):
        fields = fields_of(row)
        # No text has a separator and a line break: it is the ends of two rows.
        widths = {line.count(separator) + 1 for line in row.split("\n")}
        is_joined = "\n" in row and widths == {len(fields)}
        is_long = any(each.strip('"') for each in fields[width:])
        is_other = width and (is_long or (len(fields) == 1 < width and separator in row))
        if is_joined or not is_row(row) or ('"' in row and is_other):
            return number, row
        for column, text in enumerate(fields):
            sometimes = SOMETIMES_QUOTED.intersection(text)
            if text[:1] != '"':
                in_bare |= sometimes if width else set()
                bare[column] += width > 0 and not NO_TEXT.fullmatch(text)
            elif len(text) > 2 and not needs_quotes(text, 1, len(text) - 1):
                needless[column] += 1
                examples.setdefault((column, frozenset(sometimes)), (number, row))
        width = width or len(fields)
    wrong = [
        place
        for (column, sometimes), place in examples.items()
        if bare[column] > MAX_BARE_SHARE * needless[column] and sometimes <= in_bare
    ]
    return min(wrong, default=(0, ""))


def _quoted_rows(reading: Reading, start: int, quoting: str) -> Iterator[tuple[int, str]]:
    """The rows of the file that are not empty, with their first lines, if quotes enclose fields.

    A row with an odd number of quotes is too long, or goes on to the end of the file.
    """
    blocks = TextFile(Reading(reading.path, reading.wanted)).blocks()
    table = islice(chain.from_iterable(blocks), start - 1, None)
    lines, first = list[str](), start  # the row so far: its lines, and the number of the first
    size, is_open = 0, False
    for following, line in enumerate(table, start + 1):
        lines.append(line.replace('\\"', '""') if quoting == ESCAPED else line)
        size += len(line)
        is_open ^= lines[-1].count('"') % 2 == 1
        if not is_open or size > MAX_FIELD:
            if any(map(str.strip, lines)):
                yield first, "\n".join(lines)
            lines, first, size = [], following, 0
    if lines:
        yield first, "\n".join(lines)


def _names(row: list[str]) -> list[str]:
    """The names in a header, which may be in quotes alone."""
    return [normalize(cell).strip(' "') for cell in row]


class Table:
    """The columns of rows of fields, chosen by the first row."""

    def __init__(self, reading: Reading) -> None:
        self._path, self._wanted, self._notices = reading.path, reading.wanted, reading.notices
        self._reading = reading
        self._numbers, self._last = reading.numbers, 0  # the number of the last row so far
        self._width = 0  # fields in the first row
        self.short: list[int] = []  # the lines of rows without their last fields
        self.places: list[int] = []

    def columns(self, rows: list[list[str]], lines: Sequence[int]) -> Columns:
        """The wanted columns of the next rows, which begin in these lines.

        Raises UserError if there are no such columns, or if a row has texts in more fields than the
        first one has. Empty lines are left out, except of a table with one column.
        """
        self._last += len(rows)
        if not self._width:
            start = self._begin(rows)
            rows, lines = rows[start:], lines[start:]
        self._numbers[:] = [
            number
            for number, row in enumerate(rows, self._last - len(rows) + 1)
            if len(row) == self._width or any(map(str.strip, row))
        ]
        if not rows:
            return [[] for _ in self.places or self._wanted.sides]
        if any(len(row) != self._width for row in rows):
            rows = [row for row, line in zip(rows, lines, strict=True) if self._is_whole(row, line)]
            rows = [row[: self._width] + [""] * (self._width - len(row)) for row in rows]
        return [[row[place] for row in rows] for place in self.places]

    def _is_whole(self, row: list[str], line: int) -> bool:
        """Whether the row is not empty. Raises UserError if it has text in too many fields."""
        if not any(map(str.strip, row)):
            return len(row) == self._width
        if len(row) < self._width:
            self.short.append(line)
        elif any(map(str.strip, row[self._width :])):
            raise UserError(
                f"{self._path} cannot be read: line {line:,} has {counted(len(row), 'field')}, "
                f"but the first row has {self._width}. A field"
                " with a separator, a quote or a line break must be in quotes; if it is, pass"
                " --quoting csv. If R wrote names of rows, which the first row lacks, write the"
                " file with row.names=FALSE."
            )
        return True

    def _begin(self, rows: list[list[str]]) -> int:
        """Choose the columns by the first row that is not empty; the number of the first text."""
        first = next((at for at, row in enumerate(rows) if any(map(str.strip, row))), None)
        if first is None:
            return len(rows)
        cells = _names(rows[first])
        self._width = len(cells)
        sample = zip_longest(*rows[first : first + 1 + SAMPLE_ROWS], fillvalue="")
        columns = [column[1:] for column in islice(sample, self._width)]
        names = self._wanted.find(cells)
        if names and self._is_header([cells.index(name) for name in names], rows[first:]):
            if twice := [name for name in names if cells.count(name) > 1]:
                text = f"several columns have the name {twice[0]}. Rename all but one."
                raise UserError(f"{self._path}: {text}")
            self.places = [cells.index(name) for name in names]
            if names != self._wanted.find(cells, in_words=False):
                text = f"its first row, {list_names(cells)}, is read as a header."
                self._notices.append(Remark(f"{self._path}: {text}"))
            self.places = choose_rows(self._reading, self.places, cells, columns)
            return first + 1
        is_numbered = all(map(str.isdecimal, self._wanted.given))
        if len(self._wanted.sides) == 2 and sum(map(bool, cells)) == 1 and not is_numbered:
            self._check_titles(rows[first + 1 : first + MAX_TITLES])
        try:
            self.places = self._without_header(cells)
        except NoSuchPair:
            check_texts(self._reading, cells, columns)
            raise
        chosen = [cells[place] for place in self.places]
        self.places = choose_rows(self._reading, self.places, cells, columns)
        if replace(self._wanted, given=("",) * len(chosen)).find(chosen, in_words=False):
            return first + 1  # a header, although the user gave numbers
        return first if self._width > 1 else 0  # in one column, an empty line is a text

    def _check_titles(self, rows: list[list[str]]) -> None:
        """Raise UserError if one of the rows below the first one is the header."""
        header = next((row for row in rows if self._wanted.find(_names(row), in_words=False)), [])
        if header:
            raise UserError(
                f"{self._path} cannot be read: its header, {list_names(header)}, is not its first"
                " row. Delete the rows above. If it is none: --src_column 1 --tgt_column 2."
            )

    def _is_header(self, places: list[int], rows: list[list[str]]) -> bool:
        """Whether the first row, which names these columns, differs from the second one.

        In columns of language codes it does not. Raises UserError if a column is named like a
        language but has the numbers of rows.
        """
        header, *texts = [row for row in rows if len(row) == self._width]
        for place in () if any(self._wanted.given) else places:
            is_number = header[place].strip(' "').casefold() in NUMBER_NAMES
            if is_number and not any(has_letter(row[place]) for row in texts):
                raise UserError(
                    f"{self._path}: column {header[place]} has no text. Pass the names or the"
                    " numbers of the columns as --src_column and --tgt_column."
                )
        if len(places) < 2 or not texts:
            return True
        return any(header[place] != texts[0][place] for place in places)

    def _without_header(self, cells: list[str]) -> list[int]:
        """The places of the wanted columns. Raises NoSuchPair if they are not known."""
        places = self._wanted.numbered(self._width)
        if any(self._wanted.given) and places:
            return places
        if not any(self._wanted.given) and not self._wanted.is_header(cells):
            if self._width == 1 == len(self._wanted.sides):
                return [0]
            if places:
                if all(map(str.isidentifier, cells)):  # names, or words
                    text = f"its first row, {list_names(cells)}, is read as a pair. If it is"
                    text += f" a header, name the columns {' and '.join(self._wanted.languages)}."
                    self._notices.append(Remark(f"{self._path}: {text}"))
                self._notices.append(BY_POSITION)
                return [("src", "tgt").index(side) for side in self._wanted.sides]
        numbers = f" Both may be numbers, from 1 to {self._width}." * (len(self._wanted.sides) == 2)
        raise NoSuchPair(
            f"{self._path} has no {self._wanted.described}: its first row is {list_names(cells)}."
            f" {self._wanted.advice}{numbers}"
        )
