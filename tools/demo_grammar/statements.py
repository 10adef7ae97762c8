"""Sentence patterns of one clause, mostly statements; each docstring is an example."""

from dataclasses import replace
from random import Random

from tools.demo_grammar import adverbials, frames
from tools.demo_grammar.clauses import (
    BE,
    Clause,
    Pair,
    Verb,
    infinitive,
    object_phrase,
    question,
    sentence,
    statement,
)
from tools.demo_grammar.lexicon import ADJECTIVES_OF, NAMES, NOUNS, nouns
from tools.demo_grammar.phrases import (
    Nominal,
    Noun,
    Phrase,
    compared,
    conjoined,
    predicative,
    prepositional,
)
from tools.demo_grammar.sampling import (
    POSSESSIONS,
    draw_any_tense,
    draw_clause,
    draw_company,
    draw_indefinite,
    draw_journey,
    draw_location,
    draw_nominal,
    draw_object,
    draw_person,
    draw_place,
    draw_possessive,
    draw_spot,
    draw_statement,
    draw_subject,
    draw_tense,
    draw_time,
    draw_travel_adverbial,
    maybe,
    negate,
)

HAVE = Verb("have", "avere")
PUT = Verb("put", "mettere")
CAN = Verb("can", "potere")
MUST = Verb("must", "dovere")
WANT = Verb("want", "volere")
THERE_IS = Verb("be", "esserci")
HANDLING = frames.select(frames.TRANSITIVE, "look for", "find", "lose", "take", "forget")

ANIMALS = nouns("animals")
SMALL_THINGS = nouns("things", "book", "letter", "press", "clothing")
DESCRIBED = tuple(
    noun
    for noun, adjectives in ADJECTIVES_OF.items()
    if adjectives.all and noun.kind not in ("family", "sight")
)
COMPARABLE = tuple(
    nouns(*kinds.split())
    for kinds in ("people", "animals", "vehicle", "text press", "luggage", "furniture", "clothing")
)


def _with_complement(clause: Clause, complement: Phrase) -> Clause:
    return replace(clause, complements=(*clause.complements, complement))


def transitive_action(rng: Random) -> Pair:
    """The old doctor did not read the letter in the garden yesterday."""
    frame = rng.choice(frames.TRANSITIVE)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_any_tense(rng), negated=0.2)
    return sentence(draw_statement(rng, clause))


def intransitive_action(rng: Random) -> Pair:
    """My sister walks slowly in the park with her son."""
    frame = rng.choice(frames.INTRANSITIVE)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_any_tense(rng), negated=0.2)
    if frame.verb.english in ("work", "walk", "dance", "swim", "run") and maybe(rng, 0.4):
        manner = rng.choice(adverbials.MANNER)
        clause = replace(clause, complements=(manner, *clause.complements))
    if maybe(rng, 0.25):
        clause = _with_complement(clause, draw_company(rng))
    return sentence(draw_statement(rng, clause))


def journey(rng: Random) -> Pair:
    """They returned from the sea by train last Sunday."""
    clause = draw_journey(rng)
    if maybe(rng, 0.35):
        clause = _with_complement(clause, draw_travel_adverbial(rng))
    return sentence(draw_statement(rng, negate(rng, clause) if maybe(rng, 0.15) else clause))


def giving(rng: Random) -> Pair:
    """We will show the new bicycle to Marco."""
    if maybe(rng, 0.6):
        frame, receiver = rng.choice(frames.GIVING), prepositional("to", "a", draw_person(rng))
    else:
        frame = rng.choice(frames.BENEFICIAL)
        receiver = prepositional("for", "per", draw_person(rng))
    clause = draw_clause(rng, frame, draw_subject(rng), draw_any_tense(rng), negated=0.15)
    return sentence(draw_statement(rng, _with_complement(clause, receiver)))


def possessive_object(rng: Random) -> Pair:
    """Luca found my sister's green umbrella."""
    frame, noun = rng.choice(HANDLING), rng.choice(POSSESSIONS)
    thing = object_phrase(frame.verb, draw_possessive(rng, noun))
    clause = Clause(draw_subject(rng), frame.verb, draw_any_tense(rng), (thing,))
    return sentence(draw_statement(rng, negate(rng, clause) if maybe(rng, 0.2) else clause))


