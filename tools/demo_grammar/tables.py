"""The grammatical features of words, and the TOML files with words and irregular forms."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Gender = Literal["m", "f"]
Number = Literal["singular", "plural"]
Person = Literal[1, 2, 3]
# The last three occur in short sentences only: is eating, has eaten, is going to eat.
Tense = Literal["present", "past", "future", "progressive", "perfect", "intention"]


@dataclass(frozen=True)
class Agreement:
    """Number, person and Italian gender of a noun phrase; English uses number and person only."""

    gender: Gender
    number: Number
    person: Person = 3

    @property
    def slot(self) -> int:
        """Index in a conjugation table: 0 to 5 for I, you, he, we, you all, they."""
        return self.person - 1 + (3 if self.number == "plural" else 0)


_ENTRY = re.compile(r"([^=]+)=([^:>@]+)(?::([^>@]+))?(?:>([^@]+))?(?:@(.+))?")


@dataclass(frozen=True)
class Entry:
    """One entry of a table: `english = italian : notes > objects @ places`."""

    english: str  # `_` stands for a space
    italian: str
    notes: tuple[str, ...]
    objects: tuple[str, ...]
    places: tuple[str, ...]


def load(name: str) -> dict[str, Any]:
    """The content of a TOML file of this folder."""
    return tomllib.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def entries(table: str) -> list[Entry]:
    """The entries of a table, which are separated by commas or line breaks."""
    read: list[Entry] = []
    for text in filter(str.strip, re.split(r"[,\n]", table)):
        match = _ENTRY.fullmatch(text)
        assert match, f"{text!r} does not have the form of an entry (see `Entry`)."
        english, italian, *lists = ((part or "").strip() for part in match.groups())
        read.append(Entry(english.replace("_", " "), italian, *(tuple(e.split()) for e in lists)))
    return read


def variants(table: str) -> list[tuple[list[str], str]]:
    """The lines of a table `english | english = italian`: English variants and the Italian."""
    read: list[tuple[list[str], str]] = []
    for line in filter(str.strip, table.splitlines()):
        in_english, _, in_italian = line.partition("=")
        read.append(([text.strip() for text in in_english.split("|")], in_italian.strip()))
    return read
