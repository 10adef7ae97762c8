"""Sentence patterns of two clauses; each docstring is an example."""

from tools.demo_grammar import frames
from tools.demo_grammar.clauses import BE, Clause, Pair, sentence
from tools.demo_grammar.lexicon import ADJECTIVES, nouns
from tools.demo_grammar.phrases import AND, Phrase, join, predicative, prepositional, pronoun_for
from tools.demo_grammar.sampling import Sampler

STRANGERS = nouns("person")
MEETING = frames.select(frames.TRANSITIVE, "know", "see", "meet", "help", "talk to", "wait for")
RELATIVE = (*frames.ACTIONS, *frames.select(frames.INTRANSITIVE, "live"))


def reason(draw: Sampler) -> Pair:
    """The girls drink some water because they are thirsty."""
    frame = draw.choice(frames.REASONS)
    tense = "past" if draw.maybe(0.45) else "present"
    clause = draw.clause(frame, draw.subject(), tense)
    conjunction = Phrase("because", "perché")
    if tense == "present" and draw.maybe(0.4):
        conjunction = Phrase("when", "quando")
    person, feeling = pronoun_for(clause.subject), draw.choice(frame.notes)
    if feeling in ADJECTIVES:
        cause = Clause(person, BE, tense, (predicative(ADJECTIVES[feeling], person),))
    else:
        cause = Clause(person, frames.FEEL, tense, (frames.FEELINGS[feeling],))
    return sentence(join(clause.statement(), conjunction, cause.statement()))


def two_people(draw: Sampler) -> Pair:
    """My father drinks some wine and Maria cleans the window."""
    first, second = draw.sample(frames.ACTIONS, 2)
    tense = draw.tense(first.verb, second.verb)
    one = draw.clause(first, draw.subject(), tense)
    other = draw.clause(second, draw.person(), tense)
    return sentence(join(one.statement(), AND, other.statement()))


def contrast(draw: Sampler) -> Pair:
    """I drink some water but Anna drinks some wine."""
    frame = draw.choice(frames.TRANSITIVE_ACTIONS)
    tense = draw.tense(frame.verb)
    one = draw.clause(frame, draw.subject(), tense)
    other = draw.clause(frame, draw.person(), tense)
    while other.complements == one.complements:
        other = draw.clause(frame, draw.person(), tense)
    return sentence(join(one.statement(), Phrase("but", "ma"), other.statement()))


def two_actions(draw: Sampler) -> Pair:
    """The boy closed the door and opened the window."""
    first, second = draw.sample(frames.ACTIONS, 2)
    subject, tense = draw.subject(), draw.tense(first.verb, second.verb)
    one = draw.clause(first, subject, tense)
    other = draw.clause(second, subject, tense)
    return sentence(join(one.statement(), AND, other.predicate()))


def relative_clause(draw: Sampler) -> Pair:
    """I know the woman who works at the hospital."""
    relative_frame = draw.choice(RELATIVE)
    person = draw.nominal(STRANGERS, "definite", described=0.0)
    relative = draw.clause(relative_frame, person, draw.tense(relative_frame.verb)).relative()
    verb = draw.choice(MEETING).verb
    met = prepositional("", verb.preposition, relative)
    return sentence(Clause(draw.subject(), verb, draw.tense(verb), (met,)).statement())
