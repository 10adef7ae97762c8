"""Random noun phrases, complements and clauses from words that fit together.

Every function takes its random numbers from `rng` in a fixed order: another order would give
another corpus.
"""

from dataclasses import replace
from functools import cache
from itertools import accumulate
from random import Random
from typing import Literal

from tools.demo_grammar import adverbials, english
from tools.demo_grammar.agreement import Number, Tense
from tools.demo_grammar.clauses import BE, NEVER, Clause, Verb, object_phrase, statement
from tools.demo_grammar.frames import JOURNEYS, Frame
from tools.demo_grammar.lexicon import ADJECTIVES_OF, NAMES, Locality, nouns
from tools.demo_grammar.phrases import (
    NUMBERS,
    POSSESSIVES,
    PRONOUNS,
    Adjective,
    Direction,
    Nominal,
    Noun,
    Phrase,
    Place,
    conjoined,
    join,
    noun_phrase,
    place_phrase,
    possessive,
    prepositional,
)

PEOPLE, FAMILY = nouns("people"), nouns("family")
COMPANIONS = nouns("family", "acquaintance", "dog")
CARRIED = nouns("umbrella", "backpack", "coat", "phone", "suitcase", "hat", "jacket", "key")
POSSESSIONS = nouns("pet", "vehicle", "instrument", "tool", "luggage")
NOT_OWNED = {"person", "wildlife", "sight", "show", "place", "opening", "building"}
# "definite": the, this, my; "negatable": also a, many and numbers; "any": also some and all the,
# which sound wrong in negations and questions.
DeterminerSet = Literal["definite", "negatable", "any"]
# Not with "every Monday".
NOT_HABITUAL = {"lose", "find", "forget", "break", "fall from", "build"}
ALL_PRONOUNS, ALL_POSSESSIVES = tuple(PRONOUNS.values()), tuple(POSSESSIVES)


def maybe(rng: Random, probability: float) -> bool:
    """True with the given probability."""
    return rng.random() < probability


@cache
def weighted_determiners(
    noun: Noun, number: Number, allowed: DeterminerSet
) -> tuple[list[str], list[int]]:
    """The determiners that fit a noun, with their cumulative weights."""
    if noun.kind == "subject":
        return [""], [1]
    weights: dict[str, int] = {}
    countable = "plural" in noun.numbers
    if noun.kind != "family":
        weights |= {"the": 20, "this": 3, "that": 3}
    if noun.kind not in NOT_OWNED:
        weights |= dict.fromkeys(POSSESSIVES, 2)
    if allowed != "definite" and noun.kind != "family":
        if number == "plural":
            weights |= {"many": 2, **dict.fromkeys(NUMBERS, 1)}
        elif countable:
            weights["a"] = 12
        if allowed == "any" and (number == "plural" or not countable):
            weights["some"] = 8
        if allowed == "any" and number == "plural":
            weights["all the"] = 2
    return list(weights), list(accumulate(weights.values()))


def draw_adjectives(rng: Random, noun: Noun, probability: float) -> tuple[Adjective, ...]:
    """No adjective, one, or two that combine, in English order."""
    fitting = ADJECTIVES_OF[noun]
    if not fitting.all or not maybe(rng, probability):
        return ()
    if fitting.before and fitting.classifying and maybe(rng, 0.25):
        return rng.choice(fitting.before), rng.choice(fitting.classifying)
    return (rng.choice(fitting.all),)


def draw_nominal(
    rng: Random, options: tuple[Noun, ...], allowed: DeterminerSet, described: float = 0.3
) -> Nominal:
    """A noun phrase with one of the nouns; `described` is the probability of adjectives."""
    noun = rng.choice(options)
    number = rng.choice(noun.numbers)
    determiners, weights = weighted_determiners(noun, number, allowed)
    determiner = rng.choices(determiners, cum_weights=weights)[0]
    return noun_phrase(noun, determiner, number, draw_adjectives(rng, noun, described))


def draw_indefinite(rng: Random, noun: Noun) -> Nominal:
    """An indefinite noun phrase: "a red car", "two dogs"."""
    adjectives = draw_adjectives(rng, noun, 0.3)
    if "singular" in noun.numbers and maybe(rng, 0.6):
        return noun_phrase(noun, "a", "singular", adjectives)
    return noun_phrase(noun, rng.choice((*NUMBERS, "many")), "plural", adjectives)


def draw_possessive(rng: Random, noun: Noun) -> Nominal:
    """The noun with an owner: "Anna's old bicycle"."""
    owner = rng.choice(NAMES)
    if maybe(rng, 0.5):
        owner = noun_phrase(rng.choice(FAMILY), rng.choice(ALL_POSSESSIVES))
    return possessive(owner, noun, rng.choice(noun.numbers), draw_adjectives(rng, noun, 0.3))


def draw_person(rng: Random) -> Nominal:
    """A person by name or by noun phrase, not by pronoun."""
    number = rng.random()
    if number < 0.2:
        return rng.choice(NAMES)
    if number < 0.27:
        return conjoined(*rng.sample(NAMES, 2))
    return draw_nominal(rng, FAMILY if number < 0.5 else PEOPLE, "negatable", described=0.25)


def draw_pronoun(rng: Random) -> Nominal:
    """A personal pronoun."""
    return rng.choice(ALL_PRONOUNS)


def draw_subject(rng: Random) -> Nominal:
    """A pronoun, name or noun phrase for a person."""
    return draw_pronoun(rng) if maybe(rng, 0.55) else draw_person(rng)


