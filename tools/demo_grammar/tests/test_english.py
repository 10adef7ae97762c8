"""English word forms against hand-written ones."""

import pytest

from tools.demo_grammar import english
from tools.demo_grammar.agreement import Agreement, Tense

M = Agreement("m", "singular")
MM = Agreement("m", "plural")


def test_a_or_an_by_initial_sound():
    for phrase in ("an apple", "an old man", "an umbrella", "a man", "a useful knife"):
        assert english.with_a(phrase.split(" ", 1)[1]) == phrase
    assert english.with_a("university") == "a university"


def test_plurals():
    pairs = "book books, box boxes, church churches, glass glasses, cherry cherries, boy boys, "
    pairs += "man men, woman women, child children, mouse mice, wolf wolves, knife knives, "
    pairs += "shelf shelves, piano pianos, key keys"
    for singular, plural in (pair.split() for pair in pairs.split(", ")):
        assert english.plural(singular) == plural


def test_third_person_and_past():
    forms = "eat eats ate, go goes went, watch watches watched, study studies studied, "
    forms += "play plays played, have has had, take takes took, close closes closed, "
    forms += "cry cries cried, put puts put, read reads read, wash washes washed"
    for base, third, past in (entry.split() for entry in forms.split(", ")):
        assert (english.third_person(base), english.past(base)) == (third, past)
    assert english.third_person("look for") == "looks for"
    assert english.past("think of") == "thought of"


@pytest.mark.parametrize(
    "verb, tense, agreement, do, expected",
    [
        ("eat", "present", M, False, ("", "eats")),
        ("eat", "present", MM, False, ("", "eat")),
        ("eat", "past", M, False, ("", "ate")),
        ("eat", "present", M, True, ("does", "eat")),
        ("eat", "present", MM, True, ("do", "eat")),
        ("eat", "past", M, True, ("did", "eat")),
        ("eat", "future", M, True, ("will", "eat")),
        ("have", "present", M, True, ("does", "have")),
        ("be", "present", Agreement("m", "singular", 1), True, ("am", "")),
        ("be", "past", MM, True, ("were", "")),
        ("be", "future", MM, False, ("will", "be")),
        ("can", "present", M, True, ("can", "")),
    ],
)
def test_auxiliaries(
    verb: str, tense: Tense, agreement: Agreement, do: bool, expected: tuple[str, str]
):
    assert english.verb_group(verb, tense, agreement, do) == expected


def test_comparatives():
    pairs = {"tall": "taller", "big": "bigger", "sad": "sadder", "heavy": "heavier"}
    pairs |= {"nice": "nicer", "famous": "more famous", "tired": "more tired"}
    assert {adjective: english.comparative(adjective) for adjective in pairs} == pairs
