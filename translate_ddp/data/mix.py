"""The pairs of each dataset that an epoch has: a pure function of seed, epoch, sizes and weights.

The random numbers are hashes of integers, which other modules use, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from translate_ddp.errors import UserError

MIX_SALT = 0x6D6978  # keeps its draws apart from the draws of other modules
MAX_FACTOR = 20.0  # a small direction repeated more often is learned by heart

Key = int | np.ndarray


def hashes(*keys: Key) -> np.ndarray:
    """64 random bits for each element of the keys, which broadcast; uint64.

    It is splitmix64 (Steele et al. 2014), applied to one key after the other.
    """
    bits: np.ndarray = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2**64
        for key in keys:
            bits = (bits ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            bits = bits ^ (bits >> np.uint64(31))
    return bits


def uniform(*keys: Key) -> np.ndarray:
    """A number in [0, 1) for each element of the keys, which broadcast; float64."""
    return (hashes(*keys) >> np.uint64(11)) * 2.0**-53


class Block(NamedTuple):
    """The training pairs of one dataset in one direction."""

    direction: int
    dataset: int
    size: int


@dataclass(frozen=True)
class Mix:
    """The pairs of an epoch: of each block, whose rows follow each other, a number."""

    sizes: tuple[int, ...]
    counts: tuple[int, ...]  # drawn pairs of each block: round(weight * size)

    @classmethod
    def of(
        cls, dataset_weight: Sequence[float], blocks: Sequence[Block], temperature: float = 1.0
    ) -> Mix:
        """The mix of a run. A block has its dataset's weight times its direction's factor.

        Without weights, each is 1. Raises UserError if an epoch would have no pairs.
        """
        totals: Counter[int] = Counter()
        for block in blocks:
            totals[block.direction] += block.size
        factors = temperature_factors(list(totals.values()), temperature)
        factor = dict(zip(totals, factors, strict=True))
        counts = []
        for direction, dataset, size in blocks:
            weight = dataset_weight[dataset] if dataset_weight else 1.0
            counts.append(round(weight * factor[direction] * size))
        sizes = [block.size for block in blocks]
        if not sum(counts):
            weights = " ".join(f"{weight:g}" for weight in dataset_weight)
            raise UserError(
                f"With dataset_weight {weights}, an epoch has none of the "
                f"{' + '.join(f'{size:,}' for size in sizes)} training pairs: raise a weight."
            )
        return cls(tuple(sizes), tuple(counts))

    @property
    def draws_all_once(self) -> bool:
        """Whether an epoch has every row once, as without weights."""
        return self.counts == self.sizes

    def describe(self) -> str:
        """As 60 of 120 + 150 of 60."""
        pairs = zip(self.counts, self.sizes, strict=True)
        return " + ".join(f"{count:,} of {size:,}" for count, size in pairs)

    def draw(self, seed: int, epoch: int) -> np.ndarray:
        """The rows of an epoch, ascending, some of them several times.

        Of a block with the weight 2.5, each row is drawn twice, and the half of them with the
        smallest hashes a third time. Rows with equal hashes keep their order.
        """
        firsts = [0, *accumulate(self.sizes[:-1])]
        # 4 bytes per drawn row, as in the plan. Copies of a row have the same augmentation within
        # an epoch, which depends on the row; their dropout differs.
        repeats = np.concatenate(
            [
                _repeats(first, size, count, seed, epoch)
                for first, size, count in zip(firsts, self.sizes, self.counts, strict=True)
            ]
        )
        return np.repeat(np.arange(len(repeats), dtype=np.int32), repeats)


def temperature_factors(sizes: Sequence[int] | np.ndarray, temperature: float) -> list[float]:
    """How often the pairs of each direction are drawn, so that none is more than `MAX_FACTOR`.

    Directions then have pairs in proportion to size ** (1 / temperature), and as many in all as
    before (Arivazhagan et al. 2019, section 4.2).
    """
    counts = np.asarray(sizes, dtype=np.float64)
    factors = np.ones(len(counts))
    if temperature == 1 or len(set(counts.tolist())) == 1:  # exact
        return factors.tolist()
    is_free = counts > 0
    while is_free.any():  # what capped directions leave goes to the others
        shares = counts ** (1 / temperature) * is_free
        left = counts.sum() - MAX_FACTOR * counts[~is_free].sum()
        factors = np.where(
            is_free, left * shares / shares.sum() / np.maximum(counts, 1), MAX_FACTOR
        )
        if not (over := is_free & (factors > MAX_FACTOR)).any():
            break
        is_free &= ~over
    return factors.tolist()


def _repeats(first: int, size: int, count: int, seed: int, epoch: int) -> np.ndarray:
    """How often each of `size` rows from `first` is drawn, so that the sum is `count`."""
    full, rest = divmod(count, size) if size else (0, 0)
    repeats = np.full(size, full, dtype=np.int32)
    if rest:
        keys = hashes(MIX_SALT, seed, epoch, np.arange(first, first + size, dtype=np.int64))
        repeats[np.argsort(keys, kind="stable")[:rest]] += 1
    return repeats
