"""Sentence patterns: each makes one kind of sentence; its docstring is an example."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from translate_ddp.data.demo import grammar, italian, lexicon
from translate_ddp.data.demo.draws import (
    POSSESSIONS,
    deny,
    draw_any_tense,
    draw_belonging,
    draw_circumstance,
    draw_clause,
    draw_company,
    draw_indefinite,
    draw_location,
    draw_nominal,
    draw_object,
    draw_person,
    draw_place,
    draw_pronoun,
    draw_spot,
    draw_statement,
    draw_subject,
    draw_tense,
    draw_time,
    maybe,
)
from translate_ddp.data.demo.grammar import (
    BE,
    WHO,
    Adjective,
    Clause,
    Nominal,
    Noun,
    Pair,
    Phrase,
    Verb,
    Way,
    noun_phrase,
    prepositional,
    question,
    sentence,
    statement,
    together,
)
from translate_ddp.data.demo.lexicon import Frame, nouns, places

AND, BUT = Phrase("and", "e"), Phrase("but", "ma")
BECAUSE, WHEN = Phrase("because", "perché"), Phrase("when", "quando")

# Nouns and places that suit a pattern
ANIMALS, STRANGERS = nouns("animals"), nouns("person")
SMALL_THINGS = nouns("things", "book", "letter", "press", "clothing")
FOUND = (*SMALL_THINGS, *nouns("pet"))
DESCRIBED = tuple(
    noun
    for noun, fitting in lexicon.FITTING.items()
    if fitting.all and noun.kind not in ("family", "sight")
)
ALIKE = tuple(
    nouns(*kinds.split())
    for kinds in ("people", "animals", "vehicle", "text press", "luggage", "furniture", "clothing")
)
FAR = places("cities", "countries")
SITES = (
    *places("park", "garden", "library", "church", "office", "square", "city", "hotel", "hospital"),
    *places("forest", "village", "shop", "station", "market", "museum", "cinema", "theatre"),
    *places("restaurant", "university", "zoo", "stadium", "sea", "beach", "island", "school"),
    *FAR,
)
ANYWHERE = (*SITES, *places("home"))

# Verbs that suit a pattern
MINDED = {"person", "acquaintance", "family"}


def _frames(frames: tuple[Frame, ...], *verbs: str) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames if frame.verb.english in verbs)


def _about(frames: tuple[Frame, ...], minded: bool) -> tuple[Frame, ...]:
    """The verbs one asks `who` or `what` for: all objects are people, or none is."""
    return tuple(
        frame
        for frame in frames
        if not frame.verb.preposition
        and all((noun.kind in MINDED) == minded for noun in frame.objects)
    )


ACTIONS = tuple(f for f in lexicon.TRANSITIVE if f.verb.italian not in italian.STATES)
MOVEMENTS = tuple(f for f in lexicon.INTRANSITIVE if f.verb.italian not in italian.STATES)
DEEDS = (*ACTIONS, *MOVEMENTS)
LOCATED = tuple(frame for frame in DEEDS if frame.places)
ASKED_WHO, ASKED_WHAT = _about(ACTIONS, minded=True), _about(ACTIONS, minded=False)
HANDLINGS = _frames(lexicon.TRANSITIVE, "look for", "find", "lose", "take", "forget")
MEETINGS = _frames(lexicon.TRANSITIVE, "know", "see", "meet", "help", "talk to", "wait for")
JOURNEYS: tuple[tuple[Verb, Way, tuple[lexicon.Locality | grammar.Place, ...]], ...] = (
    (lexicon.GO, "to", ANYWHERE),
    (lexicon.RETURN, "to", ANYWHERE),
    (lexicon.RETURN, "from", SITES),
    (lexicon.COME, "to", SITES),
    (lexicon.COME, "from", SITES),
    (lexicon.ARRIVE, "reaching", SITES),
    (lexicon.LEAVE, "from", FAR),
)


def _extended(clause: Clause, complement: Phrase) -> Clause:
    return replace(clause, complements=(*clause.complements, complement))


# Statements about deeds --------------------------------------------------------------------------


def action(rng: Random) -> Pair:
    """The old doctor did not read the letter in the garden yesterday."""
    frame = rng.choice(lexicon.TRANSITIVE)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_any_tense(rng), denied=0.2)
    return sentence(draw_statement(rng, clause))


def activity(rng: Random) -> Pair:
    """My sister walks slowly in the park with her son."""
    frame = rng.choice(lexicon.INTRANSITIVE)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_any_tense(rng), denied=0.2)
    if frame.verb.english in ("work", "walk", "dance", "swim", "run") and maybe(rng, 0.4):
        clause = replace(clause, complements=(rng.choice(lexicon.MANNER), *clause.complements))
    if maybe(rng, 0.25):
        clause = _extended(clause, draw_company(rng))
    return sentence(draw_statement(rng, clause))


def _draw_journey(rng: Random) -> Clause:
    verb, way, goals = rng.choice(JOURNEYS)
    return Clause(draw_subject(rng), verb, draw_any_tense(rng), (draw_place(rng, goals, way),))


def journey(rng: Random) -> Pair:
    """They returned from the sea by train last Sunday."""
    clause = _draw_journey(rng)
    if maybe(rng, 0.35):
        clause = _extended(clause, draw_circumstance(rng))
    return sentence(draw_statement(rng, deny(rng, clause) if maybe(rng, 0.15) else clause))


def giving(rng: Random) -> Pair:
    """We will show the new bicycle to Marco."""
    if maybe(rng, 0.6):
        frame, receiver = rng.choice(lexicon.GIVING), prepositional("to", "a", draw_person(rng))
    else:
        frame, receiver = rng.choice(lexicon.FAVOURS), prepositional("for", "per", draw_person(rng))
    clause = draw_clause(rng, frame, draw_subject(rng), draw_any_tense(rng), denied=0.15)
    return sentence(draw_statement(rng, _extended(clause, receiver)))


def belonging(rng: Random) -> Pair:
    """Luca found my sister's green umbrella."""
    frame, noun = rng.choice(HANDLINGS), rng.choice(POSSESSIONS)
    thing = grammar.governed(frame.verb, draw_belonging(rng, noun))
    clause = Clause(draw_subject(rng), frame.verb, draw_any_tense(rng), (thing,))
    return sentence(draw_statement(rng, deny(rng, clause) if maybe(rng, 0.2) else clause))


