"""Sentence patterns: each makes one kind of sentence; its docstring is an example."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from translate_ddp.demo import grammar, italian, lexicon
from translate_ddp.demo.draws import (
    PEOPLE,
    POSSESSIONS,
    draw_adjectives,
    draw_any_tense,
    draw_belonging,
    draw_circumstance,
    draw_clause,
    draw_company,
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
from translate_ddp.demo.grammar import (
    BE,
    NUMBERS,
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
    predicate,
    prepositional,
    question,
    sentence,
    statement,
    together,
)
from translate_ddp.demo.lexicon import Frame, nouns, places

AND, BUT = Phrase("and", "e"), Phrase("but", "ma")
BECAUSE, WHEN = Phrase("because", "perché"), Phrase("when", "quando")

ANIMALS = nouns("animals")
SMALL_THINGS = nouns("things", "text", "press", "clothing")
DESCRIBED = nouns(
    *("people", "pet", "fruit", "dish", "staple", "meal", "drink", "text", "press", "things"),
    *("luggage", "furniture", "vehicle", "clothing", "building", "place", "schoolwork", "show"),
)
ALIKE = tuple(
    nouns(*kinds.split())
    for kinds in ("people", "animals", "vehicle", "text press", "luggage", "furniture", "clothing")
)
FAR = places("cities", "countries")
GOALS = (
    *places("park", "city", "square", "market", "village", "beach", "lake", "sea", "library"),
    *places("church", "bank", "hospital", "station", "museum", "theatre", "restaurant", "shop"),
    *places("zoo", "airport", "island", "garden", "office", "home", "school", "countryside"),
    *FAR,
)


def _frames(frames: tuple[Frame, ...], *verbs: str) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames if frame.verb.english in verbs)


def _actions(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames if frame.verb.italian not in italian.STATES)


def _is_about(frame: Frame, kinds: set[str]) -> bool:
    return not frame.verb.preposition and {noun.kind for noun in frame.objects} <= kinds


MINDED = {"person", "acquaintance", "family"}
TRANSITIVE_ACTIONS, ACTIVITIES = _actions(lexicon.TRANSITIVE), _actions(lexicon.INTRANSITIVE)
ACTIONS_ON_PEOPLE = tuple(f for f in TRANSITIVE_ACTIONS if _is_about(f, MINDED))
ACTIONS_ON_THINGS = tuple(
    f for f in TRANSITIVE_ACTIONS if _is_about(f, set(lexicon.NOUNS_BY_KIND) - MINDED)
)
ACTIONS_ON_COUNTED = tuple(
    f for f in ACTIONS_ON_THINGS if all(len(noun.numbers) == 2 for noun in f.objects)
)
ACTIONS_ON_BELONGINGS = _frames(lexicon.TRANSITIVE, "look for", "find", "lose", "take", "forget")
MEETINGS = _frames(lexicon.TRANSITIVE, "know", "see", "meet", "help", "talk to", "wait for")
MOTIONS: tuple[tuple[Verb, Way], ...] = (
    (lexicon.GO, "to"),
    (lexicon.RETURN, "to"),
    (lexicon.RETURN, "from"),
    (lexicon.COME, "to"),
    (lexicon.COME, "from"),
    (lexicon.ARRIVE, "reaching"),
    (lexicon.LEAVE, "from"),
)


def extended(clause: Clause, complement: Phrase) -> Clause:
    """The clause with one more complement at its end."""
    return replace(clause, complements=(*clause.complements, complement))


# Statements about people -------------------------------------------------------------------------


def action(rng: Random) -> Pair:
    """The old doctor did not read the letter in the garden yesterday."""
    frame = rng.choice(lexicon.TRANSITIVE)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_any_tense(rng), denied=0.2)
    return sentence(draw_statement(rng, clause))


def activity(rng: Random) -> Pair:
    """My sister walks slowly in the park."""
    frame = rng.choice(lexicon.INTRANSITIVE)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_any_tense(rng), denied=0.2)
    if frame in ACTIVITIES and frame.verb.english not in ("stay", "sleep") and maybe(rng, 0.3):
        clause = replace(clause, complements=(rng.choice(lexicon.MANNER), *clause.complements))
    elif maybe(rng, 0.3):
        clause = extended(clause, draw_company(rng))
    return sentence(draw_statement(rng, clause))


def _journey(rng: Random, subject: Nominal) -> Clause:
    verb, way = rng.choice(MOTIONS)
    goal = draw_place(rng, FAR if verb == lexicon.LEAVE else GOALS, way)
    return Clause(subject, verb, draw_any_tense(rng), (goal,))


def journey(rng: Random) -> Pair:
    """They returned from the sea by train last Sunday."""
    clause = _journey(rng, draw_subject(rng))
    if maybe(rng, 0.35):
        clause = extended(clause, draw_circumstance(rng))
    return sentence(draw_statement(rng, replace(clause, negative=maybe(rng, 0.15))))


def giving(rng: Random) -> Pair:
    """We will show the new map to the tourists."""
    frame, subject = rng.choice(lexicon.GIVING), draw_subject(rng)
    clause = draw_clause(rng, frame, subject, draw_any_tense(rng), denied=0.15)
    receiver = prepositional("to", "a", draw_person(rng))
    return sentence(draw_statement(rng, extended(clause, receiver)))


def favour(rng: Random) -> Pair:
    """Anna bought a red hat for her mother."""
    frame, subject = rng.choice(lexicon.FOR_SOMEBODY), draw_subject(rng)
    clause = draw_clause(rng, frame, subject, draw_any_tense(rng), denied=0.15)
    receiver = prepositional("for", "per", draw_person(rng))
    return sentence(draw_statement(rng, extended(clause, receiver)))


def having(rng: Random) -> Pair:
    """My uncle has two dogs and a black horse."""
    first, second = rng.sample(POSSESSIONS, 2)
    owned = _indefinite(rng, first)
    negative = maybe(rng, 0.2)
    if not negative and maybe(rng, 0.5):
        owned = grammar.both(owned, _indefinite(rng, second))
    clause = Clause(draw_subject(rng), lexicon.HAVE, draw_tense(rng), (owned,), negative)
    return sentence(statement(clause))


def _indefinite(rng: Random, noun: Noun) -> Nominal:
    adjectives = draw_adjectives(rng, noun, 0.3)
    if "singular" in noun.numbers and maybe(rng, 0.6):
        return noun_phrase(noun, "a", "singular", adjectives)
    return noun_phrase(noun, rng.choice((*NUMBERS, "many")), "plural", adjectives)


def wish(rng: Random) -> Pair:
    """The children want to eat an orange in the kitchen."""
    subject, modal = draw_subject(rng), rng.choice((lexicon.CAN, lexicon.MUST, lexicon.WANT))
    negative = maybe(rng, 0.25)
    if maybe(rng, 0.2):
        deed = _journey(rng, subject)
    else:
        deed = draw_clause(rng, rng.choice(ACTIVITIES), subject, "present")
    infinitive = grammar.infinitive(deed.verb, to=modal == lexicon.WANT)
    clause = Clause(subject, modal, "present", (infinitive, *deed.complements), negative)
    if not negative and maybe(rng, 0.25):
        return sentence(question(clause), "?")
    return sentence(statement(clause))


def belonging(rng: Random) -> Pair:
    """Luca found my sister's green umbrella."""
    frame = rng.choice(ACTIONS_ON_BELONGINGS)
    thing = grammar.governed(frame.verb, draw_belonging(rng, rng.choice(POSSESSIONS)))
    clause = Clause(draw_subject(rng), frame.verb, draw_any_tense(rng), (thing,), maybe(rng, 0.2))
    return sentence(draw_statement(rng, clause))


