"""Random noun phrases, complements and clauses from words that fit together."""

from dataclasses import replace
from random import Random
from typing import Literal

from tools.demo_grammar import english, lexicon, phrases
from tools.demo_grammar.lexicon import (
    ADJECTIVES_OF,
    CITIES,
    JOURNEYS,
    NAMES,
    Frame,
    Locality,
    invented,
    invented_person,
    nouns,
)
from tools.demo_grammar.phrases import (
    BE,
    EMPTY,
    NEVER,
    NOT,
    NUMBERS,
    POSSESSIVES,
    Clause,
    Nominal,
    Noun,
    Pair,
    Phrase,
    Place,
    Verb,
    sentence,
)
from tools.demo_grammar.tables import Number, Tense

PEOPLE, FAMILY = nouns("people"), nouns("family")
OWNERS = tuple(noun for noun in FAMILY if "singular" in noun.numbers)
COMPANIONS = nouns("family", "acquaintance", "dog")
CARRIED = nouns("umbrella", "backpack", "coat", "phone", "suitcase", "hat", "jacket", "key")
NOT_OWNED = {"person", "wildlife", "sight", "show", "place", "public", "opening", "building"}
# "definite": the, this, my; "negatable": also a, many and numbers; "any": also some and all the,
# which sound wrong in negations and questions.
DeterminerSet = Literal["definite", "negatable", "any"]
# Not with "every Monday".
NOT_HABITUAL = {"lose", "find", "forget", "break", "fall from", "build"}


def weighted_determiners(noun: Noun, number: Number, allowed: DeterminerSet) -> dict[str, int]:
    """The determiners that fit a noun, with their weights."""
    if noun.kind in ("subject", "language"):
        return {"": 1}
    if noun.kind == "spouse":
        return {"my": 2, "your": 1, "his" if noun.gender == "f" else "her": 1}
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
    return weights


def past_equals_present(verb: Verb) -> bool:
    """Whether the past looks like the present ("they read", "they put")."""
    return english.past(verb.english) == verb.english


