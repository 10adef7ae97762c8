"""Clauses and sentences in both languages against hand-written ones."""

import pytest

from tools.demo_grammar import phrases
from tools.demo_grammar.clauses import BE, NEVER, NOT, WHO, Clause, Verb, sentence
from tools.demo_grammar.frames import FEEL
from tools.demo_grammar.lexicon import ADJECTIVES, LOCALITIES, NAMES, NOUNS
from tools.demo_grammar.phrases import PRONOUNS, Nominal, Phrase, join, noun_phrase, predicative

MARIA, ANNA, MARCO = (
    next(name for name in NAMES if name.english == who) for who in ("Maria", "Anna", "Marco")
)
ME, YOU, SHE, WE = (PRONOUNS[pronoun] for pronoun in ("I", "you", "she", "we"))
YOU_ALL = PRONOUNS["you all"]
APPLE = noun_phrase(NOUNS["apple"], "the")
GIRLS, BOY = noun_phrase(NOUNS["girl"], "the", "plural"), noun_phrase(NOUNS["boy"], "the")
EAT, SEE, GO = Verb("eat", "mangiare"), Verb("see", "vedere"), Verb("go", "andare")
COME, RETURN = Verb("come", "venire"), Verb("return", "tornare")
ARRIVE, LEAVE = Verb("arrive", "arrivare"), Verb("leave", "partire")
ANSWER, THERE_IS = Verb("answer", "rispondere"), Verb("be", "esserci")
CAN, WANT = Verb("can", "potere"), Verb("want to", "volere")
QUESTION = phrases.prepositional("", "a", noun_phrase(NOUNS["question"], "the"))
HUNGRY, ALWAYS = Phrase("hungry", "fame"), Phrase("always", "sempre")
HOME, IN_ROME = LOCALITIES["home"]["to"], LOCALITIES["Rome"]["at"]
STATEMENTS = [
    (Clause(BOY, EAT, "present", (APPLE,)),
     "The boy eats the apple.", "Il ragazzo mangia la mela."),
    (Clause(BOY, EAT, "present", (APPLE,), adverb=NOT),
     "The boy does not eat the apple.", "Il ragazzo non mangia la mela."),
    (Clause(GIRLS, EAT, "past", (APPLE,)),
     "The girls ate the apple.", "Le ragazze hanno mangiato la mela."),
    (Clause(GIRLS, ARRIVE, "past", (IN_ROME,)),
     "The girls arrived in Rome.", "Le ragazze sono arrivate a Roma."),
    (Clause(SHE, GO, "past", (HOME,)),
     "She went home.", "È andata a casa."),
    # English does not show the gender of these: the Italian is masculine.
    (Clause(ME, RETURN, "past", (HOME,)),
     "I returned home.", "Sono tornato a casa."),
    (Clause(YOU_ALL, COME, "past", (HOME,)),
     "You all came home.", "Siete venuti a casa."),
    (Clause(YOU, EAT, "future", (APPLE,), adverb=NOT),
     "You will not eat the apple.", "Non mangerai la mela."),
    (Clause(WE, EAT, "past", (APPLE,), adverb=NEVER),
     "We never ate the apple.", "Non abbiamo mai mangiato la mela."),
    (Clause(SHE, EAT, "future", (APPLE,), adverb=ALWAYS),
     "She will always eat the apple.", "Mangerà sempre la mela."),
    (Clause(ME, BE, "present", (predicative(ADJECTIVES["tired"], ME),), adverb=ALWAYS),
     "I am always tired.", "Sono sempre stanco."),
    (Clause(GIRLS, BE, "past", (predicative(ADJECTIVES["tired"], GIRLS),), adverb=NOT),
     "The girls were not tired.", "Le ragazze non erano stanche."),
    (Clause(SHE, FEEL, "past", (HUNGRY,)), "She was hungry.", "Aveva fame."),
    (Clause(BOY, CAN, "present", (EAT, APPLE), adverb=NOT),
     "The boy cannot eat the apple.", "Il ragazzo non può mangiare la mela."),
    (Clause(BOY, WANT, "present", (EAT, APPLE)),
     "The boy wants to eat the apple.", "Il ragazzo vuole mangiare la mela."),
    (Clause(ME, ANSWER, "past", (QUESTION,)),
     "I answered the question.", "Ho risposto alla domanda."),
    (Clause(MARIA, BE, "present", (phrases.compared(ADJECTIVES["tall"], MARIA, MARCO),)),
     "Maria is taller than Marco.", "Maria è più alta di Marco."),
    (Clause(BOY, EAT, "progressive", (APPLE,)),
     "The boy is eating the apple.", "Il ragazzo sta mangiando la mela."),
    (Clause(SHE, EAT, "progressive", (APPLE,), adverb=NOT),
     "She is not eating the apple.", "Non sta mangiando la mela."),
    (Clause(ME, EAT, "perfect", (APPLE,)),
     "I have eaten the apple.", "Ho mangiato la mela."),
    (Clause(GIRLS, ARRIVE, "perfect", (IN_ROME,), adverb=NOT),
     "The girls have not arrived in Rome.", "Le ragazze non sono arrivate a Roma."),
    (Clause(WE, EAT, "intention", (APPLE,)),
     "We are going to eat the apple.", "Mangeremo la mela."),
    # An object pronoun stands before the Italian verb.
    (Clause(BOY, SEE, "present", (Phrase("her", ""),), adverb=NOT, clitic="la"),
     "The boy does not see her.", "Il ragazzo non la vede."),
    (Clause(WE, SEE, "past", (Phrase("her", ""),), clitic="la"),
     "We saw her.", "L'abbiamo vista."),
    (Clause(WE, SEE, "past", (Phrase("you", ""),), clitic="ti"),
     "We saw you.", "Ti abbiamo visto."),
    (Clause(phrases.conjoined(MARIA, ANNA), LEAVE, "past"),
     "Maria and Anna left.", "Maria e Anna sono partite."),
    (Clause(phrases.conjoined(MARIA, MARCO), LEAVE, "past"),
     "Maria and Marco left.", "Maria e Marco sono partiti."),
]  # fmt: skip