def putting(rng: Random) -> Pair:
    """My grandmother put the letter in the drawer yesterday."""
    thing = draw_nominal(rng, SMALL_THINGS, "any")
    clause = Clause(draw_subject(rng), lexicon.PUT, draw_any_tense(rng), (thing, draw_spot(rng)))
    return sentence(draw_time(rng, statement(clause), clause, chance=0.2))


def animal(rng: Random) -> Pair:
    """Some white cats slept in the garden last week."""
    subject = draw_nominal(rng, ANIMALS, "any", described=0.4)
    clause = draw_clause(rng, rng.choice(lexicon.ANIMAL), subject, draw_any_tense(rng))
    return sentence(draw_statement(rng, clause))


def wish(rng: Random) -> Pair:
    """The children want to eat an orange in the kitchen."""
    modal = rng.choice((lexicon.CAN, lexicon.MUST, lexicon.WANT))
    frame, negative = rng.choice(DEEDS), maybe(rng, 0.25)
    deed = (
        grammar.infinitive(frame.verb, to=modal == lexicon.WANT),
        *draw_object(rng, frame, "deniable"),
        *draw_location(rng, frame, 0.5),
    )
    clause = Clause(draw_subject(rng), modal, "present", deed, negative)
    if not negative and maybe(rng, 0.25):
        return sentence(question(clause), "?")
    return sentence(statement(clause))


# Statements about states -------------------------------------------------------------------------


def having(rng: Random) -> Pair:
    """My uncle has two dogs and a black horse."""
    first, second = rng.sample(POSSESSIONS, 2)
    owned, negative = draw_indefinite(rng, first), maybe(rng, 0.2)
    if not negative and maybe(rng, 0.5):
        owned = grammar.both(owned, draw_indefinite(rng, second))
    clause = Clause(draw_subject(rng), lexicon.HAVE, draw_tense(rng), (owned,), negative)
    return sentence(statement(clause))


