"""The pairs of each dataset that an epoch has: a pure function of seed, epoch, sizes and weights.

The random numbers are hashes of integers, which other modules use, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from translate_ddp.errors import UserError
from translate_ddp.settings import MixConfig, Stage

SALT = 0x6D6978  # keeps the draws apart from those of other modules


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


@dataclass(frozen=True)
class Mix:
    """The training pairs of each dataset, which follow each other, and the stages of a run."""

    sizes: tuple[int, ...]
    stages: tuple[Stage, ...]  # at least one; the last has all further epochs, too

    @classmethod
    def of(cls, config: MixConfig, sizes: Sequence[int], num_epochs: int) -> Mix:
        """The mix of a run. Both directions of a dataset, if it has two, have its weight.

        Raises UserError if an epoch would have no pairs.
        """
        stages = config.stages or (Stage(num_epochs, config.dataset_weight),)
        found = cls(
            tuple(sizes),
            tuple(Stage(each.epochs, _weights(each.dataset_weight, sizes)) for each in stages),
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
        """The number of drawn pairs of each dataset in an epoch: round(weight * size)."""
        return self._counts(self.stage(epoch))

    def _counts(self, stage: Stage) -> list[int]:
        pairs = zip(stage.dataset_weight, self.sizes, strict=True)
        return [round(weight * size) for weight, size in pairs]

    def draws_all_once(self, epoch: int) -> bool:
        """Whether the epoch has every row once, as without weights."""
        return self.counts(epoch) == list(self.sizes)

    def draw(self, seed: int, epoch: int) -> np.ndarray:
        """The rows of an epoch, ascending, some of them several times.

        Of a dataset with the weight 2.5, each row is drawn twice, and the half of them with the
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


def _weights(given: Sequence[float], sizes: Sequence[int]) -> tuple[float, ...]:
    """A weight for each size; the datasets, if trained in both directions, come twice."""
    return tuple(given) * (len(sizes) // len(given)) if given else (1.0,) * len(sizes)


def _repeats(first: int, size: int, count: int, seed: int, epoch: int) -> np.ndarray:
    """How often each of `size` rows from `first` is drawn, so that the sum is `count`."""
    full, rest = divmod(count, size) if size else (0, 0)
    repeats = np.full(size, full, dtype=np.int32)
    if rest:
        keys = hashes(SALT, seed, epoch, np.arange(first, first + size, dtype=np.int64))
        repeats[np.argsort(keys, kind="stable")[:rest]] += 1
    return repeats
