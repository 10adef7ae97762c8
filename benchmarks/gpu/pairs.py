"""Pairs of random ids with the lengths of real sentences, as training data without preparation.

Lengths are distributed as in Multi30k with a joint vocabulary: 3 to 45 tokens with the end marker,
on average 15.3 in the source and 15.8 in the target; the correlation of the two is 0.86.
"""

import numpy as np

from benchmarks.workbench import training_data
from translate_ddp.data.dataset import ParallelDataset, PreparedData, Ragged
from translate_ddp.data.tokenizer import SPECIAL_TOKENS

SHORTEST, LONGEST = 3, 45  # with the end marker
MEAN_SOURCE, DEVIATION = 15.3, 4.5
TARGET_RATIO, RATIO_DEVIATION = 15.8 / 15.3, 0.17


def draw_lengths(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Source and target lengths, end markers included: gamma-distributed, and a normal ratio."""
    shape = (MEAN_SOURCE / DEVIATION) ** 2
    source_N = random.gamma(shape, MEAN_SOURCE / shape, count)
    target_N = source_N * random.normal(TARGET_RATIO, RATIO_DEVIATION, count)
    source_N, target_N = (
        np.clip(np.rint(lengths), SHORTEST, LONGEST).astype(np.int64)
        for lengths in (source_N, target_N)
    )
    return source_N, target_N


def draw_pairs(count: int, vocabulary: int) -> PreparedData:
    """Training pairs whose sides are independent."""
    random = np.random.default_rng(0)
    sides = [draw_rows(lengths, vocabulary, random) for lengths in draw_lengths(count, random)]
    return training_data(ParallelDataset(*sides), vocabulary)


def draw_copies(count: int, words: int, vocabulary: int, seed: int = 0) -> PreparedData:
    """Training pairs whose target is the source, a task that is learnt within seconds.

    Only `words` of the vocabulary occur, so that each occurs often; products with the vocabulary
    are as large as otherwise.
    """
    random = np.random.default_rng(seed)
    lengths, _ = draw_lengths(count, random)
    rows = draw_rows(lengths, len(SPECIAL_TOKENS) + words, random)
    return training_data(ParallelDataset(rows, rows), vocabulary)


def draw_rows(lengths: np.ndarray, vocabulary: int, random: np.random.Generator) -> Ragged:
    """Rows of random ids; `lengths` count the end marker, which rows do not contain."""
    offsets = np.concatenate([[0], np.cumsum(lengths - 1)])
    tokens = random.integers(len(SPECIAL_TOKENS), vocabulary, offsets[-1], dtype=np.int32)
    return Ragged(tokens, offsets)
