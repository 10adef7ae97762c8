"""The texts and pairs that commands read, in every format that training reads.

Unlike in training, a line that is not UTF-8 is an error: it would be missing in the output.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from translate_ddp.console import print_line, printable
from translate_ddp.data.readers.corpus_files import (
    check_file,
    is_table,
    parallel_rows,
    read_side,
    table_rows,
)
from translate_ddp.data.readers.spreadsheet import is_spreadsheet
from translate_ddp.data.readers.streams import spooled
from translate_ddp.data.rows import (
    Languages,
    Reading,
    Remark,
    Wanted,
    explain_read_errors,
    ignore_progress,
)
from translate_ddp.data.sources import NO_OPTIONS, name_and_split, read_pairs
from translate_ddp.errors import NoSuchPair, UserError
from translate_ddp.settings import Quoting, SourceOptions
from translate_ddp.spans import terms_of
from translate_ddp.text import normalize

T = TypeVar("T")
_print_once = cache(print_line)  # files are read several times


class Texts:
    """The texts of a file in its order. They are read as a stream: a file may be of any size."""

    def __init__(self, path: Path, read: Callable[[], Iterable[str | None]]) -> None:
        """Reads all texts once, to count them. Raises UserError if one cannot be read."""
        self.path, self._read = path, read
        self._count, self.missing = 0, 0  # rows, and those without a text
        for text in read():
            self._count += 1
            self.missing += text is None
        self._rest, self._position = iter(read()), 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str | None]:
        return iter(self._read())

    def part(self, rows: range) -> list[str | None]:
        """The texts of these rows. Parts in ascending order need one reading of the file.

        Raises UserError if the file has become shorter.
        """
        if rows.start < self._position:
            self._rest, self._position = iter(self._read()), 0
        skipped = rows.start - self._position
        texts = list(islice(self._rest, skipped, skipped + len(rows)))
        if len(texts) < len(rows):
            raise UserError(f"{self.path} has changed while it was read: start again.")
        self._position = rows.stop
        return texts


def read_sources(path: Path, language: str, other: str = "", quoting: Quoting = "auto") -> Texts:
    """A table's texts in the language, None where there is none, or all lines of another file.

    `other` is the language of the translations, if it is known. A file without lines has no texts.
    Raises UserError if the file cannot be read.
    """
    return _side(path, Wanted.one("src", language, other, quoting))


def read_page(path: Path) -> Texts:
    """An HTML or Markdown file as one text. Raises UserError if it cannot be read."""
    check_file(path)
    with explain_read_errors(path, "Save it in UTF-8."):
        page = path.read_bytes().decode("utf-8-sig")
    return Texts(path, lambda: [page])


def read_texts(path: Path, side: str, language: str) -> list[str]:
    """All texts of one side of a file. Raises UserError if one is missing."""
    texts = list(_side(path, Wanted.one(side, language)))
    _check_gaps([row for row, text in enumerate(texts, 1) if text is None], side, path)
    return [text or "" for text in texts]


def read_given_pairs(
    source: str, reference: str, languages: Languages, options: SourceOptions = NO_OPTIONS
) -> tuple[list[str], list[str]]:
    """Sources and references of two files, or of one source as training reads it.

    Raises UserError if they cannot be read, lack a text (in a table, also a cell), or are none.
    """
    path = spooled(Path(source))
    if reference:
        rows = parallel_rows(path, spooled(Path(reference)), languages, options.quoting)
    elif path.is_file() and not is_table(path):
        raise UserError(f"{source} has one text per line: pass their translations as --reference.")
    else:
        rows = read_pairs(source, languages, options)
    found = list(_checked(rows.numbered(ignore_progress), rows.remarks))
    if not found:
        raise UserError(f"{source} has no pairs.")
    gaps = (None, "") if not reference and Path(name_and_split(source)[0]).is_file() else (None,)
    for side, at, name in (("src", 2, source), ("tgt", 3, reference or source)):
        _check_gaps([row[1] for row in found if row[at] in gaps], side, name)
    return [src or "" for *_, src, _ in found], [tgt or "" for *_, tgt in found]


def read_glossary(name: str, languages: Languages) -> dict[str, str]:
    """The terms of a table, and their translations: the columns of the languages, or the only two.

    Raises UserError if the file is unusable.
    """
    path, sheet = _file_and_sheet(Path(name))
    try:
        if path.is_file() and not path.stat().st_size:
            return {}
        check_file(path)
        if not is_table(path):
            return terms_of("\n".join(map(str, read_sources(path, ""))))
        for named in (languages, ("", "")):  # without names, a first row `IT, IT` has terms
            rows = table_rows(path, Wanted(("src", "tgt"), named, ("", "")), sheet)
            with suppress(NoSuchPair):
                found = _checked(rows.read(ignore_progress), rows.remarks)
                pairs = ([normalize(text or "") for text in pair] for pair in found)
                return terms_of("\n".join(map("\t".join, pairs)))
        error = f"it has no columns {' and '.join(languages)}. Name two columns so."
    except UserError as caught:
        error = str(caught).removeprefix(f"{path} ")
    raise UserError(f"--glossary {name} cannot be used: {error}")


def _side(path: Path, wanted: Wanted) -> Texts:
    path, sheet = _file_and_sheet(path)
    if not path.is_file() or is_table(path):
        check_file(path)

    def read() -> Iterator[str | None]:
        reading = Reading(path, wanted, sheet=sheet)
        return _checked(chain.from_iterable(read_side(reading)), reading.notices)

    return Texts(path, read)


def _file_and_sheet(path: Path) -> tuple[Path, str]:
    """The file, and the sheet of `FILE.xlsx:SHEET`; '' for none."""
    name, sheet = name_and_split(str(path))
    if is_spreadsheet(Path(name)) and not path.exists():
        return Path(name), sheet
    return spooled(path), ""


def _checked(texts: Iterable[T], notices: list[str]) -> Iterator[T]:
    """The texts. Raises UserError at the end if there was a notice of a fault."""
    yield from texts
    if faults := [text for text in notices if not isinstance(text, Remark)]:
        raise UserError(" ".join(faults))
    for text in filter(None, notices):
        _print_once(printable(text), sys.stderr)


def _check_gaps(rows: list[int], side: str, source: str | Path) -> None:
    if rows:
        raise UserError(
            f"{source} has no text in row {rows[0]:,} ({side}), and in {len(rows):,} rows in total:"
            " remove them."
        )
