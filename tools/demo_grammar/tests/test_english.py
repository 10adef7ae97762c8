"""English word forms against the hand-written ones of english.toml."""

from typing import Any

import pytest

from tools.demo_grammar import english
from tools.demo_grammar.agreement import Agreement, Tense
from tools.demo_grammar.tables import load, rows

EXPECTED = load("tests/english.toml")


@pytest.mark.parametrize("phrase", EXPECTED["with_article"])
def test_a_or_an_by_initial_sound(phrase: str):
    assert english.with_a(phrase.split(" ", 1)[1]) == phrase


@pytest.mark.parametrize("singular, plural", rows(EXPECTED["plurals"]))
def test_plurals(singular: str, plural: str):
    assert english.plural(singular) == plural


@pytest.mark.parametrize("base, third, past", rows(EXPECTED["third_person_and_past"]))
def test_third_person_and_past(base: str, third: str, past: str):
    assert (english.third_person(base), english.past(base)) == (third, past)


@pytest.mark.parametrize("base, participle, gerund", rows(EXPECTED["participles_and_gerunds"]))
def test_participles_and_gerunds(base: str, participle: str, gerund: str):
    assert (english.participle(base), english.gerund(base)) == (participle, gerund)


@pytest.mark.parametrize("full, verb_first, verb_last", EXPECTED["contracted"])
def test_contractions(full: str, verb_first: str, verb_last: str):
    assert english.contracted(full, verb_first=True) == verb_first
    assert english.contracted(full, verb_first=False) == verb_last


@pytest.mark.parametrize("verb, tense, features, do, auxiliary, main", EXPECTED["verb_groups"])
def test_auxiliaries(
    verb: str, tense: Tense, features: list[Any], do: bool, auxiliary: str, main: str
):
    assert english.verb_group(verb, tense, Agreement(*features), do) == (auxiliary, main)


@pytest.mark.parametrize("adjective, comparative", rows(EXPECTED["comparatives"]))
def test_comparatives(adjective: str, comparative: str):
    assert english.comparative(adjective) == comparative
