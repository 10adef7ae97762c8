"""The shipped demo corpus: reproducible, and correct by rules that do not use the grammar."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tools.demo_grammar import english, frames
from tools.demo_grammar.__main__ import SHIPPED
from tools.demo_grammar.clauses import Pair
from tools.demo_grammar.corpus import PATTERNS
from tools.demo_grammar.lexicon import ADJECTIVES, NOUNS
from tools.demo_grammar.sampling import Sampler

# Words that must not stand together.
VOWEL, CLUSTER = "[aeiouàèìòù]", "(?:z|gn|ps|s[^aeiouàèìòù])"
FORBIDDEN = [  # without `dai`, which is also a verb
    rf"\b(?:il|del|al|dal|nel|sul|i|dei|ai|nei|sui|quel|bel|quei|bei) (?:{VOWEL}|{CLUSTER})",
    rf"\b(?:un|buon) {CLUSTER}",
    rf"\b(?:uno|lo|dello|allo|dallo|nello|sullo|quello) (?!{CLUSTER})",
    rf"\b(?:gli|degli|agli|dagli|negli|sugli|quegli|begli) (?!{VOWEL}|{CLUSTER})",
    rf"\b(?:la|una|della|alla|dalla|nella|sulla|questa|quella|questo) {VOWEL}",
    rf"\b(?:l|dell|all|dall|nell|sull|un|quest|quell|bell)'(?!{VOWEL})",
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
    return [word for word in re.split(r"[\s'.?]+", text.lower()) if word]


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


def test_split_sizes(splits: dict[str, list[Pair]]):
    sizes = {split: len(pairs) for split, pairs in splits.items()}
    assert sizes == {"train": 13_000, "validation": 500, "test": 500}


def test_no_sentence_of_either_language_occurs_twice(pairs: list[Pair]):
    assert len({in_english for in_english, _ in pairs}) == len(pairs)
    assert len({in_italian for _, in_italian in pairs}) == len(pairs)


def test_sentence_lengths_are_in_range(pairs: list[Pair]):
    for in_english, in_italian in pairs:
        assert 4 <= len(in_english.split()) <= 16, in_english
        assert 3 <= len(in_italian.split()) <= 16, in_italian


def test_sentences_start_with_a_capital_and_end_with_one_mark(pairs: list[Pair]):
    for pair in pairs:
        for text in pair:
            assert re.fullmatch(r"[A-ZÈ]\S*( \S+)+[.?]", text), text
            assert text.count(".") + text.count("?") == 1, text
        assert pair[0][-1] == pair[1][-1], pair


def test_held_out_words_occur_five_times_in_training(splits: dict[str, list[Pair]]):
    for side in (0, 1):
        counts = Counter(word for pair in splits["train"] for word in split_words(pair[side]))
        for pair in splits["validation"] + splits["test"]:
            for word in split_words(pair[side]):
                assert counts[word] >= 5, f"{word} of {pair[side]} occurs {counts[word]} times"


def test_every_noun_verb_and_adjective_occurs_in_training(splits: dict[str, list[Pair]]):
    text = " ".join(f" {' '.join(split_words(pair[0]))} " for pair in splits["train"])
    for noun in NOUNS.values():
        assert f" {noun.english.lower()} " in text or f" {english.plural(noun.english)} " in text
    for adjective in ADJECTIVES:
        assert f" {adjective.lower()} " in text
    for frame in (*frames.TRANSITIVE, *frames.INTRANSITIVE, *frames.GIVING):
        assert f" {frame.verb.english} " in text


def test_every_english_sentence_has_one_translation():
    # More sentences than the corpus holds, from all patterns in turn.
    draw = Sampler(1)
    italian_of: dict[str, str] = {}
    for _ in range(1_000):
        for pattern in PATTERNS:
            in_english, in_italian = pattern(draw)
            assert italian_of.setdefault(in_english, in_italian) == in_italian, in_english
    assert len(italian_of) > 20_000


def test_past_that_looks_like_present_has_a_time_or_did(pairs: list[Pair]):
    # "They put the key here" has two translations; random sampling would rarely draw both.
    for in_english, in_italian in pairs:
        if re.search(r" (messo|(ho|hai|ha|abbiamo|avete|hanno) letto)\b", in_italian.lower()):
            assert re.search("did|ago|last|yesterday|this morning", in_english.lower()), in_english


@pytest.mark.parametrize("mistake", FORBIDDEN)
def test_no_italian_sentence_has_clashing_words(pairs: list[Pair], mistake: str):
    assert not [italian for _, italian in pairs if re.search(mistake, italian.lower())]