@pytest.mark.parametrize("clause, in_english, in_italian", STATEMENTS)
def test_statements(clause: Clause, in_english: str, in_italian: str):
    assert sentence(clause.statement()) == (in_english, in_italian)


WHEN, WHY = Phrase("when", "quando"), Phrase("why", "perché")
KEYS = noun_phrase(NOUNS["key"], "two", "plural")
IN_BACKPACK = phrases.prepositional("in", "in", noun_phrase(NOUNS["backpack"], "the"))
THERE = Nominal("there", "", KEYS.agreement)
QUESTIONS = [
    (Clause(BOY, EAT, "present", (APPLE,)).question(),
     "Does the boy eat the apple?", "Il ragazzo mangia la mela?"),
    (Clause(YOU, EAT, "past", (APPLE,)).question(),
     "Did you eat the apple?", "Hai mangiato la mela?"),
    (Clause(YOU_ALL, BE, "present", (IN_BACKPACK,)).question(),
     "Are you all in the backpack?", "Siete nello zaino?"),
    (Clause(THERE, THERE_IS, "present", (KEYS, IN_BACKPACK)).question(),
     "Are there two keys in the backpack?", "Ci sono due chiavi nello zaino?"),
    (Clause(MARIA, ARRIVE, "past").question(WHEN, inverted=True),
     "When did Maria arrive?", "Quando è arrivata Maria?"),
    (Clause(BOY, EAT, "future", (APPLE,)).question(WHY),
     "Why will the boy eat the apple?", "Perché il ragazzo mangerà la mela?"),
    (Clause(BOY, EAT, "progressive").question(WHY),
     "Why is the boy eating?", "Perché il ragazzo sta mangiando?"),
    (Clause(WHO, EAT, "past", (APPLE,)).statement(),
     "Who ate the apple?", "Chi ha mangiato la mela?"),
]  # fmt: skip


@pytest.mark.parametrize("asked, in_english, in_italian", QUESTIONS)
def test_questions(asked: Phrase, in_english: str, in_italian: str):
    assert sentence(asked, "?") == (in_english, in_italian)


def test_linked_clauses():
    they = phrases.pronoun_for(GIRLS)
    tired = Clause(they, BE, "present", (predicative(ADJECTIVES["tired"], they),))
    eating = Clause(GIRLS, EAT, "present", (APPLE,))
    assert join(eating.statement(), Phrase("because", "perché"), tired.statement()) == Phrase(
        "the girls eat the apple because they are tired",
        "le ragazze mangiano la mela perché sono stanche",
    )


def test_relative_clauses():
    who_eats = Clause(GIRLS, EAT, "past", (APPLE,)).relative()
    assert Clause(ME, SEE, "present", (who_eats,)).statement() == Phrase(
        "I see the girls who ate the apple", "vedo le ragazze che hanno mangiato la mela"
    )