def quality(rng: Random) -> Pair:
    """Anna's old bicycle was not expensive."""
    noun = rng.choice(DESCRIBED)
    if noun in POSSESSIONS and maybe(rng, 0.4):
        subject = draw_belonging(rng, noun)
    elif noun.kind == "person" and maybe(rng, 0.6):
        subject, noun = draw_subject(rng), lexicon.NOUNS["cook"]  # adjectives for everybody
    else:
        subject = draw_nominal(rng, (noun,), "definite", described=0.0)
    complement = grammar.predicative(rng.choice(lexicon.FITTING[noun].all), subject)
    clause = Clause(subject, BE, draw_tense(rng), (complement,), maybe(rng, 0.2))
    if not clause.negative and maybe(rng, 0.2):
        return sentence(question(clause), "?")
    return sentence(statement(clause))


def comparison(rng: Random) -> Pair:
    """This letter is more interesting than my book."""
    first, second = rng.sample(rng.choice(ALIKE), 2)
    suiting_both = [
        adjective
        for adjective in lexicon.FITTING[first].gradable
        if adjective in lexicon.FITTING[second].gradable
    ]
    subject, other = _draw_known(rng, first), _draw_known(rng, second)
    complement = grammar.compared(rng.choice(suiting_both), subject, other)
    clause = Clause(subject, BE, draw_tense(rng), (complement,), maybe(rng, 0.15))
    return sentence(statement(clause))


def _draw_known(rng: Random, noun: Noun) -> Nominal:
    if noun.kind == "person" and maybe(rng, 0.4):
        return rng.choice(lexicon.NAMES)
    return draw_nominal(rng, (noun,), "definite", described=0.1)


def whereabouts(rng: Random) -> Pair:
    """The keys are under the newspaper."""
    if maybe(rng, 0.6):
        subject, place = draw_nominal(rng, SMALL_THINGS, "definite"), draw_spot(rng)
    else:
        subject, place = draw_subject(rng), draw_place(rng, ANYWHERE, "at")
    clause = Clause(subject, BE, draw_any_tense(rng), (place,), maybe(rng, 0.15))
    if not clause.negative and maybe(rng, 0.25):
        return sentence(question(clause), "?")
    return sentence(draw_time(rng, statement(clause), clause, chance=0.25))


def presence(rng: Random) -> Pair:
    """There are two cats under the table."""
    found = draw_indefinite(rng, rng.choice(FOUND))
    there = Nominal("there", "", found.agreement)
    clause = Clause(there, lexicon.BE_THERE, draw_tense(rng), (found, draw_spot(rng)))
    if maybe(rng, 0.35):
        return sentence(question(clause), "?")
    return sentence(statement(clause))


# Questions ---------------------------------------------------------------------------------------


def yes_or_no(rng: Random) -> Pair:
    """Did the engineer visit the museum yesterday?"""
    frame = rng.choice((*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE))
    complements = (*draw_object(rng, frame, "deniable"), *draw_location(rng, frame, 0.4))
    clause = Clause(draw_subject(rng), frame.verb, draw_tense(rng, frame.verb), complements)
    if maybe(rng, 0.2):
        clause = _draw_journey(rng)
    return sentence(draw_time(rng, question(clause), clause, in_front=False), "?")


def where(rng: Random) -> Pair:
    """Where did you buy these shoes?"""
    frame = rng.choice(LOCATED)
    # Italian puts the subject behind the verb, where an object leaves no room for it.
    subject = draw_pronoun(rng) if frame.objects else draw_subject(rng)
    objects = draw_object(rng, frame, "deniable")
    clause = Clause(subject, frame.verb, draw_tense(rng, frame.verb), objects)
    asked = question(clause, Phrase("where", "dove"), inverted=True)
    return sentence(draw_time(rng, asked, clause, in_front=False), "?")


def when(rng: Random) -> Pair:
    """When will the actors arrive in Rome?"""
    clause = _draw_journey(rng)
    if maybe(rng, 0.4):
        frame = rng.choice(ACTIONS)
        clause = draw_clause(rng, frame, draw_pronoun(rng), draw_tense(rng, frame.verb))
    return sentence(question(clause, Phrase("when", "quando"), inverted=True), "?")


def why(rng: Random) -> Pair:
    """Why did the child sell his bicycle?"""
    frame = rng.choice(DEEDS)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_tense(rng, frame.verb))
    return sentence(question(clause, Phrase("why", "perché")), "?")


