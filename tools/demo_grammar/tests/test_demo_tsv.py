"""The shipped demo corpus: reproducible, and correct by rules that do not use the grammar."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tools.demo_grammar import everyday, lexicon
from tools.demo_grammar.__main__ import SHIPPED
from tools.demo_grammar.corpus import fixed_pairs
from tools.demo_grammar.english import contracted, plural
from tools.demo_grammar.phrases import Pair
from tools.demo_grammar.tables import load

# Words that must not stand together.
VOWEL, CLUSTER = "[aeiouàèìòù]", "(?:z|gn|ps|s[^aeiouàèìòù])"
# Words before which la, lo, gli, questo and quella are pronouns, as in "lo vedo", "gli piace".
VERB = (
    r"(?:è|in|non|so|sai?|(?:ved|chiam|aiut|incontr|aspett|conosc|piac)\w+|"
    r"am(?:[oia]|iamo|ate|ano))\b"
)
FORBIDDEN = [  # without `dai`, which is also a verb
    rf"\b(?:il|del|al|dal|nel|sul|i|dei|ai|nei|sui|quel|bel|quei|bei) (?:{VOWEL}|{CLUSTER})",
    rf"\b(?:un|buon) {CLUSTER}",
    rf"\b(?:uno|lo|dello|allo|dallo|nello|sullo|quello) (?!{CLUSTER}|{VERB})",
    rf"\b(?:gli|degli|agli|dagli|negli|sugli|quegli|begli) (?!{VOWEL}|{CLUSTER}|{VERB})",
    rf"\b(?:la|una|della|alla|dalla|nella|sulla|questa|quella|questo) (?!{VERB}){VOWEL}",
    rf"\b(?:l|dell|all|dall|nell|sull|un|quest|quell|bell)'(?!{VOWEL}|h)",
    r"\b(?:di|a|da|in|su) (?:il|lo|la|i|gli|le|l')\b",
    r"\ba a|\be e| c'(?![eè])",
]


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Pair]]:
    splits: dict[str, list[Pair]] = {}
    for line in SHIPPED.read_text(encoding="utf-8").splitlines()[1:]:
        split, in_english, in_italian = line.split("\t")
        splits.setdefault(split, []).append((in_english, in_italian))
    return splits


@pytest.fixture(scope="module")
def pairs(splits: dict[str, list[Pair]]) -> list[Pair]:
    return [pair for split in splits.values() for pair in split]


def split_words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s'.,?!]+", text.lower()) if word]


def as_typed(in_english: str) -> str:
    """The sentence as some people type it: in lower case, without punctuation."""
    return re.sub("[,.?!]", "", in_english.lower())


def test_command_reproduces_the_shipped_file(tmp_path: Path):
    # The order of sets depends on the hash seed.
    path = tmp_path / "demo.tsv"
    subprocess.run(
        [sys.executable, "-m", "tools.demo_grammar", str(path)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        cwd=Path(__file__).parents[3],
        check=True,
    )
    assert path.read_bytes() == SHIPPED.read_bytes(), (
        "If the grammar was meant to change, run `python -m tools.demo_grammar`."
    )


def test_splits_are_distinct_and_of_given_sizes(splits: dict[str, list[Pair]], pairs: list[Pair]):
    sizes = {split: len(pairs) for split, pairs in splits.items()}
    assert sizes == {"train": 35_000, "validation": 500, "test": 500}
    assert len({in_english for in_english, _ in pairs}) == len(pairs)
    held_out = [in_italian for _, in_italian in splits["validation"] + splits["test"]]
    assert len(set(held_out)) == len(held_out)
    assert set(held_out).isdisjoint(in_italian for _, in_italian in splits["train"])


def test_every_text_is_short_enough(pairs: list[Pair]):
    assert max(len(text.split()) for pair in pairs for text in pair) <= 16


def test_both_sides_are_sentences_with_one_final_mark_or_fragments_without(pairs: list[Pair]):
    typed = {text.rstrip(".?!") for text, _ in fixed_pairs()}  # everyday phrases without the mark
    typed |= {form for text in typed for form in (text.lower(), text.upper())}
    for pair in pairs:
        for text in pair:
            assert re.fullmatch(r"[A-ZÈ][^.?!]*[.?!]|[^.?!]+", text), text
        english_mark, italian_mark = (text[-1] if text[-1] in ".?!" else "" for text in pair)
        assert english_mark == italian_mark or (not english_mark and pair[0] in typed), pair


def test_everyday_phrases_are_in_training_as_people_type_them(splits: dict[str, list[Pair]]):
    train = dict(splits["train"])
    for in_english, in_italian in everyday.fixed_pairs():
        unmarked = in_english.rstrip(".?!")
        for typed in (unmarked, unmarked.lower(), unmarked.upper()):
            assert as_typed(train[typed]) == as_typed(in_italian), typed
        for verb_first in (True, False):
            assert train[contracted(in_english, verb_first)] == train[in_english] == in_italian


def test_lower_case_text_without_punctuation_has_one_translation(pairs: list[Pair]):
    italian_of: dict[str, str] = {}
    for in_english, in_italian in pairs:
        typed, translation = as_typed(in_english), as_typed(in_italian)
        assert italian_of.setdefault(typed, translation) == translation, typed


def test_hand_written_pairs_are_in_training(splits: dict[str, list[Pair]]):
    train = dict(splits["train"])
    for in_english, in_italian in load("tests/phrases.toml")["pairs"]:
        assert train[in_english] == in_italian


def test_names_are_copied_and_vary(pairs: list[Pair]):
    names: set[str] = set()
    for in_english, in_italian in pairs:
        if match := re.search(r"my name (?:is|'s) (\w+)", in_english, re.IGNORECASE):
            names.add(match[1])
            assert f"i chiamo {match[1]}." in in_italian, in_english
    assert len(names) > 200


def test_held_out_words_occur_five_times_in_training(splits: dict[str, list[Pair]]):
    for side in (0, 1):
        counts = Counter(word for pair in splits["train"] for word in split_words(pair[side]))
        for pair in splits["validation"] + splits["test"]:
            for word in split_words(pair[side]):
                assert counts[word] >= 5, f"{word} of {pair[side]}"


def test_every_noun_verb_and_adjective_occurs_in_training(splits: dict[str, list[Pair]]):
    text = " ".join(f" {' '.join(split_words(pair[0]))} " for pair in splits["train"])
    for noun in lexicon.NOUNS.values():
        assert f" {noun.english.lower()} " in text or f" {plural(noun.english)} " in text
    verbs = (*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE, *lexicon.GIVING)
    for word in (*map(str.lower, lexicon.ADJECTIVES), *(frame.verb.english for frame in verbs)):
        assert f" {word} " in text


def test_past_that_looks_like_present_has_a_time_or_did(pairs: list[Pair]):
    # "They put the key here" has two translations; random sampling would rarely draw both.
    for in_english, in_italian in pairs:
        if re.search(r" (messo|(ho|hai|ha|abbiamo|avete|hanno) letto)\b", in_italian.lower()):
            clear = r"did|ago|last|yesterday|this morning|\b(?:have|has)\b|'ve|n't"
            assert re.search(clear, in_english.lower()), in_english


@pytest.mark.parametrize("mistake", FORBIDDEN)
def test_no_italian_sentence_has_clashing_words(pairs: list[Pair], mistake: str):
    phrases = [phrase for _, italian in pairs for phrase in italian.lower().split(" / ")]
    assert not [phrase for phrase in phrases if re.search(mistake, phrase)]
