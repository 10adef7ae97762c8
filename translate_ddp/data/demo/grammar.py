"""Rules that build English and Italian side by side; the words come from outside, chance never.

The Italian is a function of the English: `you` is always singular (tu), `you all` is voi, and where
English hides a gender (I, you, we, they, friend) Italian is masculine. The simple present becomes
the presente, the simple past the passato prossimo (the imperfect for verbs of state), `will` the
futuro. Subject pronouns are dropped.
"""

from dataclasses import dataclass
from typing import Literal

from translate_ddp.data.demo import english, italian
from translate_ddp.data.demo.agreement import Agreement, Gender, Number, Tense

Pair = tuple[str, str]  # English, Italian
Way = Literal["at", "to", "reaching", "from"]  # reaching: English sees the place, Italian the way


@dataclass(frozen=True)
class Phrase:
    """Words with one meaning, complete in both languages; either side may be empty."""

    english: str
    italian: str


@dataclass(frozen=True)
class Nominal(Phrase):
    """A phrase that can be a subject."""

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
    before: bool  # stands in front of the Italian noun


@dataclass(frozen=True)
class Verb:
    english: str  # base form, with its preposition: "look for"
    italian: str  # infinitive
    preposition: str = ""  # what the Italian verb puts before its object


@dataclass(frozen=True)
class Place:
    """A place one can be at or go to, with the prepositions it asks for."""

    noun: Noun
    english_at: str
    italian_at: str
    italian_to: str
    bare: bool  # "in cucina": no article, unless an adjective is there too


@dataclass(frozen=True)
class Clause:
    """A sentence before its mood is chosen: see `statement`, `question` and `predicate`."""

    subject: Nominal
    verb: Verb
    tense: Tense
    complements: tuple[Phrase, ...] = ()
    negative: bool = False
    adverb: Phrase | None = None


BE = Verb("be", "essere")
NEVER = Phrase("never", "mai")  # makes the Italian clause negative, the English one not
WHO = Nominal("who", "chi", Agreement("m", "singular"))
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
    """The phrases one after the other; an empty side leaves no blank behind."""
    return Phrase(_words(*(p.english for p in phrases)), _words(*(p.italian for p in phrases)))


def _words(*parts: str) -> str:
    return " ".join(part for part in parts if part)


# Noun phrases ------------------------------------------------------------------------------------


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
    inner_english = _words(
        *(adjective.english for adjective in adjectives),
        noun.english if singular else english.plural(noun.english),
    )
    inner_italian = noun.italian if singular else italian.plural(noun.italian, noun.gender)
    for adjective in adjectives:
        if not adjective.before:
            inner_italian += " " + italian.inflect(adjective.italian, agreement)
    for adjective in reversed(adjectives):
        if adjective.before:
            inner_italian = italian.adjective_before(adjective.italian, inner_italian, agreement)

    # A relative takes no article (mia madre), unless described (la mia cara madre) or theirs.
    is_plain_relative = noun.kind == "family" and singular and not adjectives
    return Nominal(
        _determined_english(determiner, inner_english, number),
        _determined_italian(determiner, inner_italian, agreement, is_plain_relative),
        agreement,
    )


def _determined_english(determiner: str, inner: str, number: Number) -> str:
    if determiner == "a":
        return english.with_a(inner)
    if number == "plural":
        determiner = PLURAL_DEMONSTRATIVES.get(determiner, determiner)
    return _words(determiner, inner)


def _determined_italian(
    determiner: str, inner: str, agreement: Agreement, is_plain_relative: bool
) -> str:
    if determiner in ARTICLES:
        return italian.put_before(ARTICLES[determiner], inner, agreement)
    if determiner in POSSESSIVES:
        owned = f"{italian.inflect(POSSESSIVES[determiner], agreement)} {inner}"
        if is_plain_relative and determiner != "their":
            return owned
        return italian.put_before(italian.THE, owned, agreement)
    if determiner == "all the":
        rest = italian.put_before(italian.THE, inner, agreement)
        return f"{italian.inflect('tutto', agreement)} {rest}"
    if determiner in QUANTIFIERS:
        return f"{italian.inflect(QUANTIFIERS[determiner], agreement)} {inner}"
    return _words(NUMBERS[determiner] if determiner else "", inner)


def owned_by(
    owner: Nominal, noun: Noun, number: Number = "singular", adjectives: tuple[Adjective, ...] = ()
) -> Nominal:
    """The thing of a singular owner: "my uncle's old car", "la vecchia macchina di mio zio"."""
    assert owner.agreement.number == "singular", f"One owner, not {owner.english}."
    bare = noun_phrase(noun, "", number, adjectives)
    thing = noun_phrase(noun, "the", number, adjectives)
    owner_italian = italian.contract("di", owner.italian)
    return Nominal(
        f"{owner.english}'s {bare.english}", f"{thing.italian} {owner_italian}", thing.agreement
    )


def both(first: Nominal, second: Nominal) -> Nominal:
    """The two together, feminine only if both are."""
    all_feminine = first.agreement.gender == second.agreement.gender == "f"
    return Nominal(
        f"{first.english} and {second.english}",
        italian.join_with_and(first.italian, second.italian),
        Agreement("f" if all_feminine else "m", "plural"),
    )


