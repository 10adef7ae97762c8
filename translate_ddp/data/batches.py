"""The batches of each optimizer step: which pairs it holds, and their padded tensors.

The plan of an epoch is a pure function of lengths, seed and epoch. Every rank computes the same
plan and takes its shard of each step, so the order of the data is never stored or communicated.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from translate_ddp.data.augmentation import Augmentation
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import EOS, PAD, SOS
from translate_ddp.settings import BatchConfig

T = TypeVar("T")

# Steps prepared in advance by a thread. On a CPU the thread would compete with training for cores.
PREFETCHED_STEPS = {"cpu": 0, "cuda": 8}
GROWTH = 2.0  # maximum growth of a pass by augmentation, in positions


class Batch(NamedTuple):
    """The pairs of one pass: B sentences of up to S source and T target tokens, R labels."""

    source_BS: Tensor  # tokens, [EOS], [PAD]
    target_BT: Tensor  # [SOS], tokens, [PAD]: the decoder's input
    real_R: Tensor  # positions in the flattened target that are not padding
    labels_R: Tensor  # the token to predict at each of them; [EOS] at the last of a sentence

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))

    def pin_memory(self) -> "Batch":
        """A copy in page-locked memory, which allows asynchronous copies to a GPU."""
        return Batch(*(tensor.pin_memory() for tensor in self))


class Step(NamedTuple):
    """One optimizer step, as one rank computes it."""

    passes: list[Batch]  # of this rank
    target_tokens: int  # of all ranks: the summed loss is divided by it
    rows: np.ndarray  # of all ranks, as indices into the training set


ORDER = 3  # version of the order that `plan_epoch` returns; raise it with every change


@dataclass(frozen=True)
class Lengths:
    """Tokens of each pair, end marker included."""

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
    """The rows of each step of an epoch: every row once, in steps of random order.

    Rows are sorted by target length, then by source length, equal ones at random, and divided into
    steps. So the rows of a step are of similar length. `world_size` has an effect only with
    `batch_size`, which counts rows per rank.
    """
    random = np.random.default_rng([seed, epoch])
    # Source lengths ascend within one target length and descend within the next, so that a step
    # with the end of the one and the start of the other has similar ones, too.
    _, target_index = np.unique(lengths.target, return_inverse=True)
    source = np.where(target_index % 2, -lengths.source, lengths.source)
    order = np.lexsort((random.random(len(source)), source, lengths.target))
    if config.batch_size:
        rows_per_step = config.batch_size * world_size
        steps = np.split(order, range(rows_per_step, len(order), rows_per_step))
    else:
        steps = group_by_tokens(order, lengths.longest_side, config.batch_tokens, balanced=True)
    return [steps[i] for i in random.permutation(len(steps))]


def shard(rows: np.ndarray, rank: int, size: int) -> np.ndarray:
    """One rank's rows of a step, similar in number and length to those of the other ranks."""
    return rows[rank::size]


