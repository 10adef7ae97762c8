"""English word forms against the hand-written ones of english.toml."""

import pytest

from tools.demo_grammar import english
from tools.demo_grammar.agreement import Agreement, Tense
from tools.demo_grammar.tables import load, rows

ME, HE = Agreement("m", "singular", 1), Agreement("m", "singular")
THEY = Agreement("m", "plural")
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


@pytest.mark.parametrize(
    "verb, tense, agreement, do, expected",
    [
        ("eat", "present", HE, False, ("", "eats")),
        ("eat", "present", THEY, False, ("", "eat")),
        ("eat", "past", HE, False, ("", "ate")),
        ("eat", "present", HE, True, ("does", "eat")),
        ("eat", "present", THEY, True, ("do", "eat")),
        ("eat", "past", HE, True, ("did", "eat")),
        ("eat", "future", HE, True, ("will", "eat")),
        ("have", "present", HE, True, ("does", "have")),
        ("be", "present", ME, True, ("am", "")),
        ("be", "past", THEY, True, ("were", "")),
        ("be", "future", THEY, False, ("will", "be")),
        ("can", "present", HE, True, ("can", "")),
    ],
)
def test_auxiliaries(
    verb: str, tense: Tense, agreement: Agreement, do: bool, expected: tuple[str, str]
):
    assert english.verb_group(verb, tense, agreement, do) == expected


@pytest.mark.parametrize("adjective, comparative", rows(EXPECTED["comparatives"]))
def test_comparatives(adjective: str, comparative: str):
    assert english.comparative(adjective) == comparative
