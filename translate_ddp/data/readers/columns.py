"""Which columns of a table hold the texts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from translate_ddp.data.languages import column_names, is_language
from translate_ddp.data.read_errors import list_names
from translate_ddp.data.rows import Languages
from translate_ddp.errors import UserError
from translate_ddp.settings import Quoting, SourceOptions

OTHER_NAMES = {"src": "source", "tgt": "target"}
MAX_WORDS = 5  # of the name of a column
WORD = r"(?:^|[ _.:/(\[-]){}(?:$|[ _.:/)\]-])"


@dataclass(frozen=True)
class Wanted:
    """One or both sides of the pairs of a table."""

    sides: tuple[str, ...]  # src, tgt or both
    both: tuple[str, str]  # the languages of these sides, then of the other one, '': not known
    given: tuple[str, ...]  # the name of each column that the user gave; ''
    quoting: Quoting = "auto"

    @classmethod
    def pair(cls, languages: Languages, options: SourceOptions) -> "Wanted":
        given = options.src_column, options.tgt_column
        return cls(("src", "tgt"), languages, given, options.quoting)

    @classmethod
    def one(cls, side: str, language: str, other: str = "", quoting: Quoting = "auto") -> "Wanted":
        return cls((side,), (language, other), ("",), quoting)

    @property
    def languages(self) -> tuple[str, ...]:
        return self.both[: len(self.sides)]

    def numbered(self, width: int) -> list[int]:
        """The places of both columns: given numbers, or those of two columns; none if not known."""
        if not any(self.given):
            return [0, 1] if width == 2 else []
        found = [int(name) - 1 for name in self.given if name.isdecimal()]
        return found if len(found) == 2 and {*found} <= {*range(width)} else []

    def find(self, available: Sequence[str], in_words: bool = True) -> list[str] | None:
        """The names of the columns among the available ones; None if one is missing.

        They are those that the user gave, else named by language, src and tgt, or source and
        target. `EN` and `English` are also names of en, and with `in_words` so is `English text`,
        where the other side is named, too.
        """
        sides = [*self.sides, *(side for side in OTHER_NAMES if side not in self.sides)]
        usual = [column_names(language) for language in self.both]
        choices = (usual, [[side] for side in sides], [[OTHER_NAMES[side]] for side in sides])
        for names in choices:
            found = [
                _first_held([given] if given else each, available)
                for given, each in zip(self.given, names, strict=False)
            ]
            if len({*found} - {None}) == len(self.sides):
                return [name for name in found if name]
        for names in choices if in_words and all(self.both) and not any(self.given) else ():
            found = [
                _first_held(each, available) or _held_in_words(each, available) for each in names
            ]
            if len({*found} - {None}) == len(names):
                return [name for name in found if name][: len(self.sides)]
        return None

    def is_header(self, cells: Sequence[str]) -> bool:
        """Whether a row without the columns names languages: a wanted one, or only others."""
        usual = {name for language in self.languages for name in column_names(language)}
        named = {cell.casefold() for cell in cells if cell in usual or is_language(cell)}
        is_wanted = any(name.casefold() in named for name in usual)
        return is_wanted or len(named) == len(cells) > 1

    def require(self, available: Sequence[str], source: str | Path) -> list[str]:
        """The names of the columns. Raises UserError if one is missing."""
        if (names := self.find(available)) is not None:
            return names
        raise UserError(
            f"{source} has no {self.described}, but {list_names(available)}. {self.advice}"
        )

    @property
    def described(self) -> str:
        """`column en`, or `columns en and it`."""
        names = [a or b for a, b in zip(self.given, self.languages, strict=True)]
        return f"column{'s' * (len(names) > 1)} {' and '.join(names)}"

    @property
    def advice(self) -> str:
        if any(self.given):
            return "Correct --src_column and --tgt_column."
        if len(self.sides) == 1:
            return f"Name the column {self.languages[0]} or {self.sides[0]}."
        return (
            "Choose languages that it has, or rename its columns to these, or to src and tgt, or"
            " pass --src_column and --tgt_column."
        )


def _first_held(names: Sequence[str], available: Sequence[str]) -> str | None:
    """The available name that equals the first of `names` that has one, if need be in any case."""
    any_case = {name.casefold(): name for name in reversed(available)}
    for name in names:
        if name in available:
            return name
    return next((any_case[n.casefold()] for n in names if n.casefold() in any_case), None)


def _held_in_words(names: Sequence[str], available: Sequence[str]) -> str | None:
    """The only available name that has one of `names` as a word, as in text_de.

    Among other words, a code is in brackets or in capitals: `de` is a word of many languages.
    """
    found: set[str] = set()
    for name, text in product(names, available):
        place = re.search(WORD.format(re.escape(name)), text, re.IGNORECASE)
        if place and len(text.split()) <= MAX_WORDS and not text.endswith((".", "?", "!")):
            is_marked = place[0][0] in "([" or (place[0].isupper() and not text.isupper())
            if len(name) > 3 or " " not in text or is_marked:
                found.add(text)
    return found.pop() if len(found) == 1 else None
