"""Noun phrases, places and times in both languages against hand-written ones."""

import pytest

from tools.demo_grammar.adverbials import TIMES
from tools.demo_grammar.agreement import Number, Tense
from tools.demo_grammar.clauses import Pair
from tools.demo_grammar.lexicon import ADJECTIVES, LOCALITIES, NOUNS, PLACES
from tools.demo_grammar.phrases import Direction, Phrase, noun_phrase, place_phrase, possessive


@pytest.mark.parametrize(
    "noun, determiner, number, adjectives, expected",
    [
        ("apple", "a", "singular", "", ("an apple", "una mela")),
        ("backpack", "a", "singular", "", ("a backpack", "uno zaino")),
        ("engineer", "the", "plural", "", ("the engineers", "gli ingegneri")),
        ("nurse", "this", "singular", "", ("this nurse", "quest'infermiera")),
        ("nurse", "this", "plural", "", ("these nurses", "queste infermiere")),
        ("boot", "that", "plural", "", ("those boots", "quegli stivali")),
        ("bread", "some", "singular", "good", ("some good bread", "del buon pane")),
        ("friend", "some", "plural", "", ("some friends", "degli amici")),
        ("window", "many", "plural", "", ("many windows", "molte finestre")),
        ("student", "all the", "plural", "", ("all the students", "tutti gli studenti")),
        ("chair", "all the", "plural", "", ("all the chairs", "tutte le sedie")),
        ("key", "how many", "plural", "", ("how many keys", "quante chiavi")),
        ("book", "which", "plural", "", ("which books", "quali libri")),
        ("dog", "three", "plural", "white", ("three white dogs", "tre cani bianchi")),
        ("house", "the", "singular", "big white", ("the big white house", "la grande casa bianca")),
        ("friend", "a", "singular", "old Italian",
         ("an old Italian friend", "un vecchio amico italiano")),
        ("book", "my", "plural", "beautiful", ("my beautiful books", "i miei bei libri")),
        ("shoe", "her", "plural", "new", ("her new shoes", "le sue nuove scarpe")),
        ("uncle", "their", "plural", "", ("their uncles", "i loro zii")),
        # Family: an article only in the plural, with an adjective, and with `loro`.
        ("mother", "my", "singular", "", ("my mother", "mia madre")),
        ("sister", "your", "plural", "", ("your sisters", "le tue sorelle")),
        ("brother", "our", "singular", "dear", ("our dear brother", "il nostro caro fratello")),
        ("mother", "their", "singular", "", ("their mother", "la loro madre")),
        ("Italian", "", "singular", "", ("Italian", "italiano")),
    ],
)  # fmt: skip
def test_noun_phrases(noun: str, determiner: str, number: Number, adjectives: str, expected: Pair):
    described = tuple(ADJECTIVES[adjective] for adjective in adjectives.split())
    phrase = noun_phrase(NOUNS[noun], determiner, number, described)
    assert (phrase.english, phrase.italian) == expected


def test_possessives_of_noun_phrases():
    uncle = noun_phrase(NOUNS["uncle"], "my")
    cars = possessive(uncle, NOUNS["car"], "plural", (ADJECTIVES["old"],))
    assert (cars.english, cars.italian) == ("my uncle's old cars", "le vecchie macchine di mio zio")
    doctor = noun_phrase(NOUNS["doctor"], "the")
    umbrella = possessive(doctor, NOUNS["umbrella"])
    assert (umbrella.english, umbrella.italian) == (
        "the doctor's umbrella",
        "l'ombrello del medico",
    )


@pytest.mark.parametrize(
    "place, direction, determiner, adjectives, expected",
    [
        ("kitchen", "at", "the", "", ("in the kitchen", "in cucina")),
        ("kitchen", "at", "the", "modern", ("in the modern kitchen", "nella cucina moderna")),
        ("kitchen", "from", "the", "", ("from the kitchen", "dalla cucina")),
        ("station", "at", "the", "", ("at the station", "alla stazione")),
        ("park", "at", "the", "", ("in the park", "nel parco")),
        ("park", "to", "the", "", ("to the park", "al parco")),
        ("park", "reaching", "the", "", ("in the park", "al parco")),
        ("zoo", "to", "the", "", ("to the zoo", "allo zoo")),
        ("island", "at", "the", "", ("on the island", "sull'isola")),
        ("museum", "to", "the", "new", ("to the new museum", "al nuovo museo")),
        ("museum", "to", "a", "new", ("to a new museum", "in un nuovo museo")),
    ],
)
def test_place_phrases(
    place: str, direction: Direction, determiner: str, adjectives: str, expected: Pair
):
    described = tuple(ADJECTIVES[adjective] for adjective in adjectives.split())
    phrase = place_phrase(PLACES[place], direction, determiner, described)
    assert (phrase.english, phrase.italian) == expected


def test_phrases_of_cities_and_countries():
    italy, rome = LOCALITIES["Italy"], LOCALITIES["Rome"]
    assert (italy.to, italy.origin) == (
        Phrase("to Italy", "in Italia"),
        Phrase("from Italy", "dall'Italia"),
    )
    assert (rome.at, rome.origin) == (Phrase("in Rome", "a Roma"), Phrase("from Rome", "da Roma"))


@pytest.mark.parametrize(
    "tense, in_english, in_italian",
    [
        ("present", "every Monday", "ogni lunedì"),
        ("present", "at three o'clock", "alle tre"),
        ("past", "last Monday", "lunedì scorso"),
        ("past", "last Sunday", "domenica scorsa"),
        ("past", "two years ago", "due anni fa"),
        ("future", "next Sunday", "domenica prossima"),
        ("future", "in five weeks", "fra cinque settimane"),
    ],
)
def test_every_time_expression_belongs_to_one_tense(tense: Tense, in_english: str, in_italian: str):
    time = Phrase(in_english, in_italian)
    assert [t for t, groups in TIMES.items() if any(time in g for g in groups)] == [tense]
