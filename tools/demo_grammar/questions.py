"""Sentence patterns of questions; each docstring is an example."""

from tools.demo_grammar import frames
from tools.demo_grammar.clauses import WHO, Clause, Pair, sentence
from tools.demo_grammar.phrases import Phrase, noun_phrase
from tools.demo_grammar.sampling import Sampler

# "What do you speak?" is not said.
ASKED = tuple(f for f in frames.WITH_INANIMATE_OBJECT if f.verb.english != "speak")


def _with_time(draw: Sampler, phrase: Phrase, clause: Clause) -> Pair:
    return sentence(draw.with_time(phrase, clause, in_front=False), "?")


def yes_or_no(draw: Sampler) -> Pair:
    """Did the engineer visit the museum yesterday?"""
    frame = draw.choice((*frames.TRANSITIVE, *frames.INTRANSITIVE))
    complements = (*draw.object_of(frame, "negatable"), *draw.location(frame, 0.4))
    clause = Clause(draw.subject(), frame.verb, draw.tense(frame.verb), complements)
    if draw.maybe(0.2):
        clause = draw.journey()
    return _with_time(draw, clause.question(), clause)


def where(draw: Sampler) -> Pair:
    """Where did you buy these shoes?"""
    frame = draw.choice(frames.LOCATED)
    # A subject after the Italian verb would be next to the object, so it must be a pronoun then.
    subject = draw.pronoun() if frame.objects else draw.subject()
    objects = draw.object_of(frame, "negatable")
    clause = Clause(subject, frame.verb, draw.tense(frame.verb), objects)
    return _with_time(draw, clause.question(Phrase("where", "dove"), inverted=True), clause)


def when(draw: Sampler) -> Pair:
    """When will the actors arrive in Rome?"""
    clause = draw.journey()
    if draw.maybe(0.4):
        frame = draw.choice(frames.TRANSITIVE_ACTIONS)
        clause = draw.clause(frame, draw.pronoun(), draw.tense(frame.verb))
    return sentence(clause.question(Phrase("when", "quando"), inverted=True), "?")


def why(draw: Sampler) -> Pair:
    """Why did the child sell his bicycle?"""
    frame = draw.choice(frames.ACTIONS)
    clause = draw.clause(frame, draw.subject(), draw.tense(frame.verb))
    return sentence(clause.question(Phrase("why", "perché")), "?")


def what(draw: Sampler) -> Pair:
    """How many oranges do you eat every day?"""
    frame = draw.choice(ASKED)
    noun = draw.choice(frame.objects)
    word = Phrase("what", "che cosa")
    if "plural" in noun.numbers and draw.maybe(0.6):
        word = noun_phrase(noun, "which", draw.choice(noun.numbers))
        if draw.maybe(0.6):
            word = noun_phrase(noun, "how many", "plural")
    location = draw.location(frame, 0.5)
    tense = (
        "progressive"
        if frame in frames.PROGRESSIVE and draw.maybe(0.25)
        else draw.tense(frame.verb)
    )
    clause = Clause(draw.subject(), frame.verb, tense, location)
    return _with_time(draw, clause.question(word, inverted=True), clause)


def who(draw: Sampler) -> Pair:
    """Who opened the window this morning?"""
    if draw.maybe(0.35):
        frame = draw.choice(frames.WITH_HUMAN_OBJECT)
        location = draw.location(frame, 0.8)
        clause = Clause(draw.pronoun(), frame.verb, draw.tense(frame.verb), location)
        return _with_time(draw, clause.question(WHO, inverted=True), clause)
    frame = draw.choice((*frames.TRANSITIVE, *frames.INTRANSITIVE))
    clause = draw.clause(frame, WHO, draw.tense(frame.verb))
    return _with_time(draw, clause.statement(), clause)
