"""The nouns, places, names, adjectives and adverbials of words.toml, and which fit together."""

from tools.demo_grammar.agreement import Number
from tools.demo_grammar.names import CITIES, COUNTRIES, Locality, city_phrases
from tools.demo_grammar.phrases import NUMBERS, Adjective, Noun, Phrase, Place
from tools.demo_grammar.tables import Entry, entries, load

WORDS = load("words.toml")


def phrases(table: str) -> tuple[Phrase, ...]:
    """The entries of a table as phrases; one with `#` is repeated with every number."""
    return tuple(
        Phrase(entry.english.replace("#", number), entry.italian.replace("#", NUMBERS[number]))
        for entry in entries(table)
        for number in (NUMBERS if "#" in entry.english else ("two",))
    )


def _noun(entry: Entry, kind: str) -> Noun:
    """The noun of an entry, with the numbers that it occurs in."""
    italian, gender = entry.italian.rsplit(" ", 1)
    assert gender in ("m", "f"), f"The entry {entry.italian!r} has no gender."
    numbers: tuple[Number, ...] = ("singular", "plural")
    if kind in WORDS["number"]["uncountable"] or entry.english in WORDS["number"]["singular_only"]:
        numbers = ("singular",)
    elif entry.english in WORDS["number"]["plural_only"]:
        numbers = ("plural",)
    return Noun(entry.english, italian, gender, kind, numbers)


def _place(entry: Entry) -> Place:
    english_at, italian_at, italian_to, *bare = entry.notes
    return Place(_noun(entry, "place"), english_at, italian_at, italian_to, bool(bare))


def _locality(table: str) -> Locality:
    at, to, origin = phrases(table)
    return {"at": at, "to": to, "reaching": at, "from": origin}


PLACES = {entry.english: _place(entry) for entry in entries(WORDS["places"])}
LOCALITIES = {
    **{name: _locality(table) for name, table in WORDS["localities"].items()},
    **{city.english: city_phrases(city) for city in CITIES},
    **COUNTRIES,
}
NOUNS_BY_KIND = {
    **{kind: [_noun(e, kind) for e in entries(table)] for kind, table in WORDS["nouns"].items()},
    "place": [place.noun for place in PLACES.values()],
}
NOUNS = {noun.english: noun for nouns in NOUNS_BY_KIND.values() for noun in nouns}


def _expand(names: tuple[str, ...]) -> list[str]:
    return [part for name in names for part in WORDS["groups"].get(name, name).split()]


def nouns(*names: str) -> tuple[Noun, ...]:
    """The nouns of the named groups and kinds, and the nouns named themselves."""
    return tuple(
        noun for name in _expand(names) for noun in NOUNS_BY_KIND.get(name) or (NOUNS[name],)
    )


def places(*names: str) -> tuple[Place | Locality, ...]:
    """The places of the named groups, and the places named themselves."""
    return tuple(LOCALITIES.get(name) or PLACES[name] for name in _expand(names))


_NOT_COMPARED = WORDS["adjectives"]["not_compared"]
_ADJECTIVES_WITH_NOUNS: list[tuple[Adjective, tuple[Noun, ...]]] = []
for position in ("before", "after", "classifying", "predicative"):
    for entry in entries(WORDS["adjectives"][position]):
        gradable = position in ("before", "after") and entry.english not in _NOT_COMPARED
        adjective = Adjective(entry.english, entry.italian, position, gradable)
        _ADJECTIVES_WITH_NOUNS.append((adjective, nouns(*entry.objects)))
ADJECTIVES = {adjective.english: adjective for adjective, _ in _ADJECTIVES_WITH_NOUNS}
ADJECTIVES_OF = {
    noun: tuple(adjective for adjective, fitting in _ADJECTIVES_WITH_NOUNS if noun in fitting)
    for noun in NOUNS.values()
}

TRANSPORT = phrases(WORDS["adverbials"]["transport"])
MANNER = phrases(WORDS["adverbials"]["manner"])
TIMES = {tense: [phrases(table) for table in tables] for tense, tables in WORDS["times"].items()}
FREQUENCY_ADVERBS = {t: phrases(table) for t, table in WORDS["frequency_adverbs"].items()}
# A preposition of place with the nouns that may follow it.
SPOTS = [
    (Phrase(entry.english, entry.italian), nouns(*entry.objects))
    for entry in entries(WORDS["adverbials"]["spots"])
]
