"""Random choices of what goes together: noun phrases, complements and clauses with good sense."""

from dataclasses import replace
from functools import cache
from itertools import accumulate
from random import Random
from typing import Literal

from translate_ddp.data.demo import english, grammar, italian, lexicon
from translate_ddp.data.demo.agreement import Number, Tense
from translate_ddp.data.demo.grammar import (
    NEVER,
    NUMBERS,
    POSSESSIVES,
    PRONOUNS,
    Adjective,
    Clause,
    Nominal,
    Noun,
    Phrase,
    Place,
    Verb,
    Way,
    join,
    noun_phrase,
    prepositional,
    statement,
)
from translate_ddp.data.demo.lexicon import Frame, Locality, nouns

PEOPLE, FAMILY = nouns("people"), nouns("family")
COMPANIONS = nouns("family", "acquaintance", "dog")
CARRIED = nouns("umbrella", "backpack", "coat", "phone", "suitcase", "hat", "jacket", "key")
POSSESSIONS = nouns("pet", "vehicle", "instrument", "tool", "luggage")
NOT_OWNED = {"person", "wildlife", "sight", "show", "place", "opening", "building"}
# Which determiners: those of known things; also a, many and numbers; also some and all the, which
# go ill with denials and questions.
Choice = Literal["definite", "deniable", "any"]
ONCE = {"lose", "find", "forget", "break", "fall from", "build"}  # nobody does it every Monday
ANY_PRONOUN, ANY_POSSESSIVE = tuple(PRONOUNS.values()), tuple(POSSESSIVES)


def maybe(rng: Random, chance: float) -> bool:
    """True with that chance."""
    return rng.random() < chance


# Noun phrases ------------------------------------------------------------------------------------


@cache
def determiners(noun: Noun, number: Number, choice: Choice) -> tuple[list[str], list[int]]:
    """What may stand before a noun, with cumulative weights."""
    if noun.kind == "subject":
        return [""], [1]
    weights: dict[str, int] = {}
    countable = "plural" in noun.numbers
    if noun.kind != "family":
        weights |= {"the": 20, "this": 3, "that": 3}
    if noun.kind not in NOT_OWNED:
        weights |= dict.fromkeys(POSSESSIVES, 2)
    if choice != "definite" and noun.kind != "family":
        if number == "plural":
            weights |= {"many": 2, **dict.fromkeys(NUMBERS, 1)}
        elif countable:
            weights["a"] = 12
        if choice == "any" and (number == "plural" or not countable):
            weights["some"] = 8
        if choice == "any" and number == "plural":
            weights["all the"] = 2
    return list(weights), list(accumulate(weights.values()))


def draw_adjectives(rng: Random, noun: Noun, chance: float) -> tuple[Adjective, ...]:
    """No adjective, one, or a fitting pair, in English order."""
    fitting = lexicon.FITTING[noun]
    if not fitting.all or not maybe(rng, chance):
        return ()
    if fitting.before and fitting.of_sort and maybe(rng, 0.25):
        return rng.choice(fitting.before), rng.choice(fitting.of_sort)
    return (rng.choice(fitting.all),)


def draw_nominal(
    rng: Random, options: tuple[Noun, ...], choice: Choice, described: float = 0.3
) -> Nominal:
    """A noun phrase with one of the nouns; `described` is the chance of an adjective."""
    noun = rng.choice(options)
    number = rng.choice(noun.numbers)
    choices, weights = determiners(noun, number, choice)
    determiner = rng.choices(choices, cum_weights=weights)[0]
    return noun_phrase(noun, determiner, number, draw_adjectives(rng, noun, described))


def draw_indefinite(rng: Random, noun: Noun) -> Nominal:
    """One or several of a kind: "a red car", "two dogs"."""
    adjectives = draw_adjectives(rng, noun, 0.3)
    if "singular" in noun.numbers and maybe(rng, 0.6):
        return noun_phrase(noun, "a", "singular", adjectives)
    return noun_phrase(noun, rng.choice((*NUMBERS, "many")), "plural", adjectives)


def draw_belonging(rng: Random, noun: Noun) -> Nominal:
    """Something of somebody: "Anna's old bicycle"."""
    owner = rng.choice(lexicon.NAMES)
    if maybe(rng, 0.5):
        owner = noun_phrase(rng.choice(FAMILY), rng.choice(ANY_POSSESSIVE))
    return grammar.owned_by(owner, noun, rng.choice(noun.numbers), draw_adjectives(rng, noun, 0.3))


def draw_person(rng: Random) -> Nominal:
    """Somebody named or described, not a pronoun."""
    die = rng.random()
    if die < 0.2:
        return rng.choice(lexicon.NAMES)
    if die < 0.27:
        return grammar.both(*rng.sample(lexicon.NAMES, 2))
    return draw_nominal(rng, FAMILY if die < 0.5 else PEOPLE, "deniable", described=0.25)


def draw_pronoun(rng: Random) -> Nominal:
    """I, you, he and so on."""
    return rng.choice(ANY_PRONOUN)


def draw_subject(rng: Random) -> Nominal:
    """A pronoun, or somebody named or described."""
    return draw_pronoun(rng) if maybe(rng, 0.55) else draw_person(rng)