def draw_object(rng: Random, frame: Frame, allowed: DeterminerSet) -> tuple[Phrase, ...]:
    """An object of the verb; nothing if it is intransitive."""
    if not frame.objects:
        return ()
    return (object_phrase(frame.verb, draw_nominal(rng, frame.objects, allowed)),)


def draw_place(rng: Random, places: tuple[Place | Locality, ...], direction: Direction) -> Phrase:
    """One of the places, with the preposition of the direction."""
    place = rng.choice(places)
    if isinstance(place, Locality):
        return {"to": place.to, "from": place.origin}.get(direction, place.at)
    adjectives = draw_adjectives(rng, place.noun, 0.25)
    determiner = "a" if adjectives and maybe(rng, 0.3) else "the"
    return place_phrase(place, direction, determiner, adjectives)


def draw_location(rng: Random, frame: Frame, probability: float) -> tuple[Phrase, ...]:
    """Perhaps a place of the action, if the verb has places."""
    if frame.places and maybe(rng, probability):
        return (draw_place(rng, frame.places, "at"),)
    return ()


def draw_spot(rng: Random) -> Phrase:
    """A location of a small thing: "under the old table"."""
    spot = rng.choice(adverbials.SPOTS)
    noun = rng.choice(spot.nouns)
    determiner = "the" if maybe(rng, 0.8) else rng.choice(("a", "this", "that"))
    nominal = noun_phrase(noun, determiner, adjectives=draw_adjectives(rng, noun, 0.25))
    return prepositional(spot.english, spot.italian, nominal)


def draw_company(rng: Random) -> Phrase:
    """ "with Anna", "with my brother"."""
    if maybe(rng, 0.25):
        return prepositional("with", "con", rng.choice(NAMES))
    noun = rng.choice(COMPANIONS)
    companion = noun_phrase(noun, rng.choice(ALL_POSSESSIVES), rng.choice(noun.numbers))
    return prepositional("with", "con", companion)


def draw_travel_adverbial(rng: Random) -> Phrase:
    """ "by train", "with my brother", "without the umbrella"."""
    number = rng.random()
    if number < 0.4:
        return rng.choice(adverbials.TRANSPORT)
    if number < 0.75:
        return draw_company(rng)
    return prepositional("without", "senza", noun_phrase(rng.choice(CARRIED), "the"))


def past_equals_present(verb: Verb) -> bool:
    """Whether the past looks like the present ("they read", "they put")."""
    return english.past(verb.english) == verb.english


def draw_tense(rng: Random, *verbs: Verb) -> Tense:
    """A tense that is clear from the verb forms alone, without a time expression."""
    tense = draw_any_tense(rng)
    if tense == "past" and any(past_equals_present(verb) for verb in verbs):
        return "future"
    return tense


def draw_any_tense(rng: Random) -> Tense:
    """A tense for a clause that is passed to `draw_time`."""
    return rng.choices(("present", "past", "future"), cum_weights=(40, 75, 100))[0]


def draw_time(
    rng: Random, phrase: Phrase, clause: Clause, probability: float = 0.5, in_front: bool = True
) -> Phrase:
    """`phrase`, which expresses `clause`, perhaps with a time expression after or before it.

    A past that looks like the present always gets one; a stative verb other than `be` never does.
    """
    needed = clause.tense == "past" and past_equals_present(clause.verb)
    timeless = clause.verb.stative and clause.verb != BE
    timeless |= clause.tense == "present" and (
        clause.negative or clause.verb.english in NOT_HABITUAL
    )
    if not needed and (timeless or clause.adverb or not maybe(rng, probability)):
        return phrase
    time = rng.choice(rng.choice(adverbials.TIMES[clause.tense]))
    return join(time, phrase) if in_front and maybe(rng, 0.3) else join(phrase, time)


def negate(rng: Random, clause: Clause) -> Clause:
    """The clause with `not` or with `never`."""
    if clause.verb.stative or past_equals_present(clause.verb) or not maybe(rng, 0.3):
        return replace(clause, negative=True)
    return replace(clause, adverb=NEVER)


def draw_clause(
    rng: Random, frame: Frame, subject: Nominal, tense: Tense, negated: float = 0.0
) -> Clause:
    """The verb with an object and perhaps a place; `negated` is the probability of a negation."""
    negates = maybe(rng, negated)
    complements = (
        *draw_object(rng, frame, "negatable" if negates else "any"),
        *draw_location(rng, frame, 0.35 if frame.objects else 1.0),
    )
    clause = Clause(subject, frame.verb, tense, complements)
    return negate(rng, clause) if negates else clause


def draw_journey(rng: Random) -> Clause:
    """Somebody goes to a place or comes from it."""
    verb, direction, places = rng.choice(JOURNEYS)
    subject, tense = draw_subject(rng), draw_any_tense(rng)
    return Clause(subject, verb, tense, (draw_place(rng, places, direction),))


def draw_statement(rng: Random, clause: Clause) -> Phrase:
    """The clause as a statement, perhaps with an adverb of frequency or a time expression."""
    adverbs = adverbials.FREQUENCY_ADVERBS[clause.tense]
    takes_adverb = adverbs and not (clause.verb.stative or clause.negative or clause.adverb)
    if takes_adverb and maybe(rng, 0.2):
        return statement(replace(clause, adverb=rng.choice(adverbs)))
    return draw_time(rng, statement(clause), clause)
