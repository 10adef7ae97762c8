"""The plan of an epoch: the pairs of each optimizer step, in buckets of similar length.

The plan is a pure function of lengths, seed and epoch, so the order of the data is never
communicated or saved in a checkpoint.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from translate_ddp.data.dataset import Lengths, TrainingPairs
from translate_ddp.data.mix import Block, Mix
from translate_ddp.runtime.long_calls import BackgroundThread
from translate_ddp.settings import BatchConfig

ORDER = 6  # version of the order of the rows in an epoch; raise it with every change

BLOCK_ROWS = 1 << 20  # sorted at once; bounds the memory
# A bucket has at least this many tokens for each bucket of its step. In steps of 1,024 tokens, a
# second bucket would take a third more time on a CPU.
BUCKET_TOKENS = 512
STRATA = 4  # groups of buckets by length, at least


@dataclass(frozen=True)
class Plan:
    """The steps of an epoch: every drawn row once. Few large arrays, about 5 bytes per row.

    Step i has the buckets `steps[i]` to `steps[i + 1]`. Bucket b has `counts[b]` rows of similar
    length, from `starts[b]` in `rows`. A micro-batch has rows of one bucket, on a GPU of several.
    """

    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    steps: np.ndarray

    def __len__(self) -> int:
        return len(self.steps) - 1

    def bucket(self, index: int) -> np.ndarray:
        start = self.starts[index]
        return self.rows[start : start + self.counts[index]]

    def buckets(self, step: int) -> list[np.ndarray]:
        """The rows of each bucket of a step."""
        return [self.bucket(index) for index in range(self.steps[step], self.steps[step + 1])]

    def longest(self, lengths: np.ndarray) -> np.ndarray:
        """The longest of these lengths of all rows in each bucket."""
        order = np.argsort(self.starts)  # the buckets follow each other in `rows`
        longest = np.empty(len(order), dtype=np.int64)
        longest[order] = np.maximum.reduceat(lengths[self.rows], self.starts[order])
        return longest

    def __getitem__(self, step: int) -> np.ndarray:
        """The rows of a step."""
        return np.concatenate(self.buckets(step))


def plan_epoch(
    lengths: Lengths, config: BatchConfig, *, seed: int, epoch: int, world_size: int
) -> Plan:
    """The steps of an epoch: every row once, in steps of about equal size and of mixed lengths.

    The shuffled rows are sorted by length in blocks and cut into buckets of equal size, of which a
    step has `buckets_per_step`, from short to long ones. With fewer than 4, consecutive steps
    complement each other. `world_size` has an effect only with `batch_size`, which counts rows
    per rank.
    """
    random = np.random.default_rng([seed, epoch])
    longest_side = lengths.longest_side
    step_buckets = buckets_per_step(longest_side, config)
    size = (config.batch_size or config.batch_tokens) // step_buckets
    shuffled = random.permutation(np.arange(len(longest_side), dtype=np.int32))
    starts, counts, steps, first = [], [], [], 0
    for rows in np.array_split(shuffled, math.ceil(len(shuffled) / BLOCK_ROWS)):
        rows[:] = rows[_sort(lengths.source[rows], lengths.target[rows])]
        block_starts = np.arange(0, len(rows), size)
        if not config.batch_size:
            block_starts = _cut(longest_side[rows], size)
        block_counts = np.diff(block_starts, append=len(rows))
        order, bucket_counts = _interleave(len(block_starts), step_buckets, random)
        starts.append(first + block_starts[order])
        counts.append(block_counts[order])
        steps.append(bucket_counts)
        first += len(rows)
    ends = np.concatenate([[0], *steps]).cumsum()
    if config.batch_size:  # so far these are the steps of one rank
        ends = np.append(ends[:-1:world_size], ends[-1])
    return Plan(shuffled, np.concatenate(starts), np.concatenate(counts), ends)


def buckets_per_step(longest_side: np.ndarray, config: BatchConfig) -> int:
    """The number of buckets of a step: a power of two, which ranks can divide evenly.

    With B buckets from B equal parts of the distribution of lengths, the lengths add variance to
    the gradient in proportion to tokens / B^3. In steps of 2,048 tokens of image captions the
    variance is 2.4, 1.2 and 1.1 times as large as with random rows for 1, 2 and 4 buckets. But
    each bucket costs a micro-batch. So buckets grow in number and in size alike, with the square
    root of the step: 1 bucket of 1,024 tokens, 2 of 1,024, 4 of 2,048, 4 of 6,250, 8 of 4,096.
    """
    tokens, capacity = config.batch_tokens, config.batch_tokens // int(longest_side.max())
    if config.batch_size:
        # Its rows are divided exactly.
        tokens, capacity = config.batch_size * longest_side.mean(), config.batch_size
    buckets = 1
    while (
        BUCKET_TOKENS * (2 * buckets) ** 2 <= tokens
        and 2 * buckets <= capacity
        and config.batch_size % (2 * buckets) == 0
    ):
        buckets *= 2
    return buckets


def largest_part(
    longest_2: np.ndarray, config: BatchConfig, world_size: int, *, merged: bool
) -> np.ndarray:
    """The most positions of source and target in a rank's part of a bucket, in any epoch.

    `longest_2` are the longest source and target. With `merged`, parts of several buckets are one.
    """
    if config.batch_size or (merged and config.batch_tokens >= 4 * BUCKET_TOKENS):
        return (config.batch_size or config.batch_tokens) * longest_2
    # Epochs without the longest sentences have as many buckets in a step, or more.
    bucket = config.batch_tokens // buckets_per_step(longest_2, config)
    return np.minimum(bucket, config.batch_tokens // world_size + longest_2)  # rounded to rows


def _sort(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The order by longest side, longest first, then by the difference of the sides.

    The difference descends within one length and ascends within the next, so that a bucket with
    the end of one length and the start of the next has similar pairs, too. Equal pairs stay in
    order.
    """
    longest, difference = np.maximum(source, target, dtype=np.int64), target - source
    key = -longest * (2 * longest.max() + 1) + np.where(longest % 2, difference, -difference)
    # Other kinds than stable have different results on different processors.
    return np.argsort(key, kind="stable")


