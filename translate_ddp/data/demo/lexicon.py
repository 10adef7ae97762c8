"""The tables of `words` as typed values, and which of them fit together; it builds no sentence."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from translate_ddp.data.demo import words
from translate_ddp.data.demo.agreement import Agreement, Gender, Tense
from translate_ddp.data.demo.grammar import (
    NUMBERS,
    Adjective,
    Nominal,
    Noun,
    Phrase,
    Place,
    Verb,
    noun_phrase,
    prepositional,
)
from translate_ddp.data.demo.italian import inflect


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
    """A place with a name of its own, complete in each direction."""

    at: Phrase
    to: Phrase
    origin: Phrase


@dataclass(frozen=True)
class Frame:
    """A verb with the objects and the places that make sense with it; none where it takes none."""

    verb: Verb
    objects: tuple[Noun, ...]
    places: tuple[Place | Locality, ...]


@dataclass(frozen=True)
class Spot:
    """A preposition of place with the nouns that may follow it."""

    english: str
    italian: str
    nouns: tuple[Noun, ...]


@dataclass(frozen=True)
class Fitting:
    """The adjectives that suit a noun, by where they stand."""

    before: tuple[Adjective, ...]
    after: tuple[Adjective, ...]
    of_sort: tuple[Adjective, ...]  # after the noun too, and free to join one in front

    @cached_property
    def all(self) -> tuple[Adjective, ...]:
        return (*self.before, *self.after, *self.of_sort)

    @cached_property
    def gradable(self) -> tuple[Adjective, ...]:
        """Those one compares with `more` or -er."""
        adjectives = (*self.before, *self.after)
        return tuple(a for a in adjectives if a.english not in words.NOT_COMPARED)


ENTRY = re.compile(r"([^=]+)=([^:>@]+)(?::([^>@]+))?(?:>([^@]+))?(?:@(.+))?")


def read_table(table: str) -> list[Entry]:
    """The entries of a table of `words`."""
    entries: list[Entry] = []
    for text in re.split(r"[,\n]", table):
        if not text.strip():
            continue
        match = ENTRY.fullmatch(text)
        assert match, f"Not an entry: {text}"
        english, italian, notes, objects, places = ((part or "").strip() for part in match.groups())
        entries.append(
            Entry(
                english,
                italian,
                tuple(notes.split()),
                tuple(objects.split()),
                tuple(places.split()),
            )
        )
    return entries


def _phrases(table: str) -> tuple[Phrase, ...]:
    return tuple(Phrase(e.english.replace("_", " "), e.italian) for e in read_table(table))


# Nouns and places --------------------------------------------------------------------------------


def _noun(entry: Entry, kind: str) -> Noun:
    italian, gender = entry.italian.rsplit(" ", 1)
    assert gender in ("m", "f"), f"{entry.italian} wants a gender."
    if kind in words.UNCOUNTABLE or entry.english in words.UNIQUE:
        return Noun(entry.english, italian, gender, kind, ("singular",))
    if entry.english in words.IN_PAIRS:
        return Noun(entry.english, italian, gender, kind, ("plural",))
    return Noun(entry.english, italian, gender, kind)


def _place(entry: Entry) -> Place:
    english_at, italian_at, italian_to, *bare = entry.notes
    return Place(_noun(entry, "place"), english_at, italian_at, italian_to, bool(bare))


def _city(entry: Entry) -> Locality:
    city = Nominal(entry.english, entry.italian, Agreement("f", "singular"))
    return Locality(
        prepositional("in", "a", city),
        prepositional("to", "a", city),
        prepositional("from", "da", city),
    )


def _country(entry: Entry) -> Locality:
    with_article = Nominal(entry.english, entry.italian, Agreement("f", "singular"))
    name = re.sub("^(la |l')", "", entry.italian)  # in Italia, but dall'Italia
    return Locality(
        Phrase(f"in {entry.english}", f"in {name}"),
        Phrase(f"to {entry.english}", f"in {name}"),
        prepositional("from", "da", with_article),
    )


PLACES = {entry.english: _place(entry) for entry in read_table(words.PLACES)}
CITIES = {entry.english: _city(entry) for entry in read_table(words.CITIES)}
COUNTRIES = {entry.english: _country(entry) for entry in read_table(words.COUNTRIES)}
LOCALITIES = {
    **CITIES,
    **COUNTRIES,
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
        kind: tuple(_noun(entry, kind) for entry in read_table(table))
        for kind, table in words.NOUNS.items()
    },
    "place": tuple(place.noun for place in PLACES.values()),
}
NOUNS = {noun.english: noun for nouns in NOUNS_BY_KIND.values() for noun in nouns}


def _expand(names: Iterable[str]) -> list[str]:
    return [part for name in names for part in words.GROUPS.get(name, name).split()]


def nouns(*names: str) -> tuple[Noun, ...]:
    """All nouns meant by names of groups, of kinds or of single nouns."""
    return tuple(
        noun for name in _expand(names) for noun in NOUNS_BY_KIND.get(name) or (NOUNS[name],)
    )


def places(*names: str) -> tuple[Place | Locality, ...]:
    """All places meant by names of groups or of single places."""
    return tuple(LOCALITIES.get(name) or PLACES[name] for name in _expand(names))


# Adjectives --------------------------------------------------------------------------------------


def _adjectives_by_noun(table: str, before: bool) -> dict[Noun, tuple[Adjective, ...]]:
    fitting: dict[Noun, tuple[Adjective, ...]] = {}
    for entry in read_table(table):
        for noun in nouns(*entry.objects):
            adjective = Adjective(entry.english, entry.italian, before)
            fitting[noun] = (*fitting.get(noun, ()), adjective)
    return fitting


_BEFORE = _adjectives_by_noun(words.ADJECTIVES_BEFORE, before=True)
_AFTER = _adjectives_by_noun(words.ADJECTIVES_AFTER, before=False)
_OF_SORT = _adjectives_by_noun(words.ADJECTIVES_OF_SORT, before=False)
FITTING = {
    noun: Fitting(_BEFORE.get(noun, ()), _AFTER.get(noun, ()), _OF_SORT.get(noun, ()))
    for noun in NOUNS.values()
}
ADJECTIVES = {
    adjective.english: adjective for fitting in FITTING.values() for adjective in fitting.all
}

# Verbs -------------------------------------------------------------------------------------------


def _frame(entry: Entry) -> Frame:
    infinitive, _, preposition = entry.italian.partition(" ")
    verb = Verb(entry.english, infinitive, preposition)
    return Frame(verb, nouns(*entry.objects), places(*entry.places))


def _frames(table: str) -> tuple[Frame, ...]:
    return tuple(_frame(entry) for entry in read_table(table))


TRANSITIVE = _frames(words.TRANSITIVE)
INTRANSITIVE = _frames(words.INTRANSITIVE)
GIVING = _frames(words.GIVING)
FAVOURS = _frames(words.FAVOURS)
ANIMAL = _frames(words.ANIMAL)
GO = Verb("go", "andare")
COME = Verb("come", "venire")
RETURN = Verb("return", "tornare")
ARRIVE = Verb("arrive", "arrivare")
LEAVE = Verb("leave", "partire")
HAVE = Verb("have", "avere")
PUT = Verb("put", "mettere")
CAN = Verb("can", "potere")
MUST = Verb("must", "dovere")
WANT = Verb("want", "volere")
BE_THERE = Verb("be", "esserci")
FEEL = Verb("be", "avere")  # hungry, afraid: avere fame, avere paura

# A feeling is an adjective (with essere) or a phrase that stays as it is (with `FEEL`).
FEELINGS: dict[str, Adjective | Phrase] = {
    **{phrase.english: phrase for phrase in _phrases(words.FEELINGS)},
    **{english: ADJECTIVES[english] for english in ("tired", "happy", "sad", "sick")},
}
REASONS = tuple(
    (_frame(entry), tuple(FEELINGS[name.replace("_", " ")] for name in entry.notes))
    for entry in read_table(words.REASONS)
)

# Spots, times and adverbs ------------------------------------------------------------------------

SPOTS = tuple(
    Spot(entry.english, entry.italian, nouns(*entry.objects)) for entry in read_table(words.SPOTS)
)
TRANSPORT = _phrases(words.TRANSPORT)
MANNER = _phrases(words.MANNER)


def _day_times() -> dict[Tense, tuple[Phrase, ...]]:
    """Every Monday, last Monday, next Monday, and so on through the week."""
    days = [_noun(entry, "day") for entry in read_table(words.DAYS)]

    def named(day: Noun, which: str) -> str:
        return f"{day.italian} {inflect(which, Agreement(day.gender, 'singular'))}"

    return {
        "present": tuple(Phrase(f"every {d.english}", f"ogni {d.italian}") for d in days),
        "past": tuple(Phrase(f"last {d.english}", named(d, "scorso")) for d in days),
        "future": tuple(Phrase(f"next {d.english}", named(d, "prossimo")) for d in days),
    }


def _counted_times() -> dict[Tense, tuple[Phrase, ...]]:
    """At three o'clock, three days ago, in three days."""

    def spans(tense: Literal["past", "future"]) -> list[Nominal]:
        units = [_noun(entry, "span") for entry in read_table(words.SPANS[tense])]
        return [noun_phrase(unit, number, "plural") for unit in units for number in NUMBERS]

    return {
        "present": tuple(Phrase(f"at {n} o'clock", f"alle {NUMBERS[n]}") for n in NUMBERS),
        "past": tuple(Phrase(f"{s.english} ago", f"{s.italian} fa") for s in spans("past")),
        "future": tuple(Phrase(f"in {s.english}", f"fra {s.italian}") for s in spans("future")),
    }


_TENSES: tuple[Tense, ...] = ("present", "past", "future")
_DAY_TIMES, _COUNTED_TIMES = _day_times(), _counted_times()
# No time expression serves two tenses, so it tells "I read" of today from "I read" of yesterday.
TIMES = {
    tense: (_phrases(words.TIMES[tense]), _DAY_TIMES[tense], _COUNTED_TIMES[tense])
    for tense in _TENSES
}
ADVERBS = {tense: _phrases(words.ADVERBS[tense]) for tense in _TENSES}


def _name(name: str, gender: Gender) -> Nominal:
    return Nominal(name, name, Agreement(gender, "singular"))


NAMES = tuple(_name(name, "f") for name in words.WOMEN) + tuple(_name(n, "m") for n in words.MEN)
