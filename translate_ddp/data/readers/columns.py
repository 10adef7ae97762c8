"""Which columns of a table hold the texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from translate_ddp.corpus_settings import SourceOptions
from translate_ddp.data.languages import column_names, is_language
from translate_ddp.data.read_errors import list_names
from translate_ddp.data.rows import Languages
from translate_ddp.errors import UserError

OTHER_NAMES = {"src": "source", "tgt": "target"}


@dataclass(frozen=True)
class Wanted:
    """One or both sides of the pairs of a table."""

    sides: tuple[str, ...]  # src, tgt or both
    languages: tuple[str, ...]  # of each side
    given: tuple[str, ...]  # the name of each column that the user gave; ''

    @classmethod
    def pair(cls, languages: Languages, options: SourceOptions) -> "Wanted":
        return cls(("src", "tgt"), languages, (options.src_column, options.tgt_column))

    @classmethod
    def one(cls, side: str, language: str) -> "Wanted":
        return cls((side,), (language,), ("",))

    def find(self, available: Sequence[str]) -> list[str] | None:
        """The names of the columns among the available ones; None if one is missing.

        They are those that the user gave, else named by language, src and tgt, or source and
        target. `EN` and `English` are also names of en.
        """
        usual = [column_names(language) for language in self.languages]
        for choices in (
            usual,
            [[side] for side in self.sides],
            [[OTHER_NAMES[side]] for side in self.sides],
        ):
            found = [
                _first_held([given] if given else names, available)
                for given, names in zip(self.given, choices, strict=True)
            ]
            names = [name for name in found if name is not None]
            if len(set(names)) == len(found):
                return names
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
        names = " and ".join(self.sides)
        flags = ", or pass --src_column and --tgt_column" if len(self.sides) > 1 else ""
        return (
            f"Choose languages that it has, or rename its columns to these, or to {names}{flags}."
        )


def _first_held(names: Sequence[str], available: Sequence[str]) -> str | None:
    """The available name that equals the first of `names` that has one, if need be in any case."""
    any_case = {name.casefold(): name for name in reversed(available)}
    for name in names:
        if name in available:
            return name
    return next((any_case[n.casefold()] for n in names if n.casefold() in any_case), None)