def group_by_tokens(
    rows: np.ndarray, lengths: np.ndarray, max_tokens: int, *, balanced: bool = False
) -> list[np.ndarray]:
    """Consecutive groups of `rows`, each as large as `max_tokens` allows.

    The size of a group is its number of rows times the longest of `lengths[rows]`. A row longer
    than `max_tokens` is a group of its own. `balanced` groups, all but the last, can be divided
    evenly among 8 ranks or passes, small ones among 4 or 2: one row too many may cost one rank
    another pass while the others wait.
    """
    lengths, groups, first = lengths[rows], [], 0
    while first < len(rows):
        candidates = lengths[first : first + max(1, max_tokens // lengths[first])]
        sizes = np.arange(1, len(candidates) + 1) * np.maximum.accumulate(candidates)
        count = max(1, int(np.searchsorted(sizes, max_tokens, side="right")))
        if balanced and first + count < len(rows):
            # At most an eighth of the rows are left to the next group.
            count -= count % max(n for n in (1, 2, 4, 8) if n == 1 or 8 * n <= count)
        groups.append(rows[first : first + count])
        first += count
    return groups


class StepSampler:
    """The rows of each step of an epoch, those of all ranks, starting at any step."""

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
        self.epoch, self.first_step = epoch, first_step

    def shard(self, rows: np.ndarray) -> np.ndarray:
        """This rank's part of the rows of a step."""
        return shard(rows, self.rank, self.world_size)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.plan[self.first_step :])


class BatchLoader:
    """The steps of one rank in the sampler's order, with passes of up to `max_tokens` a side.

    For a GPU, a thread prepares the next steps in page-locked memory. No process, because a fork
    copies NCCL's threads in an undefined state, and its death would send a signal to the trainer.
    """

    def __init__(
        self,
        dataset: ParallelDataset,
        sampler: StepSampler,
        max_tokens: int,
        device: torch.device,
        augmentation: Augmentation | None = None,
    ) -> None:
        self.dataset, self.sampler = dataset, sampler
        self.max_tokens, self.device = max_tokens, device
        self.augmentation = augmentation

    def largest_step(self) -> Step:
        """The step with the most positions, which takes about the most memory."""
        source, target = self.sampler.lengths.source, self.sampler.lengths.target
        plan = self.sampler.plan
        positions = [len(rows) * (source[rows].max() + target[rows].max()) for rows in plan]
        return self.prepare(plan[int(np.argmax(positions))])

    def prepare(self, rows: np.ndarray) -> Step:
        """The step of these rows of all ranks, in page-locked memory if the device is a GPU."""
        target_lengths = self.sampler.lengths.target[rows]
        shard = self.sampler.shard(rows)
        if self.augmentation is None:
            passes = split_into_passes(self.dataset, shard, self.max_tokens)
        else:
            epoch = self.sampler.epoch
            passes = self._augmented_passes(self.augmentation, shard, epoch)
            target_lengths = self.augmentation.target_lengths(target_lengths, rows, epoch)
        if self.device.type == "cuda":
            passes = [batch.pin_memory() for batch in passes]
        return Step(passes, int(target_lengths.sum()), rows)

    def _augmented_passes(
        self, augmentation: Augmentation, rows: np.ndarray, epoch: int
    ) -> list[Batch]:
        """The passes of these rows after augmentation, the shortest sentences first.

        Upper case makes a few sentences several times as long. They form a pass of their own
        instead of padding all others, and no pass needs much more memory than in the warm-up.
        """
        plain = self.dataset.take(rows)
        pairs = augmentation.apply(plain, rows, epoch)
        before, after = (Lengths.of(each).longest_side for each in (plain, pairs))
        limit = min(self.max_tokens, int(GROWTH * len(rows) * before.max(initial=0)))
        return split_into_passes(pairs, np.argsort(after, kind="stable"), limit)

    def __iter__(self) -> Iterator[Step]:
        steps = map(self.prepare, self.sampler)
        if not (count := PREFETCHED_STEPS[self.device.type]):
            return steps
        # A new thread uses GPU 0, where it would allocate memory of another rank's GPU.
        is_cuda = self.device.type == "cuda"
        return prefetch(steps, count, lambda: is_cuda and torch.cuda.set_device(self.device))


def prefetch(
    items: Iterator[T], count: int, initializer: Callable[[], object] | None = None
) -> Iterator[T]:
    """The same items and exceptions, up to `count` items computed in advance by a thread.

    The thread calls `initializer` first, and ends with the iteration, also if that ends early.
    """
    end = object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch", initializer=initializer)
    try:
        pending = deque(pool.submit(next, items, end) for _ in range(count))
        while (item := pending.popleft().result()) is not end:
            pending.append(pool.submit(next, items, end))
            yield item  # pyright: ignore[reportReturnType]
    finally:
        pool.shutdown(cancel_futures=True)


def split_into_passes(dataset: ParallelDataset, rows: np.ndarray, max_tokens: int) -> list[Batch]:
    """Batches of these rows in their order, each of up to `max_tokens` padded tokens a side.

    At least one, since every rank must call backward in every step: without rows, an empty one.
    """
    pairs = dataset.take(rows)
    groups = group_by_tokens(np.arange(len(rows)), Lengths.of(pairs).longest_side, max_tokens)
    return [collate(pairs.take(group)) for group in groups] or [empty_batch()]


def collate(pairs: ParallelDataset) -> Batch:
    """One batch of all pairs, padded to the longest sentence of each side."""
    labels_BT = pad(pairs.target, last=EOS)
    real_R = (labels_BT.flatten() != PAD).nonzero().flatten()
    return Batch(
        source_BS=pad(pairs.source, last=EOS),
        target_BT=pad(pairs.target, first=SOS),
        real_R=real_R,
        labels_R=labels_BT.flatten()[real_R],
    )


def empty_batch() -> Batch:
    """A batch of one sentence without labels, whose loss and gradients are zero."""
    no_labels = torch.empty(0, dtype=torch.int64)
    return Batch(torch.tensor([[EOS]]), torch.tensor([[SOS]]), real_R=no_labels, labels_R=no_labels)


def pad(rows: Ragged, first: int = PAD, last: int = PAD) -> Tensor:
    """Rows as one matrix, after `first` or before `last`, padded on the right with [PAD]."""
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
    """Fraction of padding among all positions that this rank computes in the epoch."""
    real = padded = 0
    longest_side = sampler.lengths.longest_side
    for rows in map(sampler.shard, sampler.plan):
        for group in group_by_tokens(rows, longest_side, max_tokens):
            for lengths in (sampler.lengths.source[group], sampler.lengths.target[group]):
                real += int(lengths.sum())
                padded += int(lengths.max()) * len(group)
    return 1 - real / max(padded, 1)
