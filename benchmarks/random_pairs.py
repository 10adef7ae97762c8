"""Pairs of random ids as training data without preparation."""

from typing import NamedTuple

import numpy as np

from translate_ddp.data.dataset import ParallelDataset, PreparedData, Ragged
from translate_ddp.data.mix import Block
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.data.tokenizer import NO_EXTRA_TOKENS, SPECIAL_TOKENS, Tokenizer
from translate_ddp.directions import LanguagePair

TARGET_RATIO, RATIO_DEVIATION = 15.8 / 15.3, 0.17


class Lengths(NamedTuple):
    """Lengths of sources in tokens, end markers included; targets are a little longer."""

    mean: float
    deviation: float
    shortest: int
    longest: int


# Of Multi30k with a joint vocabulary; the sides have a correlation of 0.86.
MULTI30K = Lengths(15.3, 4.5, 3, 45)
LONG_TAIL = Lengths(28, 18, 3, 250)  # about as in the news of WMT
EQUAL = Lengths(16, 1, 16, 16)  # no padding


class Vocabulary(Tokenizer):
    """A vocabulary that has a size and no tokens."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def random_pairs(count: int, vocabulary: int, lengths: Lengths = MULTI30K) -> PreparedData:
    """Pairs of independent sides with these lengths."""
    random = np.random.default_rng(0)
    sides = _draw(lengths, count, random)
    source, target = (_rows(lengths_N, vocabulary, random) for lengths_N in sides)
    return _training_data(source, target, vocabulary)


def random_copies(count: int, words: int, vocabulary: int, seed: int = 0) -> PreparedData:
    """Pairs whose target is the source, a task that is learnt within seconds.

    Only `words` of the vocabulary occur, so that each occurs often; products with the vocabulary
    are as large as otherwise.
    """
    random = np.random.default_rng(seed)
    rows = _rows(_draw(MULTI30K, count, random)[0], len(SPECIAL_TOKENS) + words, random)
    return _training_data(rows, rows, vocabulary)


def _draw(lengths: Lengths, count: int, random: np.random.Generator) -> list[np.ndarray]:
    """Source and target lengths: gamma-distributed, and that times a normal ratio."""
    shape = (lengths.mean / lengths.deviation) ** 2
    source_N = random.gamma(shape, lengths.mean / shape, count)
    target_N = source_N * random.normal(TARGET_RATIO, RATIO_DEVIATION, count)
    return [
        np.clip(np.rint(lengths_N), lengths.shortest, lengths.longest).astype(np.int64)
        for lengths_N in (source_N, target_N)
    ]


def _rows(lengths_N: np.ndarray, vocabulary: int, random: np.random.Generator) -> Ragged:
    """Rows of random ids; the lengths count the end marker, which rows do not contain."""
    offsets = np.concatenate([[0], np.cumsum(lengths_N - 1)])
    tokens = random.integers(len(SPECIAL_TOKENS), vocabulary, offsets[-1], dtype=np.int32)
    return Ragged(tokens, offsets)


def _training_data(source: Ragged, target: Ragged, vocabulary: int) -> PreparedData:
    """These pairs; the validation set is empty."""
    directions = [LanguagePair("en", "it")]
    return PreparedData(
        train=ParallelDataset(source, target),
        validation=ParallelDataset(Ragged.of([]), Ragged.of([])),
        validation_sources=[],
        validation_references=[],
        facts=ModelFacts(Vocabulary(vocabulary), NO_EXTRA_TOKENS, directions, 0, {}, {}, None),
        dropped={},
        fingerprint="",
        validation_fingerprint="",
        blocks=[Block(0, 0, len(source))],
        validation_sizes=[0],
    )
