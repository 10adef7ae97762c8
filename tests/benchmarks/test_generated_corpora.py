"""The corpora that the benchmark of preparation generates."""

import re
from collections import Counter

import pytest

from benchmarks.generated_text import CHUNK_PAIRS, generate

PAIRS = 2 * CHUNK_PAIRS


def pairs_of(pairs: int, seed: int = 0) -> list[tuple[str, str]]:
    return [
        (source.decode(), target.decode())
        for chunk in generate(pairs, seed)
        for source, target in zip(*chunk, strict=True)
    ]


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return pairs_of(PAIRS)


def test_equal_seeds_give_equal_pairs_and_others_do_not(pairs: list[tuple[str, str]]):
    assert pairs_of(PAIRS) == pairs
    assert pairs_of(PAIRS, seed=1) != pairs
    assert len(set(pairs)) > 0.999 * PAIRS  # few repeat by chance


def test_each_size_is_exact():
    for count in (1, 3, CHUNK_PAIRS + 1):
        assert len(pairs_of(count)) == count


def test_sentences_are_as_long_and_as_varied_as_web_text(pairs: list[tuple[str, str]]):
    lengths = sorted(len(source.split()) for source, _ in pairs)
    assert 18 < sum(lengths) / PAIRS < 22
    assert lengths[0] >= 1 and lengths[PAIRS // 2] < 17 and lengths[-1] > 100
    words = Counter(word for source, _ in pairs for word in re.findall(r"\w+", source.lower()))
    frequencies = [count for _, count in words.most_common()]
    assert 0.03 < frequencies[0] / sum(frequencies) < 0.08
    assert len(frequencies) > 50_000  # of 200,000 types, in 400,000 words
    # Zipf: the hundredth word is about ten times as rare as the tenth.
    assert 6 < frequencies[9] / frequencies[99] < 14


def test_sources_are_ascii_and_targets_are_not(pairs: list[tuple[str, str]]):
    emoji = re.compile("[\U0001f600-\U0001f63f]|€")  # are equal on both sides
    assert all(emoji.sub("", source).isascii() for source, _ in pairs)
    assert sum(not target.isascii() for _, target in pairs) > 0.95 * PAIRS
    assert not any(set(text) & set("\0\r\n\t") or not text for pair in pairs for text in pair)


def test_numbers_are_equal_on_both_sides(pairs: list[tuple[str, str]]):
    numbers = [[re.findall(r"\d+", text) for text in pair] for pair in pairs]
    assert sum(bool(source) for source, _ in numbers) > 0.1 * PAIRS
    assert all(source == target for source, target in numbers)
