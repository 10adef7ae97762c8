"""Verbs, clauses and sentences in both languages.

The simple present becomes the presente, the simple past the passato prossimo (the imperfetto for
stative verbs), `will` the futuro. Italian subject pronouns are dropped.
"""

from dataclasses import dataclass

from tools.demo_grammar import english, italian
from tools.demo_grammar.agreement import Agreement, Tense
from tools.demo_grammar.phrases import Nominal, Phrase, join, join_words

Pair = tuple[str, str]  # an English sentence and its Italian translation


@dataclass(frozen=True)
class Verb:
    english: str  # base form, with its preposition: "look for"
    italian: str  # infinitive
    preposition: str = ""  # Italian preposition before the object

    @property
    def stative(self) -> bool:
        return self.italian in italian.STATIVE_VERBS


@dataclass(frozen=True)
class Clause:
    """Subject, verb and complements: the input of `statement`, `question` and `predicate`."""

    subject: Nominal
    verb: Verb
    tense: Tense
    complements: tuple[Phrase, ...] = ()
    negative: bool = False
    adverb: Phrase | None = None


BE = Verb("be", "essere")
NEVER = Phrase("never", "mai")  # negates the Italian verb (non ... mai) but not the English one
WHO = Nominal("who", "chi", Agreement("m", "singular"))


def object_phrase(verb: Verb, nominal: Nominal) -> Phrase:
    """A noun phrase as the object of a verb, with the verb's Italian preposition."""
    return Phrase(nominal.english, italian.contract(verb.preposition, nominal.italian))


def infinitive(verb: Verb, to: bool) -> Phrase:
    """ "to eat" or "eat", "mangiare"."""
    return Phrase(f"to {verb.english}" if to else verb.english, verb.italian)


def _italian_verb(clause: Clause) -> str:
    finite, participle = italian.conjugate(
        clause.verb.italian, clause.tense, clause.subject.agreement
    )
    adverb = clause.adverb.italian if clause.adverb else ""
    negative = clause.negative or clause.adverb == NEVER
    return join_words("non" if negative else "", finite, adverb, participle)


def predicate(clause: Clause) -> Phrase:
    """The clause without its subject."""
    assert not (clause.negative and clause.adverb), "A clause takes `not` or an adverb, not both."
    auxiliary, main = english.verb_group(
        clause.verb.english, clause.tense, clause.subject.agreement, do=clause.negative
    )
    if clause.negative:
        auxiliary = "cannot" if auxiliary == "can" else f"{auxiliary} not"
    adverb = clause.adverb.english if clause.adverb else ""
    verb = Phrase(join_words(auxiliary, adverb, main), _italian_verb(clause))
    return join(verb, *clause.complements)


def statement(clause: Clause) -> Phrase:
    """Subject and predicate; a question if the subject is `WHO`."""
    return join(clause.subject, predicate(clause))


def question(clause: Clause, word: Phrase | None = None, inverted: bool = False) -> Phrase:
    """A yes-or-no question, or one that begins with a question word; the clause is affirmative.

    `inverted` places the Italian subject after the verb, as is usual after most question words.
    """
    assert not clause.negative, "A question takes an affirmative clause."
    auxiliary, main = english.verb_group(
        clause.verb.english, clause.tense, clause.subject.agreement, do=True
    )
    adverb = clause.adverb.english if clause.adverb else ""
    verb, subject = _italian_verb(clause), clause.subject.italian
    core = Phrase(
        join_words(auxiliary, clause.subject.english, adverb, main),
        join_words(verb, subject) if inverted else join_words(subject, verb),
    )
    return join(*([word] if word else []), core, *clause.complements)


def linked(first: Phrase, conjunction: Phrase, second: Phrase) -> Phrase:
    """Two clauses, or two predicates, linked by a conjunction."""
    phrase = join(first, conjunction, second)
    if conjunction.italian == "e":
        return Phrase(phrase.english, italian.join_with_and(first.italian, second.italian))
    return phrase


def with_relative_clause(clause: Clause) -> Nominal:
    """The subject with the rest of the clause as a relative clause: "the man who sings"."""
    subject, rest = clause.subject, predicate(clause)
    return Nominal(
        f"{subject.english} who {rest.english}",
        f"{subject.italian} che {rest.italian}",
        subject.agreement,
    )


def sentence(phrase: Phrase, mark: str = ".") -> Pair:
    """The phrase as a pair of sentences: capitalized, with the final punctuation mark."""
    english_text, italian_text = (
        text[0].upper() + text[1:] + mark for text in (phrase.english, phrase.italian)
    )
    return english_text, italian_text
