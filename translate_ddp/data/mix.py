"""The pairs of each dataset that an epoch has: a pure function of seed, epoch, sizes and weights.

The random numbers are hashes of integers, which other modules use, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from translate_ddp.errors import UserError
from translate_ddp.settings import MixConfig, Stage

SALT = 0x6D6978  # keeps the draws apart from those of other modules
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
    """The training pairs of each block, which follow each other, and the stages of a run.

    A block has the pairs of one dataset in one direction.
    """

    sizes: tuple[int, ...]
    stages: tuple[Stage, ...]  # at least one; the last has all further epochs, too

    @classmethod
    def of(
        cls,
        config: MixConfig,
        blocks: Sequence[Block],
        num_epochs: int,
        temperature: float = 1.0,
    ) -> Mix:
        """The mix of a run. A block has its dataset's weight times its direction's factor.

        Raises UserError if an epoch would have no pairs.
        """
        totals: Counter[int] = Counter()
        for block in blocks:
            totals[block.direction] += block.size
        factors = temperature_factors(list(totals.values()), temperature)
        factor = dict(zip(totals, factors, strict=True))

        def weights_of(given: Sequence[float]) -> tuple[float, ...]:
            of_dataset = [given[block.dataset] if given else 1.0 for block in blocks]
            pairs = zip(of_dataset, blocks, strict=True)
            return tuple(weight * factor[block.direction] for weight, block in pairs)

        stages = config.stages or (Stage(num_epochs, config.dataset_weight),)
        sizes = [block.size for block in blocks]
        found = cls(
            tuple(sizes),
            tuple(Stage(each.epochs, weights_of(each.dataset_weight)) for each in stages),
        )
        for stage in found.stages:
            if not sum(found._counts(stage)):
                weights = " ".join(f"{weight:g}" for weight in stage.dataset_weight)
                raise UserError(
                    f"With dataset_weight {weights}, an epoch has none of the "
                    f"{' + '.join(f'{size:,}' for size in sizes)} training pairs: raise a weight."
                )
        return found

    @property
    def num_epochs(self) -> int:
        return sum(stage.epochs for stage in self.stages)

    @property
    def first_epochs(self) -> list[int]:
        """The number of epochs before each stage."""
        return [0, *accumulate(stage.epochs for stage in self.stages[:-1])]

    def stage(self, epoch: int) -> Stage:
        """The stage of an epoch, counted from 0."""
        number = sum(first <= epoch for first in self.first_epochs)
        return self.stages[number - 1]

    def counts(self, epoch: int) -> list[int]:
        """The number of drawn pairs of each block in an epoch: round(weight * size)."""
        return self._counts(self.stage(epoch))

    def _counts(self, stage: Stage) -> list[int]:
        pairs = zip(stage.dataset_weight, self.sizes, strict=True)
        return [round(weight * size) for weight, size in pairs]

    def draws_all_once(self, epoch: int) -> bool:
        """Whether the epoch has every row once, as without weights."""
        return self.counts(epoch) == list(self.sizes)

    def draw(self, seed: int, epoch: int) -> np.ndarray:
        """The rows of an epoch, ascending, some of them several times.

        Of a block with the weight 2.5, each row is drawn twice, and the half of them with the
        smallest hashes a third time. The order of equal hashes is that of the rows.
        """
        firsts = [0, *accumulate(self.sizes[:-1])]
        # 4 bytes per drawn row, as in the plan. Copies of a row have the same augmentation within
        # an epoch, which depends on the row; their dropout differs.
        repeats = np.concatenate(
            [
                _repeats(first, size, count, seed, epoch)
                for first, size, count in zip(firsts, self.sizes, self.counts(epoch), strict=True)
            ]
        )
        return np.repeat(np.arange(len(repeats), dtype=np.int32), repeats)

    def finished_part(self, epochs_done: float, num_epochs: int) -> float:
        """The part of the pairs of `num_epochs` epochs that the finished ones have."""
        return self._work(epochs_done) / self._work(num_epochs)

    def epochs_left(self, epochs_done: float, num_epochs: int) -> float:
        """The rest of `num_epochs` epochs, in epochs of the size of the current one."""
        rest = self._work(num_epochs) - self._work(epochs_done)
        return rest / self._size(self.stage(int(epochs_done)))

    def _work(self, epochs: float) -> float:
        """The pairs of the first epochs, in epochs of the size of the first: `epochs` if equal."""
        ends = [*self.first_epochs[1:], math.inf]
        return sum(
            max(0.0, min(epochs, end) - first) * self._size(stage)
            for first, end, stage in zip(self.first_epochs, ends, self.stages, strict=True)
        )

    def _size(self, stage: Stage) -> float:
        return sum(self._counts(stage)) / sum(self._counts(self.stages[0]))

    def identity(self) -> list[list[int | str]]:
        """The first epoch of each stage, and its weights and sizes; "" if all weights are 1."""
        return [
            [first, self._describe(stage)]
            for first, stage in zip(self.first_epochs, self.stages, strict=True)
        ]

    def _describe(self, stage: Stage) -> str:
        if self._counts(stage) == list(self.sizes):
            return ""
        pairs = zip(stage.dataset_weight, self.sizes, strict=True)
        return ", ".join(f"{weight:g} x {size:,} pairs" for weight, size in pairs)


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
        keys = hashes(SALT, seed, epoch, np.arange(first, first + size, dtype=np.int64))
        repeats[np.argsort(keys, kind="stable")[:rest]] += 1
    return repeats