# Complements -------------------------------------------------------------------------------------


def draw_object(rng: Random, frame: Frame, choice: Choice) -> tuple[Phrase, ...]:
    """The object of a verb, if it takes one."""
    if not frame.objects:
        return ()
    return (grammar.governed(frame.verb, draw_nominal(rng, frame.objects, choice)),)


def draw_place(rng: Random, places: tuple[Place | Locality, ...], way: Way) -> Phrase:
    """One of the places, in the sense of `way`."""
    place = rng.choice(places)
    if isinstance(place, Locality):
        return {"to": place.to, "from": place.origin}.get(way, place.at)
    adjectives = draw_adjectives(rng, place.noun, 0.25)
    determiner = "a" if adjectives and maybe(rng, 0.3) else "the"
    return grammar.place_phrase(place, way, determiner, adjectives)


def draw_location(rng: Random, frame: Frame, chance: float) -> tuple[Phrase, ...]:
    """Where it happens, if the verb has places for it."""
    return (draw_place(rng, frame.places, "at"),) if frame.places and maybe(rng, chance) else ()


def draw_spot(rng: Random) -> Phrase:
    """Where a small thing lies: "under the old table"."""
    spot = rng.choice(lexicon.SPOTS)
    noun = rng.choice(spot.nouns)
    determiner = "the" if maybe(rng, 0.8) else rng.choice(("a", "this", "that"))
    nominal = noun_phrase(noun, determiner, adjectives=draw_adjectives(rng, noun, 0.25))
    return prepositional(spot.english, spot.italian, nominal)


def draw_company(rng: Random) -> Phrase:
    """With whom: "with my brother"."""
    if maybe(rng, 0.25):
        return prepositional("with", "con", rng.choice(lexicon.NAMES))
    noun = rng.choice(COMPANIONS)
    companion = noun_phrase(noun, rng.choice(ANY_POSSESSIVE), rng.choice(noun.numbers))
    return prepositional("with", "con", companion)


def draw_circumstance(rng: Random) -> Phrase:
    """How one travels, with whom, or without what."""
    die = rng.random()
    if die < 0.4:
        return rng.choice(lexicon.TRANSPORT)
    if die < 0.75:
        return draw_company(rng)
    return prepositional("without", "senza", noun_phrase(rng.choice(CARRIED), "the"))


# Clauses -----------------------------------------------------------------------------------------


def looks_like_present(verb: Verb) -> bool:
    """Whether "they read" leaves the tense open, as it does for verbs like `read` and `put`."""
    return english.past(verb.english) == verb.english


def draw_tense(rng: Random, *verbs: Verb) -> Tense:
    """A tense that all the verbs show without the help of a time expression."""
    tense = draw_any_tense(rng)
    if tense == "past" and any(looks_like_present(verb) for verb in verbs):
        return "future"
    return tense


def draw_any_tense(rng: Random) -> Tense:
    """A tense for a clause that goes through `draw_time`."""
    return rng.choices(("present", "past", "future"), cum_weights=(40, 75, 100))[0]


def draw_time(
    rng: Random, phrase: Phrase, clause: Clause, chance: float = 0.5, in_front: bool = True
) -> Phrase:
    """The finished clause with a time expression behind it or, if allowed, in front; or with none.

    A past that looks like a present always takes one; verbs of state, which last, never do.
    """
    needed = clause.tense == "past" and looks_like_present(clause.verb)
    timeless = clause.verb.italian in italian.STATES and clause.verb != grammar.BE
    timeless |= clause.tense == "present" and (clause.negative or clause.verb.english in ONCE)
    if not needed and (timeless or clause.adverb or not maybe(rng, chance)):
        return phrase
    time = rng.choice(rng.choice(lexicon.TIMES[clause.tense]))
    return join(time, phrase) if in_front and maybe(rng, 0.3) else join(phrase, time)


def deny(rng: Random, clause: Clause) -> Clause:
    """The clause with `not` or with `never`."""
    lasts = clause.verb.italian in italian.STATES
    if lasts or looks_like_present(clause.verb) or not maybe(rng, 0.3):
        return replace(clause, negative=True)
    return replace(clause, adverb=NEVER)


def draw_clause(
    rng: Random, frame: Frame, subject: Nominal, tense: Tense, denied: float = 0.0
) -> Clause:
    """The verb with its object and place; `denied` is the chance of `not` or `never`."""
    denies = maybe(rng, denied)
    complements = (
        *draw_object(rng, frame, "deniable" if denies else "any"),
        *draw_location(rng, frame, 0.35 if frame.objects else 1.0),
    )
    clause = Clause(subject, frame.verb, tense, complements)
    return deny(rng, clause) if denies else clause


def draw_statement(rng: Random, clause: Clause) -> Phrase:
    """The clause as a statement, perhaps with an adverb or with a time."""
    adverbs = lexicon.ADVERBS[clause.tense]
    recurs = adverbs and clause.verb.italian not in italian.STATES
    if recurs and not clause.negative and not clause.adverb and maybe(rng, 0.2):
        return statement(replace(clause, adverb=rng.choice(adverbs)))
    return draw_time(rng, statement(clause), clause)
