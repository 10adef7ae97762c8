"""Repetition in hypotheses: the end of a search that only repeats itself, and loops in its result.

Early hypotheses of such a model repeat a few tokens up to their length limit, which takes most of a
validation's time. Whether a search ends is a function of the hypothesis' ids only. The longest
repetition in the 180,000 sentences of Multi30k and of eight African languages (MAFAND) has thirteen
tokens.
"""

import re
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

MAX_UNIT = 12  # tokens that are repeated, at most
REPEATED, TIMES = 24, 4  # tokens of all repetitions, and their number, at least
EVERY = 8  # tokens: only hypotheses of such lengths are looked at

# A loop: several tokens three times in a row, or one token four times. A character stands for each.
LOOP = re.compile(rf"(.{{2,{MAX_UNIT}}}?)\1\1|(.)\2\2\2", re.DOTALL)


def find_loop(tokens: Sequence[T]) -> Sequence[T]:
    """The tokens, words or characters that are repeated in a row; empty if none are."""
    numbers: dict[T, int] = {}
    found = LOOP.search("".join(chr(numbers.setdefault(each, len(numbers))) for each in tokens))
    return tokens[found.start() : found.end()] if found else tokens[:0]


def only_repeats(ids_NT: np.ndarray) -> np.ndarray:
    """Whether a search ends at each of these rows: their end is one unit of tokens, many times."""
    found_N = np.zeros(len(ids_NT), dtype=bool)
    for unit in range(1, MAX_UNIT + 1):
        end_NT = ids_NT[:, -max(unit * TIMES, REPEATED) :]
        if end_NT.shape[1] == max(unit * TIMES, REPEATED):
            found_N |= (end_NT[:, unit:] == end_NT[:, :-unit]).all(axis=1)
    return found_N


def until_repetition(ids: list[int]) -> list[int]:
    """The ids up to where a search ends that finds them, or all."""
    lengths, ids_1T = range(REPEATED, len(ids), EVERY), np.array([ids])
    return ids[: next((n for n in lengths if only_repeats(ids_1T[:, :n]).all()), len(ids))]
