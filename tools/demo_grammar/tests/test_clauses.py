"""Clauses and sentences in both languages against hand-written ones."""

import pytest

from tools.demo_grammar.clauses import (
    BE,
    NEVER,
    WHO,
    Clause,
    Verb,
    infinitive,
    linked,
    object_phrase,
    question,
    sentence,
    statement,
    with_relative_clause,
)
from tools.demo_grammar.frames import COME, FEEL, RETURN
from tools.demo_grammar.lexicon import ADJECTIVES, LOCALITIES, NAMES, NOUNS
from tools.demo_grammar.phrases import (
    PRONOUNS,
    Nominal,
    Phrase,
    compared,
    conjoined,
    noun_phrase,
    predicative,
    prepositional,
    pronoun_for,
)
from tools.demo_grammar.statements import CAN, THERE_IS, WANT

MARIA, ANNA, MARCO = (
    next(name for name in NAMES if name.english == who) for who in ("Maria", "Anna", "Marco")
)
EAT, ANSWER = Verb("eat", "mangiare"), Verb("answer", "rispondere", "a")
SEE, HUNGRY = Verb("see", "vedere"), Phrase("hungry", "fame")
APPLE = noun_phrase(NOUNS["apple"], "the")
GIRLS, BOY = noun_phrase(NOUNS["girl"], "the", "plural"), noun_phrase(NOUNS["boy"], "the")
ME, YOU, SHE, WE = (PRONOUNS[pronoun] for pronoun in ("I", "you", "she", "we"))
YOU_ALL = PRONOUNS["you all"]
ARRIVE, LEAVE = Verb("arrive", "arrivare"), Verb("leave", "partire")
GO = Verb("go", "andare")
HOME, IN_ROME = LOCALITIES["home"].to, LOCALITIES["Rome"].at
ALWAYS = Phrase("always", "sempre")
STATEMENTS = [
    (Clause(BOY, EAT, "present", (APPLE,)),
     "The boy eats the apple.", "Il ragazzo mangia la mela."),
    (Clause(BOY, EAT, "present", (APPLE,), negative=True),
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
    (Clause(YOU, EAT, "future", (APPLE,), negative=True),
     "You will not eat the apple.", "Non mangerai la mela."),
    (Clause(WE, EAT, "past", (APPLE,), adverb=NEVER),
     "We never ate the apple.", "Non abbiamo mai mangiato la mela."),
    (Clause(SHE, EAT, "future", (APPLE,), adverb=ALWAYS),
     "She will always eat the apple.", "Mangerà sempre la mela."),
    (Clause(ME, BE, "present", (predicative(ADJECTIVES["tired"], ME),), adverb=ALWAYS),
     "I am always tired.", "Sono sempre stanco."),
    (Clause(GIRLS, BE, "past", (predicative(ADJECTIVES["tired"], GIRLS),), negative=True),
     "The girls were not tired.", "Le ragazze non erano stanche."),
    (Clause(SHE, FEEL, "past", (HUNGRY,)), "She was hungry.", "Aveva fame."),
    (Clause(BOY, CAN, "present", (infinitive(EAT, to=False), APPLE), negative=True),
     "The boy cannot eat the apple.", "Il ragazzo non può mangiare la mela."),
    (Clause(BOY, WANT, "present", (infinitive(EAT, to=True), APPLE)),
     "The boy wants to eat the apple.", "Il ragazzo vuole mangiare la mela."),
    (Clause(ME, ANSWER, "past", (object_phrase(ANSWER, noun_phrase(NOUNS["question"], "the")),)),
     "I answered the question.", "Ho risposto alla domanda."),
    (Clause(MARIA, BE, "present", (compared(ADJECTIVES["tall"], MARIA, MARCO),)),
     "Maria is taller than Marco.", "Maria è più alta di Marco."),
    (Clause(conjoined(MARIA, ANNA), LEAVE, "past"),
     "Maria and Anna left.", "Maria e Anna sono partite."),
    (Clause(conjoined(MARIA, MARCO), LEAVE, "past"),
     "Maria and Marco left.", "Maria e Marco sono partiti."),
]  # fmt: skip


@pytest.mark.parametrize("clause, in_english, in_italian", STATEMENTS)
def test_statements(clause: Clause, in_english: str, in_italian: str):
    assert sentence(statement(clause)) == (in_english, in_italian)


WHEN, WHY = Phrase("when", "quando"), Phrase("why", "perché")
KEYS = noun_phrase(NOUNS["key"], "two", "plural")
IN_BACKPACK = prepositional("in", "in", noun_phrase(NOUNS["backpack"], "the"))
THERE = Nominal("there", "", KEYS.agreement)
QUESTIONS = [
    (question(Clause(BOY, EAT, "present", (APPLE,))),
     "Does the boy eat the apple?", "Il ragazzo mangia la mela?"),
    (question(Clause(YOU, EAT, "past", (APPLE,))),
     "Did you eat the apple?", "Hai mangiato la mela?"),
    (question(Clause(YOU_ALL, BE, "present", (IN_BACKPACK,))),
     "Are you all in the backpack?", "Siete nello zaino?"),
    (question(Clause(THERE, THERE_IS, "present", (KEYS, IN_BACKPACK))),
     "Are there two keys in the backpack?", "Ci sono due chiavi nello zaino?"),
    (question(Clause(MARIA, ARRIVE, "past"), WHEN, inverted=True),
     "When did Maria arrive?", "Quando è arrivata Maria?"),
    (question(Clause(BOY, EAT, "future", (APPLE,)), WHY),
     "Why will the boy eat the apple?", "Perché il ragazzo mangerà la mela?"),
    (statement(Clause(WHO, EAT, "past", (APPLE,))),
     "Who ate the apple?", "Chi ha mangiato la mela?"),
]  # fmt: skip


@pytest.mark.parametrize("asked, in_english, in_italian", QUESTIONS)
def test_questions(asked: Phrase, in_english: str, in_italian: str):
    assert sentence(asked, "?") == (in_english, in_italian)


def test_linked_clauses():
    eating = Clause(GIRLS, EAT, "present", (APPLE,))
    they = pronoun_for(GIRLS)
    tired = Clause(they, BE, "present", (predicative(ADJECTIVES["tired"], they),))
    because = Phrase("because", "perché")
    both = linked(statement(eating), because, statement(tired))
    assert both.english == "the girls eat the apple because they are tired"
    assert both.italian == "le ragazze mangiano la mela perché sono stanche"


def test_relative_clauses():
    who_eats = with_relative_clause(Clause(GIRLS, EAT, "past", (APPLE,)))
    seeing = statement(Clause(ME, SEE, "present", (who_eats,)))
    assert seeing.english == "I see the girls who ate the apple"
    assert seeing.italian == "vedo le ragazze che hanno mangiato la mela"
