"""The nouns, places, names, adjectives, adverbials and verbs of words.toml, and which fit."""

from dataclasses import dataclass
from random import Random

from tools.demo_grammar import italian
from tools.demo_grammar.phrases import NUMBERS, Adjective, Nominal, Noun, Phrase, Place, Verb
from tools.demo_grammar.tables import Agreement, Entry, Gender, Number, entries, load

_TABLE = load("names.toml")
_PARTS = {name: parts.split() for name, parts in _TABLE["invented"].items()}
# Forms with an article, such as della and nello.
_ARTICLES = set(" ".join(italian.FORMS["contractions"].values()).split())
Locality = dict[str, Phrase]  # a place with a fixed phrase for each direction

_GENDERS: tuple[Gender, Gender] = ("f", "m")
NAMES = tuple(
    Nominal(name, name, Agreement(gender, "singular"))
    for gender in _GENDERS
    for name in _TABLE["persons"][gender].split()
)
CITIES = (
    *(Phrase(entry.english, entry.italian) for entry in entries(_TABLE["cities"]["translated"])),
    *(Phrase(name, name) for name in _TABLE["cities"]["same"].split()),
)


def _locality(name: str, italian_at: str, italian_from: str) -> Locality:
    """A place with the prepositions of each direction: "in Spain", "dalla Spagna"."""
    at, to = Phrase(f"in {name}", italian_at), Phrase(f"to {name}", italian_at)
    return {"at": at, "to": to, "reaching": at, "from": Phrase(f"from {name}", italian_from)}


def city_phrases(city: Phrase) -> Locality:
    in_italian = (italian.contract(preposition, city.italian) for preposition in ("a", "da"))
    return _locality(city.english, *in_italian)


def country_phrases(entry: Entry) -> Locality:
    name, gender = entry.italian.split()
    assert gender in _GENDERS, f"The entry {entry.italian!r} has no gender."
    definite = italian.prepend("the", name, Agreement(gender, "singular"))
    return _locality(entry.english, f"in {name}", italian.contract("da", definite))


COUNTRIES = {
    entry.english: country_phrases(entry) for entry in entries(_TABLE["countries"]["names"])
}


def invented(draw: Random, ends: str) -> str:
    """An invented name that is no article; `ends` is `person_ends` or `city_ends`."""
    syllables = [draw.choice(_PARTS["starts"]), draw.choice(_PARTS["vowels"])]
    if draw.random() < 0.3:
        syllables += [draw.choice(_PARTS["middles"]), draw.choice(_PARTS["vowels"])]
    name = "".join(syllables) + draw.choice(_PARTS["middles"]) + draw.choice(_PARTS[ends])
    return invented(draw, ends) if name in _ARTICLES else name.capitalize()


def invented_person(draw: Random, known_gender: bool) -> Nominal:
    """An invented person; with `known_gender` the name ends in a (a woman) or o (a man)."""
    name = invented(draw, "person_ends")
    while known_gender and name[-1] not in "ao":
        name = invented(draw, "person_ends")
    return Nominal(name, name, Agreement("f" if name[-1] == "a" else "m", "singular"))


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


def _fixed(table: str) -> Locality:
    at, to, origin = phrases(table)
    return {"at": at, "to": to, "reaching": at, "from": origin}


PLACES = {entry.english: _place(entry) for entry in entries(WORDS["places"])}
LOCALITIES = {
    **{name: _fixed(table) for name, table in WORDS["localities"].items()},
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

HUMAN_KINDS = {
    "person",
    "acquaintance",
    "family",
    "spouse",
}  # asked for with `who`, not with `what`


@dataclass(frozen=True)
class Frame:
    """A verb with the objects and the places that fit it; no objects if it is intransitive."""

    verb: Verb
    objects: tuple[Noun, ...]
    places: tuple[Place | Locality, ...]
    notes: tuple[str, ...]  # the direction of a journey, or the reasons of an action


def _frame(entry: Entry) -> Frame:
    infinitive, _, preposition = entry.italian.partition(" ")
    verb = Verb(entry.english, infinitive, preposition)
    notes = tuple(note.replace("_", " ") for note in entry.notes)
    return Frame(verb, nouns(*entry.objects), places(*entry.places), notes)


def select(frames: tuple[Frame, ...], *verbs: str) -> tuple[Frame, ...]:
    """The frames of the given English verbs."""
    return tuple(frame for frame in frames if frame.verb.english in verbs)


def _with_direct_objects(frames: tuple[Frame, ...], human: bool) -> tuple[Frame, ...]:
    """The frames whose objects are all human, or all not, and take no preposition."""
    return tuple(
        frame
        for frame in frames
        if not frame.verb.preposition
        and all((noun.kind in HUMAN_KINDS) == human for noun in frame.objects)
    )


_FRAMES = {
    name: tuple(_frame(entry) for entry in entries(table)) for name, table in WORDS["verbs"].items()
}
TRANSITIVE, INTRANSITIVE = _FRAMES["transitive"], _FRAMES["intransitive"]
GIVING, BENEFICIAL, ANIMAL = _FRAMES["giving"], _FRAMES["beneficial"], _FRAMES["animal"]
JOURNEYS, REASONS = _FRAMES["journeys"], _FRAMES["reasons"]
TRANSITIVE_ACTIONS = tuple(frame for frame in TRANSITIVE if not frame.verb.stative)
ACTIONS = (*TRANSITIVE_ACTIONS, *(frame for frame in INTRANSITIVE if not frame.verb.stative))
_NOT_PROGRESSIVE = {"see", "understand", "wear", "stay"}
PROGRESSIVE = tuple(frame for frame in ACTIONS if frame.verb.english not in _NOT_PROGRESSIVE)
LOCATED = tuple(frame for frame in ACTIONS if frame.places)
WITH_HUMAN_OBJECT = _with_direct_objects(TRANSITIVE_ACTIONS, human=True)
WITH_INANIMATE_OBJECT = _with_direct_objects(TRANSITIVE_ACTIONS, human=False)
ANYWHERE = places("destinations", "cities", "countries", "home")
FEEL = Verb("be", "avere")  # hungry, afraid: avere fame, avere paura
FEELINGS = {phrase.english: phrase for phrase in phrases(WORDS["feelings"]["with_avere"])}
