"""Nouns, noun phrases and places in both languages.

The Italian is a function of the English: `you` is always singular (tu), `you all` is voi. Where
English does not show gender (I, you, we, they, friend), Italian is masculine.
"""

from dataclasses import dataclass
from typing import Literal

from tools.demo_grammar import english, italian
from tools.demo_grammar.agreement import Agreement, Gender, Number

Direction = Literal[
    "at", "to", "reaching", "from"
]  # reaching: arrive at the park, arrivare al parco


@dataclass(frozen=True)
class Phrase:
    """Words with one meaning in both languages; either side may be empty."""

    english: str
    italian: str


@dataclass(frozen=True)
class Nominal(Phrase):
    """A noun phrase, name or pronoun: a phrase that can be a subject."""

    agreement: Agreement


@dataclass(frozen=True)
class Noun:
    english: str
    italian: str
    gender: Gender
    kind: str
    numbers: tuple[Number, ...] = ("singular", "plural")


@dataclass(frozen=True)
class Adjective:
    english: str
    italian: str
    before: bool  # precedes the Italian noun


@dataclass(frozen=True)
class Place:
    """A place to be at or to go to, with its prepositions."""

    noun: Noun
    english_at: str
    italian_at: str
    italian_to: str
    bare: bool  # takes no Italian article ("in cucina") unless it has an adjective


PRONOUNS = {
    "I": Nominal("I", "", Agreement("m", "singular", 1)),
    "you": Nominal("you", "", Agreement("m", "singular", 2)),
    "he": Nominal("he", "", Agreement("m", "singular")),
    "she": Nominal("she", "", Agreement("f", "singular")),
    "we": Nominal("we", "", Agreement("m", "plural", 1)),
    "you all": Nominal("you all", "", Agreement("m", "plural", 2)),
    "they": Nominal("they", "", Agreement("m", "plural")),
}
POSSESSIVES = {
    "my": "mio",
    "your": "tuo",
    "his": "suo",
    "her": "suo",
    "our": "nostro",
    "their": "loro",
}
NUMBERS = {
    "two": "due",
    "three": "tre",
    "four": "quattro",
    "five": "cinque",
    "six": "sei",
    "seven": "sette",
    "eight": "otto",
    "nine": "nove",
    "ten": "dieci",
}
ARTICLES = {
    "the": italian.THE,
    "some": italian.SOME,
    "this": italian.THIS,
    "that": italian.THAT,
    "a": italian.A,
}
QUANTIFIERS = {"many": "molto", "how many": "quanto", "which": "quale"}
PLURAL_DEMONSTRATIVES = {"this": "these", "that": "those"}


def join(*phrases: Phrase) -> Phrase:
    """The phrases in sequence, separated by blanks."""
    return Phrase(
        join_words(*(phrase.english for phrase in phrases)),
        join_words(*(phrase.italian for phrase in phrases)),
    )


def join_words(*parts: str) -> str:
    """The parts that are not empty, separated by blanks."""
    return " ".join(part for part in parts if part)


def noun_phrase(
    noun: Noun,
    determiner: str,
    number: Number = "singular",
    adjectives: tuple[Adjective, ...] = (),
) -> Nominal:
    """Determiner, adjectives in English order, and noun.

    The determiner is a key of `ARTICLES`, `POSSESSIVES`, `QUANTIFIERS` or `NUMBERS`, or "all the",
    or "" for none.
    """
    agreement = Agreement(noun.gender, number)
    singular = number == "singular"
    inner_english = join_words(
        *(adjective.english for adjective in adjectives),
        noun.english if singular else english.plural(noun.english),
    )
    inner_italian = noun.italian if singular else italian.plural(noun.italian, noun.gender)
    for adjective in adjectives:
        if not adjective.before:
            inner_italian += " " + italian.inflect(adjective.italian, agreement)
    for adjective in reversed(adjectives):
        if adjective.before:
            inner_italian = italian.prepend_adjective(adjective.italian, inner_italian, agreement)

    # A singular family noun takes no article with a possessive (mia madre), unless it has an
    # adjective (la mia cara madre) or the possessive is loro (la loro madre).
    omits_article = noun.kind == "family" and singular and not adjectives and determiner != "their"
    return Nominal(
        _with_english_determiner(determiner, inner_english, number),
        _with_italian_determiner(determiner, inner_italian, agreement, omits_article),
        agreement,
    )


