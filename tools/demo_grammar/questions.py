"""Sentence patterns of questions; each docstring is an example."""

from random import Random

from tools.demo_grammar import frames
from tools.demo_grammar.clauses import WHO, Clause, Pair, question, sentence, statement
from tools.demo_grammar.phrases import Phrase, noun_phrase
from tools.demo_grammar.sampling import (
    draw_clause,
    draw_journey,
    draw_location,
    draw_object,
    draw_pronoun,
    draw_subject,
    draw_tense,
    draw_time,
    maybe,
)


def yes_or_no(rng: Random) -> Pair:
    """Did the engineer visit the museum yesterday?"""
    frame = rng.choice((*frames.TRANSITIVE, *frames.INTRANSITIVE))
    complements = (*draw_object(rng, frame, "negatable"), *draw_location(rng, frame, 0.4))
    clause = Clause(draw_subject(rng), frame.verb, draw_tense(rng, frame.verb), complements)
    if maybe(rng, 0.2):
        clause = draw_journey(rng)
    return _with_time(rng, question(clause), clause)


def where(rng: Random) -> Pair:
    """Where did you buy these shoes?"""
    frame = rng.choice(frames.LOCATED)
    # A subject after the Italian verb would be next to the object, so it must be a pronoun then.
    subject = draw_pronoun(rng) if frame.objects else draw_subject(rng)
    objects = draw_object(rng, frame, "negatable")
    clause = Clause(subject, frame.verb, draw_tense(rng, frame.verb), objects)
    return _with_time(rng, question(clause, Phrase("where", "dove"), inverted=True), clause)


def when(rng: Random) -> Pair:
    """When will the actors arrive in Rome?"""
    clause = draw_journey(rng)
    if maybe(rng, 0.4):
        frame = rng.choice(frames.TRANSITIVE_ACTIONS)
        clause = draw_clause(rng, frame, draw_pronoun(rng), draw_tense(rng, frame.verb))
    return sentence(question(clause, Phrase("when", "quando"), inverted=True), "?")


def why(rng: Random) -> Pair:
    """Why did the child sell his bicycle?"""
    frame = rng.choice(frames.ACTIONS)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_tense(rng, frame.verb))
    return sentence(question(clause, Phrase("why", "perché")), "?")


def what(rng: Random) -> Pair:
    """How many oranges do you eat every day?"""
    frame = rng.choice(frames.WITH_INANIMATE_OBJECT)
    noun = rng.choice(frame.objects)
    word = Phrase("what", "che cosa")
    if "plural" in noun.numbers and maybe(rng, 0.6):
        word = noun_phrase(noun, "which", rng.choice(noun.numbers))
        if maybe(rng, 0.6):
            word = noun_phrase(noun, "how many", "plural")
    location = draw_location(rng, frame, 0.5)
    clause = Clause(draw_subject(rng), frame.verb, draw_tense(rng, frame.verb), location)
    return _with_time(rng, question(clause, word, inverted=True), clause)


def who(rng: Random) -> Pair:
    """Who opened the window this morning?"""
    if maybe(rng, 0.35):
        frame = rng.choice(frames.WITH_HUMAN_OBJECT)
        location = draw_location(rng, frame, 0.8)
        clause = Clause(draw_pronoun(rng), frame.verb, draw_tense(rng, frame.verb), location)
        phrase = question(clause, Phrase("who", "chi"), inverted=True)
    else:
        frame = rng.choice((*frames.TRANSITIVE, *frames.INTRANSITIVE))
        clause = draw_clause(rng, frame, WHO, draw_tense(rng, frame.verb))
        phrase = statement(clause)
    return _with_time(rng, phrase, clause)


def _with_time(rng: Random, phrase: Phrase, clause: Clause) -> Pair:
    return sentence(draw_time(rng, phrase, clause, in_front=False), "?")
