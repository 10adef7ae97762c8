"""The verbs of words.toml with the objects, places and reasons that fit them."""

from dataclasses import dataclass

from tools.demo_grammar.clauses import Verb
from tools.demo_grammar.lexicon import WORDS, Locality, nouns, phrases, places
from tools.demo_grammar.phrases import Noun, Place
from tools.demo_grammar.tables import Entry, entries

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
