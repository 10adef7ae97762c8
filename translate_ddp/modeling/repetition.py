"""Repetition in hypotheses: the end of a search that only repeats itself, and loops in its result.

Early hypotheses of such a model repeat a few tokens up to their length limit, which takes most of a
validation's time. Whether a search ends is a function of the hypothesis' ids only. The longest
repetition in the 180,000 sentences of Multi30k and of eight African languages (MAFAND) has thirteen
tokens.
"""

import re
from collections.abc import Sequence
from typing import TypeVar

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


def only_repeats(ids: Sequence[int]) -> bool:
    """Whether a search ends at these ids: their end is one unit of tokens, many times."""
    if len(ids) % EVERY or len(ids) < REPEATED:
        return False
    return any(_ends_in_repetitions(ids, unit) for unit in range(1, MAX_UNIT + 1))


def _ends_in_repetitions(ids: Sequence[int], unit: int) -> bool:
    count = max(unit * TIMES, REPEATED)
    end = ids[-count:]
    return len(end) == count and end[unit:] == end[:-unit]


def until_repetition(ids: list[int]) -> list[int]:
    """The ids up to where a search ends that finds them, or all."""
    lengths = range(REPEATED, len(ids), EVERY)
    return ids[: next((length for length in lengths if only_repeats(ids[:length])), len(ids))]
