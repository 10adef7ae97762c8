"""Italian word forms against the hand-written ones of italian.toml."""

import re
from typing import Any

import pytest

from tools.demo_grammar import italian
from tools.demo_grammar.agreement import Agreement, Gender, Tense
from tools.demo_grammar.phrases import AND, Phrase, join
from tools.demo_grammar.tables import entries, load, rows

AGREEMENTS = [Agreement(g, n) for n in ("singular", "plural") for g in ("m", "f")]
EXPECTED = load("tests/italian.toml")


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_articles_and_short_adjectives_match_the_start_of_the_noun(agreement: Agreement):
    words = ["the", "some", "that", "this", "bello", "buono", "a"]
    if agreement.number == "plural":
        words.remove("a")
    for expected in EXPECTED["before_noun"][f"{agreement.gender}_{agreement.number}"]:
        phrases = expected.split(", ")
        noun = re.split("[ ']", phrases[0])[1]
        assert [italian.prepend(word, noun, agreement) for word in words] == phrases


@pytest.mark.parametrize("adjective, noun, features, expected", EXPECTED["described"])
def test_article_matches_the_next_word_even_if_it_is_an_adjective(
    adjective: str, noun: str, features: list[Any], expected: str
):
    agreement = Agreement(*features)
    described = italian.prepend(adjective, noun, agreement)
    assert italian.prepend("the", described, agreement) == expected


@pytest.mark.parametrize("preposition, table", EXPECTED["contractions"].items())
def test_prepositions_contract_with_definite_articles_only(preposition: str, table: str):
    for entry in entries(table):
        assert italian.contract(preposition, entry.english) == entry.italian


@pytest.mark.parametrize("gender", ["m", "f"])
def test_plurals(gender: Gender):
    for singular, plural in rows(EXPECTED["plurals"][gender]):
        assert italian.plural(singular, gender) == plural


@pytest.mark.parametrize("forms", rows(EXPECTED["adjectives"]["forms"]))
def test_adjectives_agree_in_gender_and_number(forms: list[str]):
    assert [italian.inflect(forms[0], agreement) for agreement in AGREEMENTS] == forms


@pytest.mark.parametrize("tense", ["present", "past", "future"])
def test_simple_tenses_in_all_persons(tense: Tense):
    # The past of stative verbs is the imperfetto.
    for verb, forms in EXPECTED["conjugation"][tense].items():
        for slot, form in enumerate(forms.split()):
            agreement = Agreement("m", "plural" if slot > 2 else "singular", (1, 2, 3)[slot % 3])
            assert italian.conjugate(verb, tense, agreement) == (form, "")


@pytest.mark.parametrize("infinitive, participle", rows(EXPECTED["participles"]["forms"]))
def test_participles(infinitive: str, participle: str):
    assert italian.participle(infinitive) == participle


@pytest.mark.parametrize("verb, features, finite, participle", EXPECTED["compound_past"])
def test_participle_agrees_with_the_subject_only_after_essere(
    verb: str, features: list[Any], finite: str, participle: str
):
    assert italian.conjugate(verb, "past", Agreement(*features)) == (finite, participle)


@pytest.mark.parametrize("tense, forms", EXPECTED["esserci"].items())
def test_esserci_in_all_tenses(tense: Tense, forms: list[str]):
    conjugated = [italian.conjugate("esserci", tense, agreement) for agreement in AGREEMENTS]
    assert conjugated == [(form, "") for form in forms]


@pytest.mark.parametrize("first, second, expected", EXPECTED["joined_by_e"])
def test_e_becomes_ed_before_another_e(first: str, second: str, expected: str):
    assert join(Phrase("", first), AND, Phrase("", second)).italian == expected


@pytest.mark.parametrize("pronoun, verb, expected", EXPECTED["clitics"]["before"])
def test_only_lo_and_la_elide_before_avere(pronoun: str, verb: str, expected: str):
    assert italian.clitic_before(pronoun, verb) == expected


@pytest.mark.parametrize("infinitive, pronoun, expected", EXPECTED["clitics"]["after"])
def test_pronouns_are_joined_to_infinitives(infinitive: str, pronoun: str, expected: str):
    assert italian.clitic_after(infinitive, pronoun) == expected


@pytest.mark.parametrize("participle, pronoun, expected", rows(EXPECTED["clitics"]["agreeing"]))
def test_participle_agrees_with_a_pronoun_of_third_person(
    participle: str, pronoun: str, expected: str
):
    assert italian.agree_with_clitic(participle, pronoun) == expected


@pytest.mark.parametrize("infinitive, imperative", rows(EXPECTED["imperative"]["forms"]))
def test_imperatives(infinitive: str, imperative: str):
    assert italian.imperative(infinitive) == imperative


@pytest.mark.parametrize("infinitive, gerund", rows(EXPECTED["gerunds"]["forms"]))
def test_gerunds(infinitive: str, gerund: str):
    assert italian.gerund(infinitive) == gerund
