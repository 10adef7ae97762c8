"""Verbs, clauses and sentences in both languages.

The simple present becomes the presente, the simple past the passato prossimo (the imperfetto for
stative verbs), `will` the futuro. Italian subject pronouns are dropped.
"""

from dataclasses import dataclass

from tools.demo_grammar import english, italian
from tools.demo_grammar.phrases import EMPTY, Nominal, Phrase, join, join_words
from tools.demo_grammar.tables import Agreement, Tense

Pair = tuple[str, str]  # an English sentence and its Italian translation


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
    texts = phrase.english, phrase.italian
    in_english, in_italian = (capitalized(text) + mark for text in texts)
    return in_english, in_italian


def capitalized(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[0].upper() + text[1:]
