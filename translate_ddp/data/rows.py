"""Rows of text as streams, and how readers give them: what every reader is passed and returns."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, product
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from translate_ddp.data.languages import (
    SEPARATORS,
    column_names,
    folded,
    is_language,
    language_codes,
    names_other,
)
from translate_ddp.errors import UserError, first_line
from translate_ddp.text import base_language, normalize

if TYPE_CHECKING:  # settings import tyro, which worker processes do not need
    from translate_ddp.data.row_choice import RowChoice
    from translate_ddp.settings import Quoting, SourceOptions

Languages = tuple[str, str]  # source, target
Row = tuple[str | None, str | None]  # source and target as stored; None: not text
# The name of the file or sheet; the number of the row there, as a spreadsheet or an editor shows
# it; source and target.
NumberedRow = tuple[str, int, str | None, str | None]
Columns = Sequence[Sequence[str | None]]  # some rows as columns of equal length
Advance = Callable[[int], object]  # is called with increments of the work that is done
COLUMN_NAMES = {"src": (["src"], ["source"]), "tgt": (["tgt", "trg"], ["target"])}
MAX_NAMES = 20  # listed in a message
MAX_WORDS = 5  # in the name of a column
WORD_OF_HEADER = r"(?:^|[ _.:/(\[-]){}(?:$|[ _.:/)\]-])"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Remark(str):
    """A notice of how a file is read. Other notices are of faults, which commands do not accept."""


BY_POSITION = Remark()  # columns are chosen by their order, as no header names them; not shown


@dataclass(frozen=True)
class Rows:
    """The rows of one split of a source. Each reading reads them again, as a stream."""

    name: str  # in messages: the path, or the name on the hub
    size: int  # amount of work: bytes of files (compressed), or rows of tables
    batches: Callable[[Advance], Iterable[Iterable[NumberedRow]]]
    remarks: list[str]  # from the last reading, complete at its end

    def numbered(self, advance: Advance) -> Iterator[NumberedRow]:
        """The rows. Calls its argument with the increments of `size` that were read.

        Raises UserError where the source cannot be read.
        """
        return chain.from_iterable(self.batches(advance))

    def read(self, advance: Advance) -> Iterator[Row]:
        """The same rows without file and number."""
        return map(itemgetter(2, 3), self.numbered(advance))

    @property
    def notices(self) -> list[str]:
        """What users should know of the last reading."""
        return [*filter(None, self.remarks)]


def make_rows(
    name: str, size: int, read: Callable[[Advance, list[str]], Iterable[Iterable[NumberedRow]]]
) -> Rows:
    """Rows of the batches that `read` returns, which adds notices to its list."""
    notices: list[str] = []

    def batches(advance: Advance) -> Iterable[Iterable[NumberedRow]]:
        notices.clear()
        return read(advance, notices)

    return Rows(name, size, batches, notices)


def join_rows(name: str, parts: Sequence[Rows], notice: str = "") -> Rows:
    """The rows of all parts, in order. `notice` is the first of the notices, if it is not ''."""

    def batches(advance: Advance, notices: list[str]) -> Iterator[Iterator[NumberedRow]]:
        notices.append(notice)
        for part in parts:
            yield part.numbered(advance)
            notices.extend(part.remarks)

    return make_rows(name, sum(part.size for part in parts), batches)


def ignore_progress(increment: int) -> None:
    """For a reading whose progress is not shown."""


@dataclass(frozen=True)
class Wanted:
    """One or both sides of the pairs of a table."""

    sides: tuple[str, ...]  # src, tgt or both
    both: tuple[str, str]  # the languages of these sides, then of the other one, '': not known
    given: tuple[str, ...]  # the name of each column that the user gave; ''
    quoting: Quoting = "auto"
    split: str = "train"  # which rows to read from a table with a column of splits

    def __post_init__(self) -> None:
        """Raises UserError for a language's name, which no rule about languages knows."""
        for name in self.both:
            known = language_codes() if len(base_language(name)) > 3 else {}  # it takes 0.1 s
            if len(code := known.get(folded(name), "")) == 2:
                code = base_language(code)  # not iw, but he
                raise UserError(f"{name} is the name of a language: pass its code, {code}.")

    @classmethod
    def pair(cls, languages: Languages, options: SourceOptions) -> Wanted:
        given = options.src_column, options.tgt_column
        return cls(("src", "tgt"), languages, given, options.quoting, options.split)

    @classmethod
    def one(cls, side: str, language: str, other: str = "", quoting: Quoting = "auto") -> Wanted:
        return cls((side,), (language, other), ("",), quoting)

    @property
    def languages(self) -> tuple[str, ...]:
        return self.both[: len(self.sides)]

    def numbered(self, width: int) -> list[int]:
        """The places of both columns: given, or 0 and 1 of two columns; none if not known."""
        if not any(self.given):
            return [0, 1] if width == 2 else []
        found = [int(name) - 1 for name in self.given if name.isdecimal()]
        return found if len(found) == 2 and {*found} <= {*range(width)} else []

    def find(self, available: Sequence[str], in_words: bool = True) -> list[str] | None:
        """The names of the columns among the available ones; None if one is missing.

        They are the columns that the user gave, else named by language, src and tgt, or source and
        target, in any case: `EN` and `English` are also names of en. With `in_words`, so is a name
        with such a word, as `text_en`, where both sides have one.
        """
        sides = [*self.sides, *(side for side in COLUMN_NAMES if side not in self.sides)]
        choices = (
            [column_names(language) for language in self.both],
            [COLUMN_NAMES[side][0] for side in sides],
            [COLUMN_NAMES[side][1] for side in sides],
        )
        found = [
            [_first_held([own] if own else each, available) for own, each in places]
            for places in (zip(self.given, names, strict=False) for names in choices)
        ]
        if in_words and all(self.both) and not any(self.given):
            found += [
                [
                    _first_held(each, available) or _held_in_words(each, available, language)
                    for each, language in zip(names, self.both, strict=True)
                ]
                for names in choices
            ]
        complete = (each for each in found if all(each) and len({*each}) == len(each))
        return next((each[: len(self.sides)] for each in complete), None)

    def is_header(self, cells: Sequence[str]) -> bool:
        """Whether a row without the columns names languages: a wanted one, or only others."""
        codes = {
            each for language in self.languages for each in (language, base_language(language))
        }
        usual = {name for code in codes for name in column_names(code)}
        named = {cell.casefold() for cell in cells if cell in usual or is_language(cell)}
        is_wanted = any(name.casefold() in named for name in usual)
        return is_wanted or len(named) == len(cells) > 1

    @property
    def described(self) -> str:
        """`column en`, or `columns en and it`."""
        names = [a or b for a, b in zip(self.given, self.languages, strict=True)]
        return f"column{'s' * (len(names) > 1)} {' and '.join(names)}"

    @property
    def advice(self) -> str:
        if any(self.given):
            return (
                "Correct --src_column and --tgt_column. They are for all files, also for"
                " --validation and --exclude: if others are right, rename the columns of this one."
            )
        if len(self.sides) == 1:
            return f"Name the column {self.languages[0]} or {self.sides[0]}."
        return (
            "Choose languages that it has (--lang_src, --lang_tgt), or rename its columns to these,"
            " or to src and tgt, or pass --src_column and --tgt_column, which are for all files."
        )