def putting(rng: Random) -> Pair:
    """My grandmother put the letter in the drawer yesterday."""
    thing = draw_nominal(rng, SMALL_THINGS, "any")
    clause = Clause(draw_subject(rng), PUT, draw_any_tense(rng), (thing, draw_spot(rng)))
    return sentence(draw_time(rng, statement(clause), clause, probability=0.2))


def animal_action(rng: Random) -> Pair:
    """Some white cats slept in the garden last week."""
    subject = draw_nominal(rng, ANIMALS, "any", described=0.4)
    clause = draw_clause(rng, rng.choice(frames.ANIMAL), subject, draw_any_tense(rng))
    return sentence(draw_statement(rng, clause))


def modal(rng: Random) -> Pair:
    """The children want to eat an orange in the kitchen."""
    modal_verb = rng.choice((CAN, MUST, WANT))
    frame, negative = rng.choice(frames.ACTIONS), maybe(rng, 0.25)
    complements = (
        infinitive(frame.verb, to=modal_verb == WANT),
        *draw_object(rng, frame, "negatable"),
        *draw_location(rng, frame, 0.5),
    )
    clause = Clause(draw_subject(rng), modal_verb, "present", complements, negative)
    return _statement_or_question(rng, clause, 0.25)


def having(rng: Random) -> Pair:
    """My uncle has two dogs and a black horse."""
    first, second = rng.sample(POSSESSIONS, 2)
    owned, negative = draw_indefinite(rng, first), maybe(rng, 0.2)
    if not negative and maybe(rng, 0.5):
        owned = conjoined(owned, draw_indefinite(rng, second))
    clause = Clause(draw_subject(rng), HAVE, draw_tense(rng), (owned,), negative)
    return sentence(statement(clause))


def quality(rng: Random) -> Pair:
    """Anna's old bicycle was not expensive."""
    noun = rng.choice(DESCRIBED)
    if noun in POSSESSIONS and maybe(rng, 0.4):
        subject = draw_possessive(rng, noun)
    elif noun.kind == "person" and maybe(rng, 0.6):
        subject, noun = draw_subject(rng), NOUNS["cook"]  # its adjectives fit every person
    else:
        subject = draw_nominal(rng, (noun,), "definite", described=0.0)
    complement = predicative(rng.choice(ADJECTIVES_OF[noun].all), subject)
    clause = Clause(subject, BE, draw_tense(rng), (complement,), maybe(rng, 0.2))
    return _statement_or_question(rng, clause, 0.2)


def comparison(rng: Random) -> Pair:
    """This letter is more interesting than my book."""
    first, second = rng.sample(rng.choice(COMPARABLE), 2)
    shared = [
        adjective
        for adjective in ADJECTIVES_OF[first].gradable
        if adjective in ADJECTIVES_OF[second].gradable
    ]
    subject, other = _draw_definite(rng, first), _draw_definite(rng, second)
    complement = compared(rng.choice(shared), subject, other)
    clause = Clause(subject, BE, draw_tense(rng), (complement,), maybe(rng, 0.15))
    return sentence(statement(clause))


def _draw_definite(rng: Random, noun: Noun) -> Nominal:
    if noun.kind == "person" and maybe(rng, 0.4):
        return rng.choice(NAMES)
    return draw_nominal(rng, (noun,), "definite", described=0.1)


def location(rng: Random) -> Pair:
    """The keys are under the newspaper."""
    if maybe(rng, 0.6):
        subject, place = draw_nominal(rng, SMALL_THINGS, "definite"), draw_spot(rng)
    else:
        subject, place = draw_subject(rng), draw_place(rng, frames.ANYWHERE, "at")
    clause = Clause(subject, BE, draw_any_tense(rng), (place,), maybe(rng, 0.15))
    if not clause.negative and maybe(rng, 0.25):
        return sentence(question(clause), "?")
    return sentence(draw_time(rng, statement(clause), clause, probability=0.25))


def existence(rng: Random) -> Pair:
    """There are two cats under the table."""
    found = draw_indefinite(rng, rng.choice((*SMALL_THINGS, *nouns("pet"))))
    there = Nominal("there", "", found.agreement)
    clause = Clause(there, THERE_IS, draw_tense(rng), (found, draw_spot(rng)))
    return _statement_or_question(rng, clause, 0.35)


def _statement_or_question(rng: Random, clause: Clause, question_probability: float) -> Pair:
    if not clause.negative and maybe(rng, question_probability):
        return sentence(question(clause), "?")
    return sentence(statement(clause))
