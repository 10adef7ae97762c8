"""Noun phrases, places, clauses and sentences in both languages.

The Italian is a function of the English: `you` is always singular (tu), `you all` is voi. Where
English does not show gender (I, you, we, they, friend), Italian is masculine. The simple present
becomes the presente, the simple past the passato prossimo (the imperfetto for stative verbs),
`will` the futuro. Italian subject pronouns are dropped.
"""

import re
from dataclasses import dataclass
from typing import Literal

from tools.demo_grammar import english, italian
from tools.demo_grammar.tables import Agreement, Gender, Number, Tense, load

Pair = tuple[str, str]  # an English sentence and its Italian translation


@dataclass(frozen=True)
class Phrase:
    """Words with one meaning in both languages; either side may be empty."""

    english: str
    italian: str

    @property
    def pair(self) -> Pair:
        return self.english, self.italian


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
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Adjective:
    english: str
    italian: str
    position: Literal["before", "after", "classifying", "predicative"]  # in Italian; see words.toml
    gradable: bool  # has a comparative


@dataclass(frozen=True)
class Place:
    """A place to be at or to go to, with its prepositions."""

    noun: Noun
    english_at: str
    italian_at: str
    italian_to: str
    bare: bool  # takes no Italian article ("in cucina") unless it has an adjective


_FUNCTION_WORDS = load("function_words.toml")
PRONOUNS = {
    word: Nominal(word, "", Agreement(**features))
    for word, features in _FUNCTION_WORDS["pronouns"].items()
}
POSSESSIVES: dict[str, str] = _FUNCTION_WORDS["possessives"]
QUANTIFIERS: dict[str, str] = _FUNCTION_WORDS["quantifiers"]
NUMBERS: dict[str, str] = _FUNCTION_WORDS["numbers"]
EMPTY, AND = Phrase("", ""), Phrase("and", "e")


def join(*phrases: Phrase) -> Phrase:
    """The phrases in sequence, separated by spaces; `e` becomes `ed` before another e."""
    in_english = join_words(*(phrase.english for phrase in phrases))
    in_italian = join_words(*(phrase.italian for phrase in phrases))
    return Phrase(in_english, re.sub(r"\be (?=[eèE])", "ed ", in_italian))


def join_words(*parts: str) -> str:
    """The parts that are not empty, separated by spaces."""
    return " ".join(part for part in parts if part)


def noun_phrase(
    noun: Noun, determiner: str, number: Number = "singular", adjectives: tuple[Adjective, ...] = ()
) -> Nominal:
    """Determiner, adjectives in English order, and noun.

    The determiner is an article, or a word of function_words.toml, or "all the", or "" for none.
    """
    agreement, singular = Agreement(noun.gender, number), number == "singular"
    inner_english = join_words(
        *(adjective.english for adjective in adjectives),
        noun.english if singular else english.plural(noun.english),
    )
    inner_italian = noun.italian if singular else italian.plural(noun.italian, noun.gender)
    for adjective in adjectives:
        if adjective.position != "before":
            inner_italian += " " + italian.inflect(adjective.italian, agreement)
    for adjective in reversed(adjectives):
        if adjective.position == "before":
            inner_italian = italian.prepend(adjective.italian, inner_italian, agreement)

    # A singular family noun takes no article with a possessive (mia madre), unless it has an
    # adjective (la mia cara madre) or the possessive is loro (la loro madre).
    is_relative = noun.kind in ("family", "spouse")
    omits_article = is_relative and singular and not adjectives and determiner != "their"
    return Nominal(
        _with_english_determiner(determiner, inner_english, number),
        _with_italian_determiner(determiner, inner_italian, agreement, omits_article),
        agreement,
    )


def _with_english_determiner(determiner: str, inner: str, number: Number) -> str:
    if determiner == "a":
        return english.with_a(inner)
    if number == "plural":
        determiner = {"this": "these", "that": "those"}.get(determiner, determiner)
    return join_words(determiner, inner)


def _with_italian_determiner(
    determiner: str, inner: str, agreement: Agreement, omits_article: bool
) -> str:
    if determiner in NUMBERS or not determiner:
        return join_words(NUMBERS.get(determiner, ""), inner)
    if determiner in POSSESSIVES:
        owned = italian.prepend(POSSESSIVES[determiner], inner, agreement)
        return owned if omits_article else italian.prepend("the", owned, agreement)
    if determiner == "all the":
        return italian.prepend("tutto", italian.prepend("the", inner, agreement), agreement)
    return italian.prepend(QUANTIFIERS.get(determiner, determiner), inner, agreement)


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
    both = join(first, AND, second)
    all_feminine = first.agreement.gender == second.agreement.gender == "f"
    return Nominal(both.english, both.italian, Agreement("f" if all_feminine else "m", "plural"))


def pronoun_for(person: Nominal) -> Nominal:
    """The pronoun that refers to a person; it keeps the person's gender."""
    if person in PRONOUNS.values():
        return person
    agreement = person.agreement
    singular = "he" if agreement.gender == "m" else "she"
    return Nominal("they" if agreement.number == "plural" else singular, "", agreement)