def _cut(lengths: np.ndarray, size: int) -> np.ndarray:
    """The starts of consecutive buckets, each as large as `size` allows; `lengths` descend.

    The size of a bucket is its number of rows times its first length. It has at least one row.
    """
    starts, first = [], 0
    # A loop over the distinct lengths, which are few: buckets that start with the same length have
    # the same number of rows.
    for end in [*np.flatnonzero(np.diff(lengths)) + 1, len(lengths)]:
        if first < end:
            count = max(1, size // int(lengths[first]))
            # Large buckets can be divided evenly among 8, 4 or 2 ranks or micro-batches: one row
            # too many would cost a rank another micro-batch while the others wait. At most 3%
            # remain empty.
            count -= count % max(n for n in (1, 2, 4, 8) if n == 1 or 32 * n <= count)
            starts.append(np.arange(first, end, count))
            first = int(starts[-1][-1]) + count
    return np.concatenate(starts)


def _interleave(
    num_buckets: int, step_buckets: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The buckets in the order of the steps, and the number of buckets of each step.

    The buckets, sorted by length, are divided into strata. A round has a random bucket of each
    stratum, and is divided into steps in random order. A step of two buckets has a stratum of long
    rows and the opposite stratum of short rows: of strata 0 to 3, steps have 0 and 3, or 1 and 2; a
    step of four has all. With one bucket per step, at least the mean of a
    few consecutive steps, which is what Adam follows, is over all lengths.
    """
    num_strata = max(STRATA, step_buckets)
    strata = np.array_split(np.arange(num_buckets), num_strata)
    table = np.full((len(strata[0]), num_strata), -1)  # rounds x strata; -1: no bucket is left
    for stratum, buckets in enumerate(strata):
        table[: len(buckets), stratum] = random.permutation(buckets)
    first_half = np.arange(num_strata // 2)
    opposites = np.stack([first_half, num_strata - 1 - first_half], axis=1).flatten()
    steps = table[:, opposites].reshape(len(table), -1, step_buckets)
    turns = random.permuted(np.broadcast_to(np.arange(steps.shape[1]), steps.shape[:2]), axis=1)
    steps = np.take_along_axis(steps, turns[:, :, None], axis=1).reshape(-1, step_buckets)
    counts = (steps >= 0).sum(axis=1)
    return steps[steps >= 0], counts[counts > 0]


class StepSampler:
    """The buckets of each step of an epoch, with the rows of all ranks, starting at any step.

    While an epoch is iterated over, a thread computes the plan of the next one.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        config: BatchConfig,
        *,
        rank: int = 0,
        world_size: int = 1,
        mix: Mix | None = None,
        num_epochs: int = 1,
    ) -> None:
        """`mix` has the rows of each epoch; without it, every row is drawn once."""
        self.pairs, self.config = pairs, config
        self.mix = mix or Mix.of((), [Block(0, 0, len(pairs))])
        self.rank, self.world_size, self.num_epochs = rank, world_size, num_epochs
        self._planned: dict[int, Future[Plan]] = {}  # by epoch: the next one
        self.epoch, self.first_step = 0, 0
        self.plan, self.lengths = self._plan(0), pairs.lengths(0)

    def set_epoch(self, epoch: int, first_step: int = 0) -> None:
        self.first_step = first_step
        if epoch == self.epoch:
            return
        planned, self._planned = self._planned.get(epoch), {}
        self.plan = planned.result() if planned else self._plan(epoch)
        self.epoch, self.lengths = epoch, self.pairs.lengths(epoch)

    def _plan(self, epoch: int) -> Plan:
        ranks = self.world_size if self.config.batch_size else 1
        seed, lengths = self.pairs.seed, self.pairs.lengths(epoch)
        if self.mix.draws_all_once:
            return plan_epoch(lengths, self.config, seed=seed, epoch=epoch, world_size=ranks)
        rows = self.mix.draw(seed, epoch)
        lengths = lengths.take(rows)
        plan = plan_epoch(lengths, self.config, seed=seed, epoch=epoch, world_size=ranks)
        return replace(plan, rows=rows[plan.rows])

    def shard(self, buckets: Sequence[np.ndarray]) -> list[np.ndarray]:
        """This rank's part of each bucket of a step."""
        return shard(buckets, self.rank, self.world_size)

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        following = self.epoch + 1
        if following < self.num_epochs and following not in self._planned:
            thread = BackgroundThread("plan of the next epoch")
            self._planned[following] = thread.submit(partial(self._plan, following))
            thread.close(timeout=0)  # it ends after this call
        return map(self.plan.buckets, range(self.first_step, len(self.plan)))


def shard(buckets: Sequence[np.ndarray], rank: int, size: int) -> list[np.ndarray]:
    """One rank's part of each bucket of a step, together as large as the parts of other ranks.

    The buckets of a step are about equally large, so each rank takes `len(buckets) / size` of
    them. Few ranks have whole buckets; with more ranks than buckets, each has one part of one or
    two, and no more micro-batches than without other ranks.
    """
    parts = []
    for index, rows in enumerate(buckets):
        first, last = (len(buckets) * end / size - index for end in (rank, rank + 1))
        first, last = (round(len(rows) * min(max(end, 0), 1)) for end in (first, last))
        parts.append(rows[first:last])
    return parts
