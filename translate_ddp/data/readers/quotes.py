"""Whether quotes enclose the fields of a table, as in CSV, decided from the whole file."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from translate_ddp.data.readers.lines import TextFile
from translate_ddp.data.rows import ignore_progress

ESCAPED = "escaped"  # as csv, but a quote within a field is \\", as R writes it, not ""
MAX_FIELD = 2**24  # characters; the parser takes 4 bytes for each
# Programs quote a field with a quote, a separator or a line break; Excel also one with a comma (or
# what separates a list), SQLite also one with a blank.
SOMETIMES_QUOTED = {",", ";", " "}
MAX_BARE_SHARE = 0.01  # texts without quotes per quoted text of a column whose texts are all quoted
NO_TEXT = re.compile(r"[\W\d_]*|[\d.+-]+e[+-]?\d+|na|nan|null|none|inf|true|false|\\n", re.I)


def csv_lines(blocks: Iterable[list[str]], quoting: str) -> Iterator[str]:
    r"""The lines as `csv` reads them, in which a \r is an error."""
    for line in chain.from_iterable(blocks):
        line = line.replace("\r", " ")
        yield (line.replace('\\"', '""') if quoting == ESCAPED else line) + "\n"


def find_quoting(path: Path, separator: str, start: int) -> tuple[str, str]:
    """csv, `ESCAPED` or none, and what that means. The table begins in line `start`."""
    line, text = _find_other(path, separator, start, "csv")
    if '\\"' in text and not _find_other(path, separator, start, ESCAPED)[0]:
        return ESCAPED, 'quotes enclose fields, and are \\" within. If not, pass --quoting none.'
    if line:
        why = f"line {line:,} is not quoted as in CSV"
        return "none", f"quotes are text, as {why}. If they enclose fields, pass --quoting csv."
    return "csv", "quotes enclose fields, as in CSV. If they are text, pass --quoting none."


def _find_other(path: Path, separator: str, start: int, quoting: str) -> tuple[int, str]:
    """The first row that no program writes that quotes fields: its line and text; 0 if none.

    Such a program quotes each field that holds a quote. It quotes all texts of a column, or only
    those that hold certain characters.
    """
    between = re.escape(separator)
    field = f'("[^"]*(?:""[^"]*)*"|[^"{between}\n]*)'
    is_row = re.compile(f"{field}(?:{between}{field})*").fullmatch
    fields_of = re.compile(f"(?:^|{between}){field}").findall
    needs_quotes = re.compile(f'""|[\r\n{between}]').search
    unquoted: set[str] = set()  # of `SOMETIMES_QUOTED`, those in fields without quotes
    with_unquoted: Counter[int] = Counter()  # texts without quotes, by column
    needless: dict[tuple[int, frozenset[str]], tuple[int, str]] = {}  # quoted -> line and row
    needlessly: Counter[int] = Counter()  # their numbers, by column
    plain_rows = 0
    row, first, width, is_open = "", start, 0, False
    lines = chain.from_iterable(TextFile(path, ignore_progress, []).blocks())
    for number, line in enumerate(islice(lines, start - 1, None), start + 1):
        line = line.replace('\\"', '""') if quoting == ESCAPED else line
        is_open ^= line.count('"') % 2 == 1
        row += f"\n{line}" if row else line
        if is_open and len(row) < MAX_FIELD:
            continue
        is_known = len(with_unquoted) == width and unquoted == SOMETIMES_QUOTED
        if row.strip() and ('"' in row or not is_known):
            fields = fields_of(row)
            plain = {line.count(separator) + 1 for line in row.split("\n")}
            is_plain = "\n" in row and plain == {len(fields)}
            if is_plain or not is_row(row) or (width and '"' in row and len(fields) != width):
                return first, row
            for column, text in enumerate(fields):
                sometimes = SOMETIMES_QUOTED.intersection(text)
                if text.startswith('"'):
                    if len(text) > 2 and not needs_quotes(text, 1, len(text) - 1):
                        needless.setdefault((column, frozenset(sometimes)), (first, row))
                        needlessly[column] += 1
                elif width:  # a header need not be quoted
                    unquoted |= sometimes
                    if not NO_TEXT.fullmatch(text):
                        with_unquoted[column] += 1
            width = width or len(fields)
        else:
            plain_rows += bool(row.strip())
        row, first = "", number
    wrong = [(first, row)] if row else []
    for (column, sometimes), place in needless.items():
        bare = with_unquoted[column] + plain_rows  # a few may be dates or times
        if bare > MAX_BARE_SHARE * needlessly[column] and sometimes <= unquoted:
            wrong.append(place)
    return min(wrong, default=(0, ""))