def with_relative(deed: Clause) -> Nominal:
    """The subject of a clause as the one who does it: "the man who sings"."""
    person, done = deed.subject, predicate(deed)
    return Nominal(
        f"{person.english} who {done.english}",
        f"{person.italian} che {done.italian}",
        person.agreement,
    )


def pronoun_for(person: Nominal) -> Nominal:
    """The pronoun that takes up a person already named; it keeps the gender of that person."""
    if person in PRONOUNS.values():
        return person
    agreement = person.agreement
    if agreement.number == "plural":
        return Nominal("they", "", agreement)
    return Nominal("he" if agreement.gender == "m" else "she", "", agreement)


# Complements -------------------------------------------------------------------------------------


def prepositional(english_preposition: str, italian_preposition: str, nominal: Nominal) -> Phrase:
    """Preposition and noun phrase: "near the door", "vicino alla porta"."""
    return Phrase(
        f"{english_preposition} {nominal.english}",
        italian.contract(italian_preposition, nominal.italian),
    )


def governed(verb: Verb, nominal: Nominal) -> Phrase:
    """A noun phrase as object of a verb: the English verb already holds its own preposition."""
    return Phrase(nominal.english, italian.contract(verb.preposition, nominal.italian))


def infinitive(verb: Verb, to: bool) -> Phrase:
    """ "to eat" or "eat", "mangiare"."""
    return Phrase(f"to {verb.english}" if to else verb.english, verb.italian)


def predicative(adjective: Adjective, subject: Nominal) -> Phrase:
    """An adjective behind `be`, in the gender and number of the subject."""
    return Phrase(adjective.english, italian.inflect(adjective.italian, subject.agreement))


def compared(adjective: Adjective, subject: Nominal, other: Nominal) -> Phrase:
    """ "taller than Anna", "più alto di Anna"."""
    adjective_italian = italian.inflect(adjective.italian, subject.agreement)
    return Phrase(
        f"{english.comparative(adjective.english)} than {other.english}",
        f"più {adjective_italian} {italian.contract('di', other.italian)}",
    )


def place_phrase(
    place: Place, way: Way, determiner: str = "the", adjectives: tuple[Adjective, ...] = ()
) -> Phrase:
    """Being at a place, going to it, reaching it or coming from it."""
    english_preposition = place.english_at if way in ("at", "reaching") else way
    italian_preposition = {"at": place.italian_at, "from": "da"}.get(way, place.italian_to)
    nominal = noun_phrase(place.noun, determiner, adjectives=adjectives)
    if place.bare and way != "from" and determiner == "the" and not adjectives:
        in_italian = f"{italian_preposition} {place.noun.italian}"
        return Phrase(f"{english_preposition} {nominal.english}", in_italian)
    if determiner == "a" and italian_preposition == "a":
        italian_preposition = "in"  # al museo, but in un museo
    return prepositional(english_preposition, italian_preposition, nominal)


# Clauses -----------------------------------------------------------------------------------------


def _italian_verb(clause: Clause) -> str:
    finite, participle = italian.conjugate(
        clause.verb.italian, clause.tense, clause.subject.agreement
    )
    adverb = clause.adverb.italian if clause.adverb else ""
    negative = clause.negative or clause.adverb == NEVER
    return _words("non" if negative else "", finite, adverb, participle)


def _complements(clause: Clause) -> Phrase:
    return join(*clause.complements)


def predicate(clause: Clause) -> Phrase:
    """The clause without its subject, affirmed or denied."""
    assert not (clause.negative and clause.adverb), "Neither language denies with these adverbs."
    auxiliary, main = english.verb_group(
        clause.verb.english, clause.tense, clause.subject.agreement, do=clause.negative
    )
    if clause.negative:
        auxiliary = "cannot" if auxiliary == "can" else f"{auxiliary} not"
    adverb = clause.adverb.english if clause.adverb else ""
    verb = Phrase(_words(auxiliary, adverb, main), _italian_verb(clause))
    return join(verb, _complements(clause))


def statement(clause: Clause) -> Phrase:
    """Subject and predicate; with the subject `WHO` it is a question."""
    return join(clause.subject, predicate(clause))


def question(clause: Clause, word: Phrase | None = None, inverted: bool = False) -> Phrase:
    """A yes-or-no question, or one that a question word opens; always affirmative.

    `inverted` puts the Italian subject behind the verb, as most question words like it.
    """
    assert not clause.negative, "Deny in a statement."
    auxiliary, main = english.verb_group(
        clause.verb.english, clause.tense, clause.subject.agreement, do=True
    )
    adverb = clause.adverb.english if clause.adverb else ""
    verb, subject = _italian_verb(clause), clause.subject.italian
    core = Phrase(
        _words(auxiliary, clause.subject.english, adverb, main),
        _words(verb, subject) if inverted else _words(subject, verb),
    )
    return join(*([word] if word else []), core, _complements(clause))


def together(first: Phrase, conjunction: Phrase, second: Phrase) -> Phrase:
    """Two clauses, or two predicates, linked by a conjunction."""
    if conjunction.italian == "e":
        linked = italian.join_with_and(first.italian, second.italian)
        return Phrase(_words(first.english, conjunction.english, second.english), linked)
    return join(first, conjunction, second)


def sentence(phrase: Phrase, mark: str = ".") -> Pair:
    """The finished pair: a capital at the start, the mark at the end."""

    def finished(text: str) -> str:
        return text[0].upper() + text[1:] + mark

    return finished(phrase.english), finished(phrase.italian)
