"""Noun phrases, places and times against the hand-written ones of phrases.toml."""

import pytest

from tools.demo_grammar.agreement import Number
from tools.demo_grammar.lexicon import ADJECTIVES, LOCALITIES, NOUNS, PLACES, TIMES
from tools.demo_grammar.phrases import Adjective, Phrase, noun_phrase, place_phrase, possessive
from tools.demo_grammar.tables import load

EXPECTED = load("tests/phrases.toml")


def adjectives_named(names: str) -> tuple[Adjective, ...]:
    return tuple(ADJECTIVES[name] for name in names.split())


@pytest.mark.parametrize(
    "noun, determiner, number, adjectives, in_english, in_italian", EXPECTED["noun_phrases"]
)
def test_noun_phrases(
    noun: str, determiner: str, number: Number, adjectives: str, in_english: str, in_italian: str
):
    phrase = noun_phrase(NOUNS[noun], determiner, number, adjectives_named(adjectives))
    assert (phrase.english, phrase.italian) == (in_english, in_italian)


def test_possessives_of_noun_phrases():
    uncle, doctor = noun_phrase(NOUNS["uncle"], "my"), noun_phrase(NOUNS["doctor"], "the")
    cars = possessive(uncle, NOUNS["car"], "plural", (ADJECTIVES["old"],))
    assert (cars.english, cars.italian) == ("my uncle's old cars", "le vecchie macchine di mio zio")
    umbrella = possessive(doctor, NOUNS["umbrella"])
    assert umbrella.english == "the doctor's umbrella"
    assert umbrella.italian == "l'ombrello del medico"


@pytest.mark.parametrize(
    "place, direction, determiner, adjectives, in_english, in_italian", EXPECTED["places"]
)
def test_place_phrases(
    place: str, direction: str, determiner: str, adjectives: str, in_english: str, in_italian: str
):
    described = adjectives_named(adjectives)
    phrase = place_phrase(PLACES[place], direction, determiner, described)
    assert phrase == Phrase(in_english, in_italian)


def test_phrases_of_cities_and_countries():
    italy, rome = LOCALITIES["Italy"], LOCALITIES["Rome"]
    assert italy["to"] == Phrase("to Italy", "in Italia")
    assert italy["from"] == Phrase("from Italy", "dall'Italia")
    assert rome["at"] == rome["reaching"] == Phrase("in Rome", "a Roma")
    assert rome["from"] == Phrase("from Rome", "da Roma")


@pytest.mark.parametrize("tense, in_english, in_italian", EXPECTED["times"])
def test_every_time_expression_belongs_to_one_tense(tense: str, in_english: str, in_italian: str):
    time = Phrase(in_english, in_italian)
    assert [t for t, groups in TIMES.items() if any(time in g for g in groups)] == [tense]