def prepositional(english_preposition: str, italian_preposition: str, nominal: Nominal) -> Phrase:
    """Preposition and noun phrase: "near the door", "vicino alla porta"; either may be ""."""
    return Phrase(
        join_words(english_preposition, nominal.english),
        italian.contract(italian_preposition, nominal.italian),
    )


def predicative(adjective: Adjective, subject: Nominal) -> Phrase:
    """An adjective after `be`; in Italian it agrees with the subject."""
    return Phrase(adjective.english, italian.inflect(adjective.italian, subject.agreement))


def compared(adjective: Adjective, subject: Nominal, other: Nominal) -> Phrase:
    """A comparative with its standard: "taller than Anna", "più alto di Anna"."""
    inflected = italian.inflect(adjective.italian, subject.agreement)
    comparative = Phrase(english.comparative(adjective.english), f"più {inflected}")
    return join(comparative, prepositional("than", "di", other))


def place_phrase(
    place: Place, direction: str, determiner: str = "the", adjectives: tuple[Adjective, ...] = ()
) -> Phrase:
    """The place with the preposition of the direction: "to the new museum", "al nuovo museo".

    The directions are at, to, from, and reaching (arrive at the park, arrivare al parco).
    """
    in_english, in_italian = {
        "at": (place.english_at, place.italian_at),
        "to": ("to", place.italian_to),
        "reaching": (place.english_at, place.italian_to),
        "from": ("from", "da"),
    }[direction]
    nominal = noun_phrase(place.noun, determiner, adjectives=adjectives)
    if place.bare and direction != "from" and determiner == "the" and not adjectives:
        return Phrase(f"{in_english} {nominal.english}", f"{in_italian} {place.noun.italian}")
    if determiner == "a" and in_italian == "a":
        in_italian = "in"  # al museo, but in un museo
    return prepositional(in_english, in_italian, nominal)


@dataclass(frozen=True)
class Verb(Phrase):
    """An infinitive; the English one with its preposition: "look for"."""

    preposition: str = ""  # Italian preposition before the object

    @property
    def stative(self) -> bool:
        return italian.is_stative(self.italian)


BE = Verb("be", "essere")
# NEVER negates the Italian verb (non ... mai) but not the English one.
NOT, NEVER = Phrase("not", ""), Phrase("never", "mai")
WHO = Nominal("who", "chi", Agreement("m", "singular"))


@dataclass(frozen=True)
class Clause:
    """Subject, verb and complements."""

    subject: Nominal
    verb: Verb
    tense: Tense
    complements: tuple[Phrase, ...] = ()
    adverb: Phrase = EMPTY  # of frequency, or `NOT`
    clitic: str = ""  # Italian pronoun before the verb; with lo, la, li, le a participle agrees

    def _italian_verb(self) -> str:
        agreement = self.subject.agreement
        finite, participle = italian.conjugate(self.verb.italian, self.tense, agreement)
        if self.clitic:
            finite = italian.clitic_before(self.clitic, finite)
            participle = italian.agree_with_clitic(participle, self.clitic)
        negation = "non" if self.adverb in (NOT, NEVER) else ""
        return join_words(negation, finite, self.adverb.italian, participle)

    def _english_verb(self, do: bool) -> tuple[str, str]:
        return english.verb_group(self.verb.english, self.tense, self.subject.agreement, do)

    def predicate(self) -> Phrase:
        """The clause without its subject."""
        auxiliary, main = self._english_verb(do=self.adverb == NOT)
        verb = join_words(auxiliary, self.adverb.english, main).replace("can not", "cannot")
        return join(Phrase(verb, self._italian_verb()), *self.complements)

    def statement(self) -> Phrase:
        """Subject and predicate; a question if the subject is `WHO`."""
        return join(self.subject, self.predicate())

    def question(self, word: Phrase = EMPTY, inverted: bool = False) -> Phrase:
        """A yes-or-no question, or one that begins with a question word.

        `inverted` places the Italian subject after the verb, as is usual after most question words.
        """
        assert self.adverb != NOT, "A question takes an affirmative clause."
        auxiliary, main = self._english_verb(do=True)
        verb, subject = self._italian_verb(), self.subject.italian
        core = Phrase(
            join_words(auxiliary, self.subject.english, self.adverb.english, main),
            join_words(verb, subject) if inverted else join_words(subject, verb),
        )
        return join(word, core, *self.complements)

    def relative(self) -> Nominal:
        """The subject with the rest of the clause as a relative clause: "the man who sings"."""
        phrase = join(self.subject, Phrase("who", "che"), self.predicate())
        return Nominal(phrase.english, phrase.italian, self.subject.agreement)


def sentence(phrase: Phrase, mark: str = ".") -> Pair:
    """The phrase as a pair of sentences: capitalized, with the final punctuation mark."""
    return capitalized(phrase.english) + mark, capitalized(phrase.italian) + mark


def capitalized(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[0].upper() + text[1:]