class Sampler(Random):
    """Draws phrases and clauses; every method takes its random numbers in a fixed order.

    Another order would give another corpus.
    """

    def maybe(self, probability: float) -> bool:
        return self.random() < probability

    def adjectives(self, noun: Noun, probability: float) -> tuple[phrases.Adjective, ...]:
        """No adjective, one, or two that combine, in English order."""
        fitting = [a for a in ADJECTIVES_OF[noun] if a.position != "predicative"]
        if not fitting or not self.maybe(probability):
            return ()
        before = [adjective for adjective in fitting if adjective.position == "before"]
        classifying = [adjective for adjective in fitting if adjective.position == "classifying"]
        if before and classifying and self.maybe(0.25):
            return self.choice(before), self.choice(classifying)
        return (self.choice(fitting),)

    def nominal(
        self, options: tuple[Noun, ...], allowed: DeterminerSet, described: float = 0.3
    ) -> Nominal:
        """A noun phrase with one of the nouns; `described` is the probability of adjectives."""
        noun = self.choice(options)
        number = self.choice(noun.numbers)
        weights = weighted_determiners(noun, number, allowed)
        determiner = self.choices(list(weights), list(weights.values()))[0]
        return phrases.noun_phrase(noun, determiner, number, self.adjectives(noun, described))

    def indefinite(self, noun: Noun) -> Nominal:
        """An indefinite noun phrase: "a red car", "two dogs"."""
        adjectives = self.adjectives(noun, 0.3)
        if "singular" in noun.numbers and self.maybe(0.6):
            return phrases.noun_phrase(noun, "a", "singular", adjectives)
        return phrases.noun_phrase(noun, self.choice((*NUMBERS, "many")), "plural", adjectives)

    def possessive(self, noun: Noun) -> Nominal:
        """The noun with an owner: "Anna's old bicycle"."""
        owner = self.name()
        if self.maybe(0.5):
            owner = phrases.noun_phrase(self.choice(OWNERS), self.choice(tuple(POSSESSIVES)))
        number = self.choice(noun.numbers)
        return phrases.possessive(owner, noun, number, self.adjectives(noun, 0.3))

    def name(self, known_gender: bool = True) -> Nominal:
        """A person by name, real or invented; for phrases without agreement, of either gender."""
        return self.choice(NAMES) if self.maybe(0.5) else invented_person(self, known_gender)

    def city(self) -> Phrase:
        """A city, real or invented."""
        if self.maybe(0.7):
            return self.choice(CITIES)
        name = invented(self, "city_ends")
        return Phrase(name, name)

    def definite(self, options: tuple[Noun, ...], described: float = 0.2) -> Nominal:
        """A definite noun phrase, perhaps with an owner: "the red car", "Anna's dog"."""
        ownable = [noun for noun in options if noun.kind not in NOT_OWNED]
        if ownable and self.maybe(0.15):
            return self.possessive(self.choice(ownable))
        return self.nominal(options, "definite", described)

    def person(self) -> Nominal:
        """A person by name or by noun phrase, not by pronoun."""
        number = self.random()
        if number < 0.2:
            return self.name()
        if number < 0.27:
            return phrases.conjoined(self.name(), self.name())
        return self.nominal(FAMILY if number < 0.5 else PEOPLE, "negatable", described=0.25)

    def pronoun(self) -> Nominal:
        return self.choices(tuple(phrases.PRONOUNS.values()), (4, 4, 3, 3, 3, 1, 3))[0]

    def subject(self, pronoun: float = 0.55) -> Nominal:
        """A pronoun, name or noun phrase for a person; `pronoun` is the probability of one."""
        return self.pronoun() if self.maybe(pronoun) else self.person()

    def object_of(self, frame: Frame, allowed: DeterminerSet) -> tuple[Phrase, ...]:
        """An object of the verb; nothing if it is intransitive."""
        if not frame.objects:
            return ()
        if frame.verb.preposition and allowed == "any":
            allowed = "negatable"  # without "da degli alberghi"
        nominal = self.nominal(frame.objects, allowed)
        return (phrases.prepositional("", frame.verb.preposition, nominal),)

    def place(self, places: tuple[Place | Locality, ...], direction: str) -> Phrase:
        """One of the places, with the preposition of the direction (see `place_phrase`)."""
        place = self.choice(places)
        if not isinstance(place, Place):
            return place[direction]
        adjectives = self.adjectives(place.noun, 0.25)
        determiner = "a" if adjectives and self.maybe(0.3) else "the"
        return phrases.place_phrase(place, direction, determiner, adjectives)

    def location(self, frame: Frame, probability: float) -> tuple[Phrase, ...]:
        """Perhaps a place of the action, if the verb has places."""
        if frame.places and self.maybe(probability):
            return (self.place(frame.places, "at"),)
        return ()

    def spot(self) -> Phrase:
        """A location of a small thing: "under the old table"."""
        preposition, options = self.choice(lexicon.SPOTS)
        noun = self.choice(options)
        determiner = "the" if self.maybe(0.8) else self.choice(("a", "this", "that"))
        nominal = phrases.noun_phrase(noun, determiner, adjectives=self.adjectives(noun, 0.25))
        return phrases.prepositional(preposition.english, preposition.italian, nominal)

    def company(self) -> Phrase:
        """ "with Anna", "with my brother"."""
        if self.maybe(0.25):
            return phrases.prepositional("with", "con", self.name())
        noun = self.choice(COMPANIONS)
        determiner, number = self.choice(tuple(POSSESSIVES)), self.choice(noun.numbers)
        companion = phrases.noun_phrase(noun, determiner, number)
        return phrases.prepositional("with", "con", companion)

    def travel_adverbial(self) -> Phrase:
        """ "by train", "with my brother", "without the umbrella"."""
        number = self.random()
        if number < 0.4:
            return self.choice(lexicon.TRANSPORT)
        if number < 0.75:
            return self.company()
        left_behind = phrases.noun_phrase(self.choice(CARRIED), "the")
        return phrases.prepositional("without", "senza", left_behind)

    def any_tense(self) -> Tense:
        """A tense for a clause that is passed to `with_time`."""
        tenses: tuple[Tense, ...] = ("present", "past", "future")
        return self.choices(tenses, (40, 35, 25))[0]

    def tense(self, *verbs: Verb) -> Tense:
        """A tense that is clear from the verb forms alone, without a time expression."""
        tense = self.any_tense()
        unclear = tense == "past" and any(past_equals_present(verb) for verb in verbs)
        return "future" if unclear else tense

    def with_time(
        self, phrase: Phrase, clause: Clause, probability: float = 0.5, in_front: bool = True
    ) -> Phrase:
        """`phrase`, which expresses `clause`, perhaps with a time expression after or before it.

        A past that looks like the present always gets one; a stative verb other than `be` never
        does.
        """
        if clause.tense not in lexicon.TIMES:
            return phrase
        negative = clause.adverb == NOT
        habitual = not negative and clause.verb.english not in NOT_HABITUAL
        timeless = clause.verb.stative and clause.verb != BE
        timeless |= clause.tense == "present" and not habitual
        timeless |= not negative and clause.adverb != EMPTY
        needed = clause.tense == "past" and past_equals_present(clause.verb)
        if not needed and (timeless or not self.maybe(probability)):
            return phrase
        time = self.choice(self.choice(lexicon.TIMES[clause.tense]))
        parts = (time, phrase) if in_front and self.maybe(0.3) else (phrase, time)
        return phrases.join(*parts)

    def negation(self, probability: float) -> Phrase:
        """Perhaps `NOT`, as the adverb of a clause."""
        return NOT if self.maybe(probability) else EMPTY

    def negated(self, clause: Clause) -> Clause:
        """The clause with `not` or with `never`."""
        only_not = clause.verb.stative or past_equals_present(clause.verb)
        return replace(clause, adverb=NOT if only_not or not self.maybe(0.3) else NEVER)

    def clause(self, frame: Frame, subject: Nominal, tense: Tense, negated: float = 0.0) -> Clause:
        """The verb with an object and perhaps a place; `negated` is the chance of a negation."""
        negates = self.maybe(negated)
        objects = self.object_of(frame, "negatable" if negates else "any")
        location = self.location(frame, 0.35 if frame.objects else 1.0)
        clause = Clause(subject, frame.verb, tense, (*objects, *location))
        return self.negated(clause) if negates else clause

    def journey(self) -> Clause:
        """Somebody goes to a place or comes from it."""
        frame = self.choice(JOURNEYS)
        subject, tense = self.subject(), self.any_tense()
        return Clause(subject, frame.verb, tense, (self.place(frame.places, frame.notes[0]),))

    def statement(self, clause: Clause) -> Phrase:
        """The clause as a statement, perhaps with an adverb of frequency or a time expression."""
        adverbs = lexicon.FREQUENCY_ADVERBS[clause.tense]
        takes_adverb = adverbs and not clause.verb.stative and clause.adverb == EMPTY
        if takes_adverb and self.maybe(0.2):
            return replace(clause, adverb=self.choice(adverbs)).statement()
        return self.with_time(clause.statement(), clause)

    def ask_or_state(self, clause: Clause, question_probability: float = 0.3) -> Pair:
        """The clause as a sentence; one with `not` always as a statement."""
        if clause.adverb != NOT and self.maybe(question_probability):
            return sentence(clause.question(), "?")
        return sentence(clause.statement())
