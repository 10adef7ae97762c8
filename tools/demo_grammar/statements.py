"""Sentence patterns of one clause, mostly statements; each docstring is an example."""

from dataclasses import replace

from tools.demo_grammar import frames, phrases
from tools.demo_grammar.clauses import BE, NOT, Clause, Pair, Verb, sentence
from tools.demo_grammar.lexicon import ADJECTIVES_OF, MANNER, NOUNS, nouns
from tools.demo_grammar.phrases import EMPTY, Nominal, Noun, Phrase, predicative, prepositional
from tools.demo_grammar.sampling import Sampler

MODALS = Verb("can", "potere"), Verb("must", "dovere"), Verb("want to", "volere")
HANDLING = frames.select(frames.TRANSITIVE, "look for", "find", "lose", "take", "forget")
ANIMALS = nouns("animals")
SMALL_THINGS = nouns("things", "book", "letter", "press", "clothing")
POSSESSIONS = nouns("pet", "vehicle", "instrument", "tool", "luggage")
DESCRIBED = tuple(
    n for n in NOUNS.values() if ADJECTIVES_OF[n] and n.kind not in ("family", "sight")
)
COMPARABLE = tuple(
    nouns(*kinds.split())
    for kinds in ("people", "animals", "vehicle", "text press", "luggage", "furniture", "clothing")
)


def _with_complement(clause: Clause, complement: Phrase) -> Clause:
    return replace(clause, complements=(*clause.complements, complement))


def transitive_action(draw: Sampler) -> Pair:
    """The old doctor did not read the letter in the garden yesterday."""
    frame = draw.choice(frames.TRANSITIVE)
    clause = draw.clause(frame, draw.subject(), draw.any_tense(), negated=0.2)
    return sentence(draw.statement(clause))


def intransitive_action(draw: Sampler) -> Pair:
    """My sister walks slowly in the park with her son."""
    frame = draw.choice(frames.INTRANSITIVE)
    clause = draw.clause(frame, draw.subject(), draw.any_tense(), negated=0.2)
    if frame.verb.english in ("work", "walk", "dance", "swim", "run") and draw.maybe(0.4):
        clause = replace(clause, complements=(draw.choice(MANNER), *clause.complements))
    if draw.maybe(0.25):
        clause = _with_complement(clause, draw.company())
    return sentence(draw.statement(clause))


def journey(draw: Sampler) -> Pair:
    """They returned from the sea by train last Sunday."""
    clause = draw.journey()
    if draw.maybe(0.35):
        clause = _with_complement(clause, draw.travel_adverbial())
    return sentence(draw.statement(draw.negated(clause) if draw.maybe(0.15) else clause))


def giving(draw: Sampler) -> Pair:
    """We will show the new bicycle to Marco."""
    if draw.maybe(0.6):
        frame, receiver = draw.choice(frames.GIVING), prepositional("to", "a", draw.person())
    else:
        frame, receiver = draw.choice(frames.BENEFICIAL), prepositional("for", "per", draw.person())
    clause = draw.clause(frame, draw.subject(), draw.any_tense(), negated=0.15)
    return sentence(draw.statement(_with_complement(clause, receiver)))


def possessive_object(draw: Sampler) -> Pair:
    """Luca found my sister's green umbrella."""
    verb, noun = draw.choice(HANDLING).verb, draw.choice(POSSESSIONS)
    thing = draw.possessive(noun)
    clause = Clause(draw.subject(), verb, draw.any_tense(), (thing,))
    return sentence(draw.statement(draw.negated(clause) if draw.maybe(0.2) else clause))


def putting(draw: Sampler) -> Pair:
    """My grandmother put the letter in the drawer yesterday."""
    thing, put = draw.nominal(SMALL_THINGS, "any"), Verb("put", "mettere")
    clause = Clause(draw.subject(), put, draw.any_tense(), (thing, draw.spot()))
    return sentence(draw.with_time(clause.statement(), clause, probability=0.2))


def animal_action(draw: Sampler) -> Pair:
    """Some white cats slept in the garden last week."""
    subject = draw.nominal(ANIMALS, "any", described=0.4)
    clause = draw.clause(draw.choice(frames.ANIMAL), subject, draw.any_tense())
    return sentence(draw.statement(clause))


def modal(draw: Sampler) -> Pair:
    """The children want to eat an orange in the kitchen."""
    verb, frame = draw.choice(MODALS), draw.choice(frames.ACTIONS)
    negation = draw.negation(0.25)
    complements = (frame.verb, *draw.object_of(frame, "negatable"), *draw.location(frame, 0.5))
    clause = Clause(draw.subject(), verb, "present", complements, negation)
    return draw.ask_or_state(clause, 0.25)


def having(draw: Sampler) -> Pair:
    """My uncle has two dogs and a black horse."""
    first, second = draw.sample(POSSESSIONS, 2)
    owned, negation = draw.indefinite(first), draw.negation(0.2)
    if negation == EMPTY and draw.maybe(0.5):
        owned = phrases.conjoined(owned, draw.indefinite(second))
    have = Verb("have", "avere")
    return sentence(Clause(draw.subject(), have, draw.tense(), (owned,), negation).statement())


def quality(draw: Sampler) -> Pair:
    """Anna's old bicycle was not expensive."""
    noun = draw.choice(DESCRIBED)
    if noun in POSSESSIONS and draw.maybe(0.4):
        subject = draw.possessive(noun)
    elif noun.kind == "person" and draw.maybe(0.6):
        subject, noun = draw.subject(), NOUNS["cook"]  # its adjectives fit every person
    else:
        subject = draw.nominal((noun,), "definite", described=0.0)
    complement = predicative(draw.choice(ADJECTIVES_OF[noun]), subject)
    clause = Clause(subject, BE, draw.tense(), (complement,), draw.negation(0.2))
    return draw.ask_or_state(clause, 0.2)


def comparison(draw: Sampler) -> Pair:
    """This letter is more interesting than my book."""
    first, second = draw.sample(draw.choice(COMPARABLE), 2)
    fitting = ADJECTIVES_OF[second]
    shared = [a for a in ADJECTIVES_OF[first] if a.gradable and a in fitting]
    subject, other = _draw_definite(draw, first), _draw_definite(draw, second)
    complement = phrases.compared(draw.choice(shared), subject, other)
    clause = Clause(subject, BE, draw.tense(), (complement,), draw.negation(0.15))
    return sentence(clause.statement())


def _draw_definite(draw: Sampler, noun: Noun) -> Nominal:
    if noun.kind == "person" and draw.maybe(0.4):
        return draw.name()
    return draw.nominal((noun,), "definite", described=0.1)


def location(draw: Sampler) -> Pair:
    """The keys are under the newspaper."""
    if draw.maybe(0.6):
        subject, place = draw.nominal(SMALL_THINGS, "definite"), draw.spot()
    else:
        subject, place = draw.subject(), draw.place(frames.ANYWHERE, "at")
    clause = Clause(subject, BE, draw.any_tense(), (place,), draw.negation(0.15))
    if clause.adverb != NOT and draw.maybe(0.25):
        return sentence(clause.question(), "?")
    return sentence(draw.with_time(clause.statement(), clause, probability=0.25))


def existence(draw: Sampler) -> Pair:
    """There are two cats under the table."""
    found = draw.indefinite(draw.choice((*SMALL_THINGS, *nouns("pet"))))
    there = Nominal("there", "", found.agreement)
    clause = Clause(there, Verb("be", "esserci"), draw.tense(), (found, draw.spot()))
    return draw.ask_or_state(clause, 0.35)
