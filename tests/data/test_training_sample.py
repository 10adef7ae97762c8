"""The lines on which a tokenizer is trained."""

import random

import pytest

from translate_ddp.data import tokenizer
from translate_ddp.data.tokenizer import sample, train_tokenizer
from translate_ddp.settings import TokenizerConfig

LINES = [f"line {number}" for number in range(1000)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "MAX_TEXT_BYTES", 900)


def test_small_corpus_is_used_as_it_is():
    lines = [*LINES[::-1], *LINES, ""]
    assert sample(iter(lines)) == lines


def test_sample_of_a_large_corpus_has_the_maximum_size_and_all_parts(small: None):
    chosen = sample(iter(LINES))
    assert 890 < sum(map(len, chosen)) <= 900
    assert chosen == sorted(chosen, key=LINES.index)
    # Uniform: 500 ± 4 standard deviations of the mean of 110 numbers, 289 / 10.5.
    assert 390 < sum(map(LINES.index, chosen)) / len(chosen) < 610


def test_sample_is_the_same_in_any_order_of_the_lines(small: None):
    shuffled = random.Random(0).sample(LINES, len(LINES))
    assert shuffled != LINES
    assert sorted(sample(shuffled)) == sorted(sample(LINES))


def test_more_lines_only_replace_some(small: None):
    # As when a corpus grows: the tokenizer stays similar.
    chosen = sample(LINES)
    more = sample([*LINES, *(f"more {number}" for number in range(100))])
    assert 0.8 < len({*more} & {*chosen}) / len(chosen) < 1


def test_number_of_lines_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokenizer, "MAX_LINES", 10)
    assert len(sample(LINES)) == 10 and len(sample(["same"] * 20)) == 10


def test_distinct_words_are_limited_where_no_spaces_separate_them(monkeypatch: pytest.MonkeyPatch):
    # Memory of the training grows with them: each of these lines is a word of 30 bytes.
    monkeypatch.setattr(tokenizer, "MAX_WORD_BYTES", 3000)
    generator = random.Random(0)
    lines = ["".join(generator.choices("天地玄黄宇宙洪荒日月", k=10)) for _ in range(1000)]
    assert len({*sample(lines)}) == len(sample(lines)) == 100
    assert sorted(sample(lines[::-1])) == sorted(sample(lines))
    # The same size of text, with the same words again and again.
    assert len(sample(lines[:50] * 20)) == 1000


def test_tokenizer_is_trained_on_the_sample(small: None):
    config = TokenizerConfig(vocab_size=300)
    lines = [f"{line} {random.Random(line).choice(['cat', 'dog', 'ox'])}" for line in LINES]
    assert train_tokenizer(lines, config).text == train_tokenizer(sample(lines), config).text