def animal(rng: Random) -> Pair:
    """Some white cats slept in the garden last week."""
    subject = draw_nominal(rng, ANIMALS, described=0.4)
    clause = draw_clause(rng, rng.choice(lexicon.ANIMAL), subject, draw_any_tense(rng))
    return sentence(draw_statement(rng, clause))


# Statements with `be` ----------------------------------------------------------------------------


def quality(rng: Random) -> Pair:
    """Anna's old bicycle was not expensive."""
    noun = rng.choice(DESCRIBED)
    subject = draw_nominal(rng, (noun,), described=0.0)
    if noun.kind == "person" and maybe(rng, 0.5):
        subject = draw_subject(rng)
        noun = lexicon.NOUNS["friend"]  # whose adjectives suit everybody
    elif maybe(rng, 0.15):
        noun = rng.choice(POSSESSIONS)
        subject = draw_belonging(rng, noun)
    fitting = lexicon.FITTING[noun]
    adjective = rng.choice((*fitting.before, *fitting.after, *fitting.of_sort))
    complement = grammar.predicative(adjective, subject)
    clause = Clause(subject, BE, draw_tense(rng), (complement,), maybe(rng, 0.2))
    if not clause.negative and maybe(rng, 0.2):
        return sentence(question(clause), "?")
    return sentence(statement(clause))