def _first_held(names: Sequence[str], available: Sequence[str]) -> str:
    """The available name that equals the first of `names` that has one, if need be in any case."""
    any_case = {folded(name): name for name in reversed(available) if folded(name)}
    exact = (name for name in names if name in available)
    return next(exact, "") or next(filter(None, (any_case.get(folded(n)) for n in names)), "")


def _held_in_words(names: Sequence[str], available: Sequence[str], language: str) -> str:
    """The only available name that has one of `names` as a word, as in text_de; '' if none.

    Among other words, a code is in brackets or in capitals: `de` is a word of many languages.
    `language` is the one that they name, which has no part of another's name: Swiss German.
    """
    found: set[str] = set()
    for name, text in product(names, available):
        words = f"{SEPARATORS.pattern}".join(map(re.escape, SEPARATORS.split(name)))
        place = re.search(WORD_OF_HEADER.format(words), normalize(text), re.IGNORECASE)
        if place and len(text.split()) <= MAX_WORDS and not text.endswith((".", "?", "!")):
            is_marked = place[0][0] in "([" or (place[0].isupper() and not text.isupper())
            is_name = len(name) > 3 or " " not in text or is_marked
            if is_name and not names_other(text, language):
                found.add(text)
    return found.pop() if len(found) == 1 else ""


@dataclass(frozen=True)
class Reading:
    """One reading of a file: what is wanted of it, and where progress and notices go."""

    path: Path
    wanted: Wanted
    advance: Advance = ignore_progress
    notices: list[str] = field(default_factory=list)
    sheet: str = ""  # its name in a spreadsheet; '': the only one
    choices: list[RowChoice] = field(default_factory=list)  # filled when its columns are known
    # In the file, from 1, of the rows of the batch that was read last. Header, empty rows and rows
    # that are left out count, as in the program that shows the table.
    numbers: list[int] = field(default_factory=list)


Reader = Callable[[Reading], Iterator[Columns]]  # raises UserError with path and line


@contextmanager
def explain_read_errors(source: str | Path, advice: str) -> Iterator[None]:
    """Raise any exception as a UserError: the source, the first line of the first cause, `advice`.

    The libraries do not document what they raise, so all exceptions are caught.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, OSError) and cause.errno in NO_SPACE:
            raise UserError(
                f"No space to read {source} into the cache of `datasets`: {cause.strerror}. Free "
                "some, or set HF_HOME to a folder on another disk."
            ) from error
        reason = first_line(cause).rstrip(".")
        raise UserError(f"{source} cannot be read: {reason}. {advice}") from error


def list_names(names: Iterable[str]) -> str:
    """The first 20 names, separated by commas, and the number of the others."""
    names = list(names)
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return (", ".join(names[:MAX_NAMES]) or "nothing") + more