def what(rng: Random) -> Pair:
    """How many oranges do you eat every day?"""
    frame = rng.choice(ASKED_WHAT)
    noun = rng.choice(frame.objects)
    word = Phrase("what", "che cosa")
    if "plural" in noun.numbers and maybe(rng, 0.6):
        word = noun_phrase(noun, "which", rng.choice(noun.numbers))
        if maybe(rng, 0.6):
            word = noun_phrase(noun, "how many", "plural")
    places = draw_location(rng, frame, 0.5)
    clause = Clause(draw_subject(rng), frame.verb, draw_tense(rng, frame.verb), places)
    asked = question(clause, word, inverted=True)
    return sentence(draw_time(rng, asked, clause, in_front=False), "?")


def who(rng: Random) -> Pair:
    """Who opened the window this morning?"""
    if maybe(rng, 0.35):
        frame = rng.choice(ASKED_WHO)
        places = draw_location(rng, frame, 0.8)
        clause = Clause(draw_pronoun(rng), frame.verb, draw_tense(rng, frame.verb), places)
        asked = question(clause, Phrase("who", "chi"), inverted=True)
    else:
        frame = rng.choice((*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE))
        clause = draw_clause(rng, frame, WHO, draw_tense(rng, frame.verb))
        asked = statement(clause)
    return sentence(draw_time(rng, asked, clause, in_front=False), "?")


# Sentences of two parts --------------------------------------------------------------------------


def reason(rng: Random) -> Pair:
    """The girls drink some water because they are thirsty."""
    frame, feelings = rng.choice(lexicon.REASONS)
    tense = "past" if maybe(rng, 0.45) else "present"
    clause = draw_clause(rng, frame, draw_subject(rng), tense)
    conjunction = WHEN if tense == "present" and maybe(rng, 0.4) else BECAUSE
    cause = _feeling(grammar.pronoun_for(clause.subject), rng.choice(feelings))
    cause = statement(replace(cause, tense=tense))
    return sentence(together(statement(clause), conjunction, cause))


def _feeling(subject: Nominal, feeling: Adjective | Phrase) -> Clause:
    if isinstance(feeling, Adjective):
        return Clause(subject, BE, "present", (grammar.predicative(feeling, subject),))
    return Clause(subject, lexicon.FEEL, "present", (feeling,))


def two_people(rng: Random) -> Pair:
    """My father drinks some wine and Maria cleans the window."""
    first, second = rng.sample(DEEDS, 2)
    tense = draw_tense(rng, first.verb, second.verb)
    one = draw_clause(rng, first, draw_subject(rng), tense)
    other = draw_clause(rng, second, draw_person(rng), tense)
    return sentence(together(statement(one), AND, statement(other)))


def contrast(rng: Random) -> Pair:
    """I drink some water but Anna drinks some wine."""
    frame = rng.choice(ACTIONS)
    tense = draw_tense(rng, frame.verb)
    one = draw_clause(rng, frame, draw_subject(rng), tense)
    other = draw_clause(rng, frame, draw_person(rng), tense)
    while other.complements == one.complements:
        other = draw_clause(rng, frame, draw_person(rng), tense)
    return sentence(together(statement(one), BUT, statement(other)))


def two_deeds(rng: Random) -> Pair:
    """The boy closed the door and opened the window."""
    first, second = rng.sample(DEEDS, 2)
    subject, tense = draw_subject(rng), draw_tense(rng, first.verb, second.verb)
    one = draw_clause(rng, first, subject, tense)
    other = draw_clause(rng, second, subject, tense)
    return sentence(together(statement(one), AND, grammar.predicate(other)))


def acquaintance(rng: Random) -> Pair:
    """I know the woman who works at the hospital."""
    deed_frame = rng.choice((*DEEDS, *_frames(lexicon.INTRANSITIVE, "live")))
    person = draw_nominal(rng, STRANGERS, "definite", described=0.0)
    deed = draw_clause(rng, deed_frame, person, draw_tense(rng, deed_frame.verb))
    frame = rng.choice(MEETINGS)
    met = grammar.governed(frame.verb, grammar.with_relative(deed))
    clause = Clause(draw_subject(rng), frame.verb, draw_tense(rng, frame.verb), (met,))
    return sentence(statement(clause))


PATTERNS: tuple[Callable[[Random], Pair], ...] = (
    *(action, activity, journey, giving, belonging, putting, animal, wish),
    *(having, quality, comparison, whereabouts, presence),
    *(yes_or_no, where, when, why, what, who),
    *(reason, two_people, contrast, two_deeds, acquaintance),
)
