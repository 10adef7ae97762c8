"""The plan of an epoch: which pairs each optimizer step holds, and which of them share a pass.

It is a pure function of lengths, seed and epoch, so the order of the data is never communicated or
saved in a checkpoint.
"""

import math
from dataclasses import dataclass

import numpy as np

from translate_ddp.data.dataset import ParallelDataset
from translate_ddp.settings import BatchConfig

ORDER = 6  # version of the order of the rows in an epoch; raise it with every change

BLOCK_ROWS = 1 << 20  # sorted at once; bounds the memory
# A group has at least this many tokens for each group of its step. In steps of 1,024 tokens, a
# second group would take a third more time on a CPU.
GROUP_TOKENS = 512
STRATA = 4  # of the distribution of lengths, at least


@dataclass(frozen=True)
class Lengths:
    """Tokens of each pair, end marker included."""

    source: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, dataset: ParallelDataset) -> "Lengths":
        source, target = (
            (side.lengths + 1).astype(np.int32) for side in (dataset.source, dataset.target)
        )
        return cls(source, target)

    @property
    def longest_side(self) -> np.ndarray:
        return np.maximum(self.source, self.target)


@dataclass(frozen=True)
class Plan:
    """The steps of an epoch: every drawn row once. Few large arrays, about 5 bytes per row.

    Step i has the groups `steps[i]` to `steps[i + 1]`. Group g has `counts[g]` rows of similar
    length, from `starts[g]` in `rows`; a pass holds rows of one group.
    """

    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    steps: np.ndarray

    def __len__(self) -> int:
        return len(self.steps) - 1

    def group(self, index: int) -> np.ndarray:
        start = self.starts[index]
        return self.rows[start : start + self.counts[index]]

    def groups(self, step: int) -> list[np.ndarray]:
        """The rows of each group of a step."""
        return [self.group(index) for index in range(self.steps[step], self.steps[step + 1])]

    def __getitem__(self, step: int) -> np.ndarray:
        """The rows of a step."""
        return np.concatenate(self.groups(step))


def plan_epoch(
    lengths: Lengths, config: BatchConfig, *, seed: int, epoch: int, world_size: int
) -> Plan:
    """The steps of an epoch: every row once, in steps of about equal size and of mixed lengths.

    The shuffled rows are sorted by length in blocks and cut into groups of equal size, of which a
    step has `groups_per_step`, from short to long ones. With fewer than 4, consecutive steps
    complement each other. `world_size` has an effect only with `batch_size`, which counts rows
    per rank.
    """
    random = np.random.default_rng([seed, epoch])
    longest_side = lengths.longest_side
    groups_of_step = groups_per_step(longest_side, config)
    size = (config.batch_size or config.batch_tokens) // groups_of_step
    shuffled = random.permutation(np.arange(len(longest_side), dtype=np.int32))
    starts, counts, steps, first = [], [], [], 0
    for rows in np.array_split(shuffled, math.ceil(len(shuffled) / BLOCK_ROWS)):
        rows[:] = rows[_sort(lengths.source[rows], lengths.target[rows])]
        block_starts = np.arange(0, len(rows), size)
        if not config.batch_size:
            block_starts = _cut(longest_side[rows], size)
        block_counts = np.diff(block_starts, append=len(rows))
        order, groups_of_steps = _deal(len(block_starts), groups_of_step, random)
        starts.append(first + block_starts[order])
        counts.append(block_counts[order])
        steps.append(groups_of_steps)
        first += len(rows)
    ends = np.concatenate([[0], *steps]).cumsum()
    if config.batch_size:  # so far these are the steps of one rank
        ends = np.append(ends[:-1:world_size], ends[-1])
    return Plan(shuffled, np.concatenate(starts), np.concatenate(counts), ends)


def groups_per_step(longest_side: np.ndarray, config: BatchConfig) -> int:
    """The number of groups of a step: a power of two, which ranks can divide evenly.

    With G groups from G equal parts of the distribution of lengths, the lengths add variance to the
    gradient in proportion to tokens / G^3. In steps of 2,048 tokens of image captions it is 2.4,
    1.2 and 1.1 times that of random rows for 1, 2 and 4 groups. But each group costs a pass. So
    groups grow in number and in size alike, with the square root of the step: 1 group of 1,024
    tokens, 2 of 1,024, 4 of 2,048, 4 of 6,250, 8 of 4,096.
    """
    tokens, capacity = config.batch_tokens, config.batch_tokens // int(longest_side.max())
    if config.batch_size:
        # Its rows are divided exactly.
        tokens, capacity = config.batch_size * longest_side.mean(), config.batch_size
    groups = 1
    while (
        GROUP_TOKENS * (2 * groups) ** 2 <= tokens
        and 2 * groups <= capacity
        and config.batch_size % (2 * groups) == 0
    ):
        groups *= 2
    return groups


def _sort(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The order by longest side, longest first, then by the difference of the sides.

    The difference descends within one length and ascends within the next, so that a group with the
    end of the one and the start of the other has similar pairs, too. Equal pairs stay in order.
    """
    longest, difference = np.maximum(source, target, dtype=np.int64), target - source
    key = -longest * (2 * longest.max() + 1) + np.where(longest % 2, difference, -difference)
    # Other kinds than stable have different results on different processors.
    return np.argsort(key, kind="stable")


def _cut(lengths: np.ndarray, size: int) -> np.ndarray:
    """The starts of consecutive groups, each as large as `size` allows; `lengths` descend.

    The size of a group is its number of rows times its first length, at least one row.
    """
    starts, first = [], 0
    # A loop over the distinct lengths, which are few: groups that start with the same length have
    # the same number of rows.
    for end in [*np.flatnonzero(np.diff(lengths)) + 1, len(lengths)]:
        if first < end:
            count = max(1, size // int(lengths[first]))
            # Large groups can be divided evenly among 8, 4 or 2 ranks or passes: one row too many
            # would cost a rank another pass while the others wait. At most 3% remain empty.
            count -= count % max(n for n in (1, 2, 4, 8) if n == 1 or 32 * n <= count)
            starts.append(np.arange(first, end, count))
            first = int(starts[-1][-1]) + count
    return np.concatenate(starts)


def _deal(
    num_groups: int, groups_of_step: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The groups in the order of the steps, and the number of groups of each step.

    The groups, sorted by length, are divided into strata. A round has a random group of each
    stratum, and is divided into steps in random order. A step of two groups has a stratum of long
    rows and the opposite one of short rows. If it has one, then at least the mean of a few
    consecutive steps, which is what Adam follows, is over all lengths.
    """
    num_strata = max(STRATA, groups_of_step)
    strata = np.array_split(np.arange(num_groups), num_strata)
    table = np.full((len(strata[0]), num_strata), -1)  # rounds x strata; -1: no group is left
    for stratum, groups in enumerate(strata):
        table[: len(groups), stratum] = random.permutation(groups)
    first_half = np.arange(num_strata // 2)
    opposites = np.stack([first_half, num_strata - 1 - first_half], axis=1).flatten()
    steps = table[:, opposites].reshape(len(table), -1, groups_of_step)
    turns = random.permuted(np.broadcast_to(np.arange(steps.shape[1]), steps.shape[:2]), axis=1)
    steps = np.take_along_axis(steps, turns[:, :, None], axis=1).reshape(-1, groups_of_step)
    counts = (steps >= 0).sum(axis=1)
    return steps[steps >= 0], counts[counts > 0]
