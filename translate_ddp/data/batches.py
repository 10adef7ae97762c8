"""Which sentences form step k, which of them are this rank's, and their padded tensors.

Pure functions of lengths, seed and epoch: every rank computes the same plan and takes its share,
so nothing about the order of data is ever stored or communicated. Ranks are two integers here.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import EOS, PAD, SOS
from translate_ddp.settings import BatchConfig

T = TypeVar("T")

# Steps prepared ahead of the one that trains. On a CPU a thread would only take its cores.
PREFETCHED_STEPS = {"cpu": 0, "cuda": 8}


class Batch(NamedTuple):
    """One pass: B sentences of up to S source and T target tokens, R of the latter real."""

    source_BS: Tensor  # ends in [EOS], then [PAD]
    target_BT: Tensor  # starts with [SOS]: what the decoder reads
    real_R: Tensor  # positions in the flattened target that are no padding
    labels_R: Tensor  # what the decoder should write there, [EOS] last

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))

    def pin_memory(self) -> "Batch":
        """A copy in page-locked memory, from which a GPU reads while the host goes on."""
        return Batch(*(tensor.pin_memory() for tensor in self))


class Step(NamedTuple):
    """What one rank needs for one optimizer step."""

    passes: list[Batch]  # of this rank
    target_tokens: int  # of all ranks: the summed loss is divided by it
    rows: np.ndarray  # of all ranks, as indices into the training set


ORDER = 3  # to be raised with every change of the order that `plan_epoch` makes


@dataclass(frozen=True)
class Lengths:
    """Tokens of each pair with the end marker; what a plan is made from."""

    source: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, dataset: ParallelDataset) -> "Lengths":
        return cls(dataset.source.lengths + 1, dataset.target.lengths + 1)

    @property
    def longest_side(self) -> np.ndarray:
        return np.maximum(self.source, self.target)


def plan_epoch(
    lengths: Lengths, config: BatchConfig, *, seed: int, epoch: int, world_size: int
) -> list[np.ndarray]:
    """The rows of each step of an epoch: every row once, steps in random order.

    Rows are sorted by target length, then source length, ties at random, and cut into steps, so a
    step holds rows of about one length, and a number of them that ranks share out evenly. The
    world's size matters only where `batch_size` counts per rank.
    """
    random = np.random.default_rng([seed, epoch])
    # The sources of one target length rise and those of the next one fall: a step with the end of
    # the one and the start of the other holds sources of one length, too.
    _, place = np.unique(lengths.target, return_inverse=True)
    source = np.where(place % 2, -lengths.source, lengths.source)
    order = np.lexsort((random.random(len(source)), source, lengths.target))
    if config.batch_size:
        rows_a_step = config.batch_size * world_size
        steps = np.split(order, range(rows_a_step, len(order), rows_a_step))
    else:
        steps = _cut(order, lengths.longest_side, config.batch_tokens, divisible=True)
    return [steps[i] for i in random.permutation(len(steps))]


def shard(rows: np.ndarray, rank: int, size: int) -> np.ndarray:
    """This rank's part of a step: about as many rows, and as long ones, as everybody's."""
    return rows[rank::size]


def _cut(
    rows: np.ndarray, lengths: np.ndarray, budget: int, divisible: bool = False
) -> list[np.ndarray]:
    """Consecutive groups of rows, as large as fits: count times longest stays within the budget,
    but for a row that alone exceeds it.

    All but the last of `divisible` ones share out evenly to 8 ranks or passes, small ones to 4 or
    2: one row too many may cost a rank a whole pass while the others wait.
    """
    lengths = lengths[rows]
    ends, first = [], 0
    while first < len(rows):
        ahead = lengths[first : first + max(1, budget // lengths[first])]
        sizes = np.arange(1, len(ahead) + 1) * np.maximum.accumulate(ahead)
        count = max(1, int(np.searchsorted(sizes, budget, side="right")))
        if divisible and first + count < len(rows):
            count -= count % _divisor(count)
        first += count
        ends.append(first)
    return np.split(rows, ends[:-1])


def _divisor(count: int) -> int:
    """The largest of 8, 4, 2 and 1 that leaves at most an eighth of the rows to the next group."""
    return max((divisor for divisor in (1, 2, 4, 8) if 8 * divisor <= count), default=1)


class StepSampler:
    """The rows of each step, of all ranks, from any step of any epoch on."""

    def __init__(
        self, lengths: Lengths, config: BatchConfig, *, seed: int, rank: int, world_size: int
    ) -> None:
        self.lengths, self.config, self.seed = lengths, config, seed
        self.rank, self.world_size = rank, world_size
        self.set_epoch(0)

    def set_epoch(self, epoch: int, first_step: int = 0) -> None:
        self.plan = plan_epoch(
            self.lengths, self.config, seed=self.seed, epoch=epoch, world_size=self.world_size
        )
        self.first_step = first_step

    def largest_step(self) -> np.ndarray:
        """Rows of the step of the most positions on both sides: it takes about the most memory."""
        source, target = self.lengths.source, self.lengths.target
        return max(
            self.plan, key=lambda rows: len(rows) * (source[rows].max() + target[rows].max())
        )

    def shard(self, rows: np.ndarray) -> np.ndarray:
        """This rank's rows of a step."""
        return shard(rows, self.rank, self.world_size)

    def target_tokens(self, rows: np.ndarray) -> int:
        """Target tokens of these rows, each row's end marker included."""
        return int(self.lengths.target[rows].sum())

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.plan[self.first_step :])

    def __len__(self) -> int:
        return len(self.plan) - self.first_step


