"""Sentence patterns of two clauses; each docstring is an example."""

from dataclasses import replace
from random import Random

from tools.demo_grammar import frames
from tools.demo_grammar.clauses import (
    BE,
    Clause,
    Pair,
    linked,
    object_phrase,
    predicate,
    sentence,
    statement,
    with_relative_clause,
)
from tools.demo_grammar.lexicon import nouns
from tools.demo_grammar.phrases import Adjective, Nominal, Phrase, predicative, pronoun_for
from tools.demo_grammar.sampling import (
    draw_clause,
    draw_nominal,
    draw_person,
    draw_subject,
    draw_tense,
    maybe,
)

AND, BUT = Phrase("and", "e"), Phrase("but", "ma")
BECAUSE, WHEN = Phrase("because", "perché"), Phrase("when", "quando")
STRANGERS = nouns("person")
MEETING = frames.select(frames.TRANSITIVE, "know", "see", "meet", "help", "talk to", "wait for")
RELATIVE = (*frames.ACTIONS, *frames.select(frames.INTRANSITIVE, "live"))


def reason(rng: Random) -> Pair:
    """The girls drink some water because they are thirsty."""
    frame, feelings = rng.choice(frames.REASONS)
    tense = "past" if maybe(rng, 0.45) else "present"
    clause = draw_clause(rng, frame, draw_subject(rng), tense)
    conjunction = WHEN if tense == "present" and maybe(rng, 0.4) else BECAUSE
    feeling = _feeling(pronoun_for(clause.subject), rng.choice(feelings))
    cause = statement(replace(feeling, tense=tense))
    return sentence(linked(statement(clause), conjunction, cause))


def _feeling(subject: Nominal, feeling: Adjective | Phrase) -> Clause:
    if isinstance(feeling, Adjective):
        return Clause(subject, BE, "present", (predicative(feeling, subject),))
    return Clause(subject, frames.FEEL, "present", (feeling,))


def two_people(rng: Random) -> Pair:
    """My father drinks some wine and Maria cleans the window."""
    first, second = rng.sample(frames.ACTIONS, 2)
    tense = draw_tense(rng, first.verb, second.verb)
    one = draw_clause(rng, first, draw_subject(rng), tense)
    other = draw_clause(rng, second, draw_person(rng), tense)
    return sentence(linked(statement(one), AND, statement(other)))


def contrast(rng: Random) -> Pair:
    """I drink some water but Anna drinks some wine."""
    frame = rng.choice(frames.TRANSITIVE_ACTIONS)
    tense = draw_tense(rng, frame.verb)
    one = draw_clause(rng, frame, draw_subject(rng), tense)
    other = draw_clause(rng, frame, draw_person(rng), tense)
    while other.complements == one.complements:
        other = draw_clause(rng, frame, draw_person(rng), tense)
    return sentence(linked(statement(one), BUT, statement(other)))


def two_actions(rng: Random) -> Pair:
    """The boy closed the door and opened the window."""
    first, second = rng.sample(frames.ACTIONS, 2)
    subject, tense = draw_subject(rng), draw_tense(rng, first.verb, second.verb)
    one = draw_clause(rng, first, subject, tense)
    other = draw_clause(rng, second, subject, tense)
    return sentence(linked(statement(one), AND, predicate(other)))


def relative_clause(rng: Random) -> Pair:
    """I know the woman who works at the hospital."""
    relative_frame = rng.choice(RELATIVE)
    person = draw_nominal(rng, STRANGERS, "definite", described=0.0)
    relative = draw_clause(rng, relative_frame, person, draw_tense(rng, relative_frame.verb))
    frame = rng.choice(MEETING)
    met = object_phrase(frame.verb, with_relative_clause(relative))
    clause = Clause(draw_subject(rng), frame.verb, draw_tense(rng, frame.verb), (met,))
    return sentence(statement(clause))
