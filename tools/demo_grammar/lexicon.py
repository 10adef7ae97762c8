"""The nouns, places, names and adjectives of `words.toml`, and which of them fit together."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.demo_grammar.agreement import Agreement, Gender
from tools.demo_grammar.phrases import Adjective, Nominal, Noun, Phrase, Place, prepositional

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
ENTRY = re.compile(r"([^=]+)=([^:>@]+)(?::([^>@]+))?(?:>([^@]+))?(?:@(.+))?")


@dataclass(frozen=True)
class Entry:
    """One entry of a table: `english = italian : notes > objects @ places`."""

    english: str
    italian: str
    notes: tuple[str, ...]
    objects: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True)
class Locality:
    """A place with a fixed phrase for each direction."""

    at: Phrase
    to: Phrase
    origin: Phrase


@dataclass(frozen=True)
class AdjectiveSet:
    """The adjectives that fit a noun, by their position in Italian."""

    before: tuple[Adjective, ...]
    after: tuple[Adjective, ...]
    classifying: tuple[Adjective, ...]  # after the noun; may be combined with one before it

    @cached_property
    def all(self) -> tuple[Adjective, ...]:
        return (*self.before, *self.after, *self.classifying)

    @cached_property
    def gradable(self) -> tuple[Adjective, ...]:
        """Those that have a comparative."""
        not_compared = WORDS["adjectives"]["not_compared"]
        return tuple(a for a in (*self.before, *self.after) if a.english not in not_compared)


def read_table(table: str) -> list[Entry]:
    """The entries of a table of `words.toml`."""
    entries: list[Entry] = []
    for text in re.split(r"[,\n]", table):
        if not text.strip():
            continue
        match = ENTRY.fullmatch(text)
        assert match, f"{text!r} does not have the form of an entry (see `Entry`)."
        english, italian, *lists = ((part or "").strip() for part in match.groups())
        entries.append(Entry(english, italian, *(tuple(names.split()) for names in lists)))
    return entries


def read_phrases(table: str) -> tuple[Phrase, ...]:
    """The entries as phrases; `_` stands for a blank in English."""
    return tuple(Phrase(e.english.replace("_", " "), e.italian) for e in read_table(table))


def read_noun(entry: Entry, kind: str) -> Noun:
    """The noun of an entry, with the numbers that it occurs in."""
    italian, gender = entry.italian.rsplit(" ", 1)
    assert gender in ("m", "f"), f"The entry {entry.italian!r} has no gender."
    number = WORDS["number"]
    if kind in number["uncountable"] or entry.english in number["singular_only"]:
        return Noun(entry.english, italian, gender, kind, ("singular",))
    if entry.english in number["plural_only"]:
        return Noun(entry.english, italian, gender, kind, ("plural",))
    return Noun(entry.english, italian, gender, kind)


def _place(entry: Entry) -> Place:
    english_at, italian_at, italian_to, *bare = entry.notes
    return Place(read_noun(entry, "place"), english_at, italian_at, italian_to, bool(bare))


def _city(entry: Entry) -> Locality:
    city = _name(entry.english, "f", entry.italian)
    return Locality(
        prepositional("in", "a", city),
        prepositional("to", "a", city),
        prepositional("from", "da", city),
    )


def _country(entry: Entry) -> Locality:
    name = re.sub("^(la |l')", "", entry.italian)  # in Italia, but dall'Italia
    return Locality(
        Phrase(f"in {entry.english}", f"in {name}"),
        Phrase(f"to {entry.english}", f"in {name}"),
        prepositional("from", "da", _name(entry.english, "f", entry.italian)),
    )


def _name(english: str, gender: Gender, italian: str = "") -> Nominal:
    return Nominal(english, italian or english, Agreement(gender, "singular"))


NAMES = (
    *(_name(name, "f") for name in WORDS["names"]["female"]),
    *(_name(name, "m") for name in WORDS["names"]["male"]),
)
PLACES = {entry.english: _place(entry) for entry in read_table(WORDS["places"]["common"])}
LOCALITIES = {
    **{entry.english: _city(entry) for entry in read_table(WORDS["places"]["cities"])},
    **{entry.english: _country(entry) for entry in read_table(WORDS["places"]["countries"])},
    "home": Locality(
        Phrase("at home", "a casa"), Phrase("home", "a casa"), Phrase("from home", "da casa")
    ),
    "school": Locality(
        Phrase("at school", "a scuola"),
        Phrase("to school", "a scuola"),
        Phrase("from school", "da scuola"),
    ),
}
NOUNS_BY_KIND = {
    **{
        kind: tuple(read_noun(entry, kind) for entry in read_table(table))
        for kind, table in WORDS["nouns"].items()
    },
    "place": tuple(place.noun for place in PLACES.values()),
}
NOUNS = {noun.english: noun for nouns in NOUNS_BY_KIND.values() for noun in nouns}


def _expand(names: Iterable[str]) -> list[str]:
    return [part for name in names for part in WORDS["groups"].get(name, name).split()]


def nouns(*names: str) -> tuple[Noun, ...]:
    """The nouns of the named groups and kinds, and the nouns named themselves."""
    return tuple(
        noun for name in _expand(names) for noun in NOUNS_BY_KIND.get(name) or (NOUNS[name],)
    )


def places(*names: str) -> tuple[Place | Locality, ...]:
    """The places of the named groups, and the places named themselves."""
    return tuple(LOCALITIES.get(name) or PLACES[name] for name in _expand(names))


def _adjectives_by_noun(position: str) -> dict[Noun, tuple[Adjective, ...]]:
    by_noun: dict[Noun, tuple[Adjective, ...]] = {}
    for entry in read_table(WORDS["adjectives"][position]):
        for noun in nouns(*entry.objects):
            adjective = Adjective(entry.english, entry.italian, before=position == "before")
            by_noun[noun] = (*by_noun.get(noun, ()), adjective)
    return by_noun


_BY_POSITION = [_adjectives_by_noun(name) for name in ("before", "after", "classifying")]
ADJECTIVES_OF = {
    noun: AdjectiveSet(*(by_noun.get(noun, ()) for by_noun in _BY_POSITION))
    for noun in NOUNS.values()
}
ADJECTIVES = {
    adjective.english: adjective
    for adjectives in ADJECTIVES_OF.values()
    for adjective in adjectives.all
}