class BatchLoader:
    """The `Step`s of one rank in the sampler's order.

    For a GPU a thread prepares the next steps in page-locked memory. It is no process: nothing is
    forked beside NCCL's threads, and no signal of a child's death reaches the trainer.
    """

    def __init__(
        self, dataset: ParallelDataset, sampler: StepSampler, max_tokens: int, device: torch.device
    ) -> None:
        self.dataset, self.sampler = dataset, sampler
        self.max_tokens, self.device = max_tokens, device

    def largest_step(self) -> Step:
        """The step of the epoch that takes about the most memory."""
        return self._prepare(self.sampler.largest_step())

    def _prepare(self, rows: np.ndarray) -> Step:
        passes = split_into_passes(self.dataset, self.sampler.shard(rows), self.max_tokens)
        if self.device.type == "cuda":
            passes = [batch.pin_memory() for batch in passes]
        return Step(passes, self.sampler.target_tokens(rows), rows)

    def __iter__(self) -> Iterator[Step]:
        steps = map(self._prepare, self.sampler)
        count = PREFETCHED_STEPS[self.device.type]
        return prefetch(steps, count, self._begin_thread) if count else steps

    def _begin_thread(self) -> None:
        # A new thread is on GPU 0, where it would take memory from another rank.
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)


def prefetch(
    items: Iterator[T], count: int, begin: Callable[[], None] = lambda: None
) -> Iterator[T]:
    """The same items, `count` of them computed ahead by a thread, which calls `begin` first.

    The thread ends when the iteration does, however it ends. What it raises is raised here.
    """
    end = object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch", initializer=begin)
    try:
        ahead = deque(pool.submit(next, items, end) for _ in range(count))
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item  # pyright: ignore[reportReturnType]
    finally:
        pool.shutdown(cancel_futures=True)


def split_into_passes(dataset: ParallelDataset, rows: np.ndarray, max_tokens: int) -> list[Batch]:
    """These rows, padded, in as few passes of up to `max_tokens` a side as their order allows."""
    if not len(rows):
        return [empty_batch()]
    pairs = dataset.take(rows)
    lengths = np.maximum(pairs.source.lengths, pairs.target.lengths) + 1
    groups = _cut(np.arange(len(rows)), lengths, max_tokens)
    return [collate(pairs.take(group)) for group in groups]


def collate(pairs: ParallelDataset) -> Batch:
    """The pairs side by side, padded to the longest on each side."""
    labels_BT = pad(pairs.target, last=EOS)
    real_R = (labels_BT.flatten() != PAD).nonzero().flatten()
    return Batch(
        source_BS=pad(pairs.source, last=EOS),
        target_BT=pad(pairs.target, first=SOS),
        real_R=real_R,
        labels_R=labels_BT.flatten()[real_R],
    )


def empty_batch() -> Batch:
    """A pass without weight, for a rank that has no row in a step but whose peers await it."""
    none = torch.empty(0, dtype=torch.int64)
    return Batch(torch.tensor([[EOS]]), torch.tensor([[SOS]]), real_R=none, labels_R=none)


def pad(rows: Ragged, first: int = PAD, last: int = PAD) -> Tensor:
    """Rows with `first` in front or `last` behind, filled up on the right with [PAD]."""
    lengths = rows.lengths
    start = int(first != PAD)
    padded = np.full((len(rows), lengths.max() + 1), PAD, dtype=np.int64)
    columns = np.arange(padded.shape[1])
    padded[(columns >= start) & (columns < start + lengths[:, None])] = rows.tokens
    if first != PAD:
        padded[:, 0] = first
    if last != PAD:
        padded[np.arange(len(rows)), lengths] = last
    return torch.from_numpy(padded)


def padding_share(sampler: StepSampler, max_tokens: int) -> float:
    """Which part of all positions this rank computes in the epoch is padding."""
    real = padded = 0
    longest_side = sampler.lengths.longest_side
    for rows in map(sampler.shard, sampler.plan):
        for group in _cut(rows, longest_side, max_tokens) if len(rows) else []:
            for lengths in (sampler.lengths.source[group], sampler.lengths.target[group]):
                real += int(lengths.sum())
                padded += int(lengths.max()) * len(group)
    return 1 - real / max(padded, 1)