def _feeling(rng: Random, feelings: tuple[Adjective | Phrase, ...], clause: Clause) -> Clause:
    """The subject of a clause, taken up by a pronoun, has one of the feelings at the same time."""
    feeling, subject = rng.choice(feelings), grammar.pronoun_for(clause.subject)
    if isinstance(feeling, Adjective):
        return Clause(subject, BE, clause.tense, (grammar.predicative(feeling, subject),))
    return Clause(subject, lexicon.FEEL, clause.tense, (feeling,))


def reason(rng: Random) -> Pair:
    """The girls drink some water because they are thirsty."""
    frame, feelings = rng.choice(lexicon.REASONS)
    tense = "past" if maybe(rng, 0.45) else "present"
    clause = draw_clause(rng, frame, draw_subject(rng), tense)
    conjunction = WHEN if tense == "present" and maybe(rng, 0.4) else BECAUSE
    cause = statement(_feeling(rng, feelings, clause))
    return sentence(together(statement(clause), conjunction, cause))


def comparison(rng: Random) -> Pair:
    """This novel is more interesting than my book."""
    first, second = rng.sample(rng.choice(ALIKE), 2)
    shared = [
        adjective
        for fitting in (lexicon.FITTING[first].before, lexicon.FITTING[first].after)
        for adjective in fitting
        if adjective in (*lexicon.FITTING[second].before, *lexicon.FITTING[second].after)
        and adjective.english != "good"  # better, migliore
    ]
    subject, other = (_definite(rng, noun) for noun in (first, second))
    complement = grammar.compared(rng.choice(shared), subject, other)
    clause = Clause(subject, BE, draw_tense(rng), (complement,), maybe(rng, 0.15))
    return sentence(statement(clause))


def _definite(rng: Random, noun: Noun) -> Nominal:
    if noun in PEOPLE and maybe(rng, 0.3):
        return rng.choice(lexicon.NAMES)
    return noun_phrase(noun, rng.choice(("the", "the", "this", "that")), rng.choice(noun.numbers))


def whereabouts(rng: Random) -> Pair:
    """The keys are under the newspaper."""
    if maybe(rng, 0.6):
        subject, place = draw_nominal(rng, SMALL_THINGS, affirmative=False), draw_spot(rng)
    else:
        subject, place = draw_subject(rng), draw_place(rng, GOALS, "at")
    clause = Clause(subject, BE, draw_any_tense(rng), (place,), maybe(rng, 0.15))
    if not clause.negative and maybe(rng, 0.25):
        return sentence(question(clause), "?")
    return sentence(draw_time(rng, statement(clause), clause, chance=0.25))


def presence(rng: Random) -> Pair:
    """There are two cats under the table."""
    found = _indefinite(rng, rng.choice((*SMALL_THINGS, *lexicon.nouns("pet"))))
    there = Nominal("there", "", found.agreement)
    clause = Clause(there, lexicon.BE_THERE, draw_tense(rng), (found, draw_spot(rng)))
    if maybe(rng, 0.35):
        return sentence(question(clause), "?")
    return sentence(statement(clause))


def putting(rng: Random) -> Pair:
    """My grandmother put the letter in the drawer yesterday."""
    thing = draw_nominal(rng, SMALL_THINGS)
    clause = Clause(draw_subject(rng), lexicon.PUT, draw_any_tense(rng), (thing, draw_spot(rng)))
    return sentence(draw_time(rng, statement(clause), clause, chance=0.2))


# Questions ---------------------------------------------------------------------------------------


def yes_or_no(rng: Random) -> Pair:
    """Did the engineer repair the car?"""
    subject = draw_subject(rng)
    if maybe(rng, 0.2):
        clause = _journey(rng, subject)
    else:
        frame = rng.choice((*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE))
        tense = draw_tense(rng, frame.verb)
        clause = Clause(
            subject,
            frame.verb,
            tense,
            (*draw_object(rng, frame, affirmative=False), *draw_location(rng, frame, 0.4)),
        )
    return sentence(draw_time(rng, question(clause), clause, 0.4, in_front=False), "?")


def where(rng: Random) -> Pair:
    """Where did you buy these shoes?"""
    frame = rng.choice([f for f in ACTIVITIES if f.places])
    # Italian puts the subject behind the verb, where an object leaves no room for it.
    subject = draw_pronoun(rng) if frame.objects else draw_subject(rng)
    objects = draw_object(rng, frame, affirmative=False)
    clause = Clause(subject, frame.verb, draw_tense(rng, frame.verb), objects)
    asked = question(clause, Phrase("where", "dove"), inverted=True)
    return sentence(draw_time(rng, asked, clause, 0.6, in_front=False), "?")


