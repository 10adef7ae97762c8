"""Sentence patterns of one clause, questions, and two clauses; each docstring is an example."""

from dataclasses import replace

from tools.demo_grammar import lexicon, phrases
from tools.demo_grammar.lexicon import ADJECTIVES, ADJECTIVES_OF, MANNER, NOUNS, nouns
from tools.demo_grammar.phrases import (
    AND,
    BE,
    EMPTY,
    NOT,
    WHO,
    Clause,
    Nominal,
    Noun,
    Pair,
    Phrase,
    Verb,
    join,
    noun_phrase,
    predicative,
    prepositional,
    pronoun_for,
    sentence,
)
from tools.demo_grammar.sampling import Sampler

MODALS = Verb("can", "potere"), Verb("must", "dovere"), Verb("want to", "volere")
HANDLING = lexicon.select(lexicon.TRANSITIVE, "look for", "find", "lose", "take", "forget")
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
    frame = draw.choice(lexicon.TRANSITIVE)
    clause = draw.clause(frame, draw.subject(), draw.any_tense(), negated=0.2)
    return sentence(draw.statement(clause))


def intransitive_action(draw: Sampler) -> Pair:
    """My sister walks slowly in the park with her son."""
    frame = draw.choice(lexicon.INTRANSITIVE)
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
        frame, receiver = draw.choice(lexicon.GIVING), prepositional("to", "a", draw.person())
    else:
        frame, receiver = (
            draw.choice(lexicon.BENEFICIAL),
            prepositional("for", "per", draw.person()),
        )
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
    clause = draw.clause(draw.choice(lexicon.ANIMAL), subject, draw.any_tense())
    return sentence(draw.statement(clause))


def modal(draw: Sampler) -> Pair:
    """The children want to eat an orange in the kitchen."""
    verb, frame = draw.choice(MODALS), draw.choice(lexicon.ACTIONS)
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
        subject, place = draw.subject(), draw.place(lexicon.ANYWHERE, "at")
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


# "What do you speak?" is not said.
ASKED = tuple(f for f in lexicon.WITH_INANIMATE_OBJECT if f.verb.english != "speak")


def _with_time(draw: Sampler, phrase: Phrase, clause: Clause) -> Pair:
    return sentence(draw.with_time(phrase, clause, in_front=False), "?")


def yes_or_no(draw: Sampler) -> Pair:
    """Did the engineer visit the museum yesterday?"""
    frame = draw.choice((*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE))
    complements = (*draw.object_of(frame, "negatable"), *draw.location(frame, 0.4))
    clause = Clause(draw.subject(), frame.verb, draw.tense(frame.verb), complements)
    if draw.maybe(0.2):
        clause = draw.journey()
    return _with_time(draw, clause.question(), clause)


def where(draw: Sampler) -> Pair:
    """Where did you buy these shoes?"""
    frame = draw.choice(lexicon.LOCATED)
    # A subject after the Italian verb would be next to the object, so it must be a pronoun then.
    subject = draw.pronoun() if frame.objects else draw.subject()
    objects = draw.object_of(frame, "negatable")
    clause = Clause(subject, frame.verb, draw.tense(frame.verb), objects)
    return _with_time(draw, clause.question(Phrase("where", "dove"), inverted=True), clause)


def when(draw: Sampler) -> Pair:
    """When will the actors arrive in Rome?"""
    clause = draw.journey()
    if draw.maybe(0.4):
        frame = draw.choice(lexicon.TRANSITIVE_ACTIONS)
        clause = draw.clause(frame, draw.pronoun(), draw.tense(frame.verb))
    return sentence(clause.question(Phrase("when", "quando"), inverted=True), "?")


def why(draw: Sampler) -> Pair:
    """Why did the child sell his bicycle?"""
    frame = draw.choice(lexicon.ACTIONS)
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
        if frame in lexicon.PROGRESSIVE and draw.maybe(0.25)
        else draw.tense(frame.verb)
    )
    clause = Clause(draw.subject(), frame.verb, tense, location)
    return _with_time(draw, clause.question(word, inverted=True), clause)


def who(draw: Sampler) -> Pair:
    """Who opened the window this morning?"""
    if draw.maybe(0.35):
        frame = draw.choice(lexicon.WITH_HUMAN_OBJECT)
        location = draw.location(frame, 0.8)
        clause = Clause(draw.pronoun(), frame.verb, draw.tense(frame.verb), location)
        return _with_time(draw, clause.question(WHO, inverted=True), clause)
    frame = draw.choice((*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE))
    clause = draw.clause(frame, WHO, draw.tense(frame.verb))
    return _with_time(draw, clause.statement(), clause)


STRANGERS = nouns("person")
MEETING = lexicon.select(lexicon.TRANSITIVE, "know", "see", "meet", "help", "talk to", "wait for")
RELATIVE = (*lexicon.ACTIONS, *lexicon.select(lexicon.INTRANSITIVE, "live"))


def reason(draw: Sampler) -> Pair:
    """The girls drink some water because they are thirsty."""
    frame = draw.choice(lexicon.REASONS)
    tense = "past" if draw.maybe(0.45) else "present"
    clause = draw.clause(frame, draw.subject(), tense)
    conjunction = Phrase("because", "perché")
    if tense == "present" and draw.maybe(0.4):
        conjunction = Phrase("when", "quando")
    person, feeling = pronoun_for(clause.subject), draw.choice(frame.notes)
    if feeling in ADJECTIVES:
        cause = Clause(person, BE, tense, (predicative(ADJECTIVES[feeling], person),))
    else:
        cause = Clause(person, lexicon.FEEL, tense, (lexicon.FEELINGS[feeling],))
    return sentence(join(clause.statement(), conjunction, cause.statement()))


def two_people(draw: Sampler) -> Pair:
    """My father drinks some wine and Maria cleans the window."""
    first, second = draw.sample(lexicon.ACTIONS, 2)
    tense = draw.tense(first.verb, second.verb)
    one = draw.clause(first, draw.subject(), tense)
    other = draw.clause(second, draw.person(), tense)
    return sentence(join(one.statement(), AND, other.statement()))


def contrast(draw: Sampler) -> Pair:
    """I drink some water but Anna drinks some wine."""
    frame = draw.choice(lexicon.TRANSITIVE_ACTIONS)
    tense = draw.tense(frame.verb)
    one = draw.clause(frame, draw.subject(), tense)
    other = draw.clause(frame, draw.person(), tense)
    while other.complements == one.complements:
        other = draw.clause(frame, draw.person(), tense)
    return sentence(join(one.statement(), Phrase("but", "ma"), other.statement()))


def two_actions(draw: Sampler) -> Pair:
    """The boy closed the door and opened the window."""
    first, second = draw.sample(lexicon.ACTIONS, 2)
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


PATTERNS = (
    *(
        transitive_action,
        intransitive_action,
        journey,
        giving,
        possessive_object,
        putting,
        animal_action,
        modal,
    ),
    *(having, quality, comparison, location, existence, yes_or_no, where),
    *(when, why, what, who, reason, two_people, contrast),
    *(two_actions, relative_clause),
)
