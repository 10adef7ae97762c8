"""The verbs of `words.toml` with the objects, places and reasons that fit them."""

from dataclasses import dataclass

from tools.demo_grammar.clauses import Verb
from tools.demo_grammar.lexicon import (
    ADJECTIVES,
    WORDS,
    Entry,
    Locality,
    nouns,
    places,
    read_phrases,
    read_table,
)
from tools.demo_grammar.phrases import Adjective, Direction, Noun, Phrase, Place

HUMAN_KINDS = {"person", "acquaintance", "family"}  # asked for with `who`, not with `what`


@dataclass(frozen=True)
class Frame:
    """A verb with the objects and the places that fit it; no objects if it is intransitive."""

    verb: Verb
    objects: tuple[Noun, ...]
    places: tuple[Place | Locality, ...]


def _frame(entry: Entry) -> Frame:
    infinitive, _, preposition = entry.italian.partition(" ")
    verb = Verb(entry.english, infinitive, preposition)
    return Frame(verb, nouns(*entry.objects), places(*entry.places))


def _frames(table: str) -> tuple[Frame, ...]:
    return tuple(_frame(entry) for entry in read_table(WORDS["verbs"][table]))


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


TRANSITIVE = _frames("transitive")
INTRANSITIVE = _frames("intransitive")
GIVING = _frames("giving")
BENEFICIAL = _frames("beneficial")
ANIMAL = _frames("animal")
TRANSITIVE_ACTIONS = tuple(frame for frame in TRANSITIVE if not frame.verb.stative)
ACTIONS = (*TRANSITIVE_ACTIONS, *(frame for frame in INTRANSITIVE if not frame.verb.stative))
LOCATED = tuple(frame for frame in ACTIONS if frame.places)
WITH_HUMAN_OBJECT = _with_direct_objects(TRANSITIVE_ACTIONS, human=True)
WITH_INANIMATE_OBJECT = _with_direct_objects(TRANSITIVE_ACTIONS, human=False)

RETURN = Verb("return", "tornare")
COME = Verb("come", "venire")
CITIES_AND_COUNTRIES = places("cities", "countries")
DESTINATIONS = (*places("destinations"), *CITIES_AND_COUNTRIES)
ANYWHERE = (*DESTINATIONS, *places("home"))
JOURNEYS: tuple[tuple[Verb, Direction, tuple[Locality | Place, ...]], ...] = (
    (Verb("go", "andare"), "to", ANYWHERE),
    (RETURN, "to", ANYWHERE),
    (RETURN, "from", DESTINATIONS),
    (COME, "to", DESTINATIONS),
    (COME, "from", DESTINATIONS),
    (Verb("arrive", "arrivare"), "reaching", DESTINATIONS),
    (Verb("leave", "partire"), "from", CITIES_AND_COUNTRIES),
)
FEEL = Verb("be", "avere")  # hungry, afraid: avere fame, avere paura

# A feeling is an adjective (with essere) or an invariable phrase (with `FEEL`).
FEELINGS: dict[str, Adjective | Phrase] = {
    **{phrase.english: phrase for phrase in read_phrases(WORDS["verbs"]["feelings"])},
    **{english: ADJECTIVES[english] for english in ("tired", "happy", "sad", "sick")},
}
REASONS = tuple(
    (_frame(entry), tuple(FEELINGS[name.replace("_", " ")] for name in entry.notes))
    for entry in read_table(WORDS["verbs"]["reasons"])
)
