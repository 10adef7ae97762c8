"""Directions of translation, and the codes of their languages."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from translate_ddp.text import MAX_CODE

LANGUAGE_CODE = re.compile(rf"(?!.{{{MAX_CODE + 1}}})[A-Za-z]{{2,8}}([_@-][A-Za-z0-9]{{1,8}})*")
MAX_NAMED_LANGUAGES = 12  # on a side


class LanguagePair(NamedTuple):
    """A direction of translation: the codes of its source and its target language."""

    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}-{self.tgt}"

    @property
    def reverse(self) -> "LanguagePair":
        return LanguagePair(self.tgt, self.src)

    def fill(self, name: str) -> str:
        """The name of a source with the languages in the place of {src} and {tgt}."""
        return name.replace("{src}", self.src).replace("{tgt}", self.tgt)


def languages_of(directions: Iterable[tuple[str, str]]) -> list[str]:
    """All source languages, then all other target languages, each once."""
    return list(dict.fromkeys(code for side in zip(*directions, strict=True) for code in side))


def side_name(codes: Iterable[str]) -> str:
    """The languages of one side of all directions, as de+fr; the number of many."""
    each = dict.fromkeys(codes)
    return "+".join(each) if len(each) <= MAX_NAMED_LANGUAGES else f"{len(each)}-languages"