def _with_english_determiner(determiner: str, inner: str, number: Number) -> str:
    if determiner == "a":
        return english.with_a(inner)
    if number == "plural":
        determiner = PLURAL_DEMONSTRATIVES.get(determiner, determiner)
    return join_words(determiner, inner)


def _with_italian_determiner(
    determiner: str, inner: str, agreement: Agreement, omits_article: bool
) -> str:
    if determiner in ARTICLES:
        return italian.prepend(ARTICLES[determiner], inner, agreement)
    if determiner in POSSESSIVES:
        owned = f"{italian.inflect(POSSESSIVES[determiner], agreement)} {inner}"
        return owned if omits_article else italian.prepend(italian.THE, owned, agreement)
    if determiner == "all the":
        rest = italian.prepend(italian.THE, inner, agreement)
        return f"{italian.inflect('tutto', agreement)} {rest}"
    if determiner in QUANTIFIERS:
        return f"{italian.inflect(QUANTIFIERS[determiner], agreement)} {inner}"
    return join_words(NUMBERS[determiner] if determiner else "", inner)


def possessive(
    owner: Nominal, noun: Noun, number: Number = "singular", adjectives: tuple[Adjective, ...] = ()
) -> Nominal:
    """A noun with its singular owner: "my uncle's old car", "la vecchia macchina di mio zio"."""
    assert owner.agreement.number == "singular", f"The owner {owner.english!r} is not singular."
    bare = noun_phrase(noun, "", number, adjectives)
    definite = noun_phrase(noun, "the", number, adjectives)
    return Nominal(
        f"{owner.english}'s {bare.english}",
        f"{definite.italian} {italian.contract('di', owner.italian)}",
        definite.agreement,
    )


def conjoined(first: Nominal, second: Nominal) -> Nominal:
    """Both joined by `and`; feminine only if both are."""
    all_feminine = first.agreement.gender == second.agreement.gender == "f"
    return Nominal(
        f"{first.english} and {second.english}",
        italian.join_with_and(first.italian, second.italian),
        Agreement("f" if all_feminine else "m", "plural"),
    )


def pronoun_for(person: Nominal) -> Nominal:
    """The pronoun that refers to a person; it keeps the person's gender."""
    if person in PRONOUNS.values():
        return person
    agreement = person.agreement
    if agreement.number == "plural":
        return Nominal("they", "", agreement)
    return Nominal("he" if agreement.gender == "m" else "she", "", agreement)


def prepositional(english_preposition: str, italian_preposition: str, nominal: Nominal) -> Phrase:
    """Preposition and noun phrase: "near the door", "vicino alla porta"."""
    return Phrase(
        f"{english_preposition} {nominal.english}",
        italian.contract(italian_preposition, nominal.italian),
    )


def predicative(adjective: Adjective, subject: Nominal) -> Phrase:
    """An adjective after `be`; in Italian it agrees with the subject."""
    return Phrase(adjective.english, italian.inflect(adjective.italian, subject.agreement))


def compared(adjective: Adjective, subject: Nominal, other: Nominal) -> Phrase:
    """A comparative with its standard: "taller than Anna", "più alto di Anna"."""
    inflected = italian.inflect(adjective.italian, subject.agreement)
    return Phrase(
        f"{english.comparative(adjective.english)} than {other.english}",
        f"più {inflected} {italian.contract('di', other.italian)}",
    )


def place_phrase(
    place: Place,
    direction: Direction,
    determiner: str = "the",
    adjectives: tuple[Adjective, ...] = (),
) -> Phrase:
    """The place with the preposition of the direction: "to the new museum", "al nuovo museo"."""
    english_preposition = place.english_at if direction in ("at", "reaching") else direction
    italian_preposition = {"at": place.italian_at, "from": "da"}.get(direction, place.italian_to)
    nominal = noun_phrase(place.noun, determiner, adjectives=adjectives)
    if place.bare and direction != "from" and determiner == "the" and not adjectives:
        bare_italian = f"{italian_preposition} {place.noun.italian}"
        return Phrase(f"{english_preposition} {nominal.english}", bare_italian)
    if determiner == "a" and italian_preposition == "a":
        italian_preposition = "in"  # al museo, but in un museo
    return prepositional(english_preposition, italian_preposition, nominal)