def when(rng: Random) -> Pair:
    """When will the tourists arrive in Rome?"""
    if maybe(rng, 0.5):
        clause = _journey(rng, draw_subject(rng))
    else:
        frame = rng.choice(TRANSITIVE_ACTIONS)
        clause = draw_clause(rng, frame, draw_pronoun(rng), draw_tense(rng, frame.verb))
    return sentence(question(clause, Phrase("when", "quando"), inverted=True), "?")


def why(rng: Random) -> Pair:
    """Why did the child sell his bicycle?"""
    frame = rng.choice(ACTIVITIES)
    clause = draw_clause(rng, frame, draw_subject(rng), draw_tense(rng, frame.verb))
    return sentence(question(clause, Phrase("why", "perché")), "?")


def what(rng: Random) -> Pair:
    """What did the boy buy at the market?"""
    frame = rng.choice(ACTIONS_ON_THINGS)
    clause = Clause(
        draw_subject(rng),
        frame.verb,
        draw_tense(rng, frame.verb),
        draw_location(rng, frame, 0.7),
    )
    asked = question(clause, Phrase("what", "che cosa"), inverted=True)
    return sentence(draw_time(rng, asked, clause, 0.4, in_front=False), "?")


def which(rng: Random) -> Pair:
    """How many oranges do you eat every day?"""
    frame = rng.choice(ACTIONS_ON_COUNTED)
    noun = rng.choice(frame.objects)
    if maybe(rng, 0.6):
        word = noun_phrase(noun, "how many", "plural", draw_adjectives(rng, noun, 0.3))
    else:
        word = noun_phrase(noun, "which", rng.choice(noun.numbers))
    clause = Clause(
        draw_subject(rng), frame.verb, draw_tense(rng, frame.verb), draw_location(rng, frame, 0.4)
    )
    asked = question(clause, word, inverted=True)
    return sentence(draw_time(rng, asked, clause, 0.4, in_front=False), "?")


def who(rng: Random) -> Pair:
    """Who opened the window this morning?"""
    if maybe(rng, 0.35):
        frame = rng.choice(ACTIONS_ON_PEOPLE)
        places = draw_location(rng, frame, 0.8)
        clause = Clause(draw_pronoun(rng), frame.verb, draw_tense(rng, frame.verb), places)
        asked = question(clause, Phrase("who", "chi"), inverted=True)
    else:
        frame = rng.choice((*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE))
        clause = draw_clause(rng, frame, WHO, draw_tense(rng, frame.verb))
        asked = statement(clause)
    return sentence(draw_time(rng, asked, clause, 0.4, in_front=False), "?")


# Sentences of two parts --------------------------------------------------------------------------


def two_people(rng: Random) -> Pair:
    """My father drinks some wine but Maria drinks some water."""
    frames = [rng.choice(ACTIVITIES)] * 2 if maybe(rng, 0.4) else rng.sample(ACTIVITIES, 2)
    tense = draw_tense(rng, *(frame.verb for frame in frames))
    clauses = [
        draw_clause(rng, frame, subject, tense)
        for frame, subject in zip(frames, (draw_subject(rng), draw_person(rng)), strict=True)
    ]
    conjunction = BUT if frames[0] == frames[1] else AND
    return sentence(together(statement(clauses[0]), conjunction, statement(clauses[1])))


def two_actions(rng: Random) -> Pair:
    """The boy closed the door and opened the window."""
    first, second = rng.sample(ACTIVITIES, 2)
    subject, tense = draw_subject(rng), draw_tense(rng, first.verb, second.verb)
    clauses = [draw_clause(rng, frame, subject, tense) for frame in (first, second)]
    return sentence(together(statement(clauses[0]), AND, predicate(clauses[1])))


def acquaintance(rng: Random) -> Pair:
    """I know the woman who works at the bank."""
    relative = rng.choice((*ACTIVITIES, *_frames(lexicon.INTRANSITIVE, "live")))
    noun, number = rng.choice(PEOPLE), rng.choice(("singular", "plural"))
    person = noun_phrase(noun, rng.choice(("the", "the", "this", "that")), number)
    deed = draw_clause(rng, relative, person, draw_tense(rng, relative.verb))
    described = grammar.with_relative(deed)
    frame = rng.choice(MEETINGS)
    clause = Clause(
        draw_subject(rng),
        frame.verb,
        draw_tense(rng, frame.verb),
        (grammar.governed(frame.verb, described),),
    )
    return sentence(statement(clause))


PATTERNS: tuple[Callable[[Random], Pair], ...] = (
    *(action, activity, journey, giving, favour, having, wish, belonging, animal),
    *(quality, reason, comparison, whereabouts, presence, putting),
    *(yes_or_no, where, when, why, what, which, who),
    *(two_people, two_actions, acquaintance),
)
