"""The batches of one rank: its shard of each step of the plan, as padded tensors."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from translate_ddp.data.dataset import Lengths, ParallelDataset, Ragged
from translate_ddp.data.plan import StepSampler, largest_part
from translate_ddp.data.tokenizer import EOS, PAD, SOS, UNK

T = TypeVar("T")

# Steps prepared in advance by a thread. On a CPU the thread would compete with training for cores.
PREFETCHED_STEPS = {"cpu": 0, "cuda": 8}
FOLDED, SHORT = 8, 32  # a GPU folds so many sentences of so many tokens (`folded_attention.py`)


class Batch(NamedTuple):
    """The pairs of one micro-batch: B sentences of up to S source and T target tokens, R labels."""

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

    micro_batches: list[Batch]  # only for this rank
    target_tokens: int  # summed over all ranks: the summed loss is divided by it
    rows: np.ndarray  # for all ranks, as indices into the training set


def batch_by_tokens(rows: np.ndarray, lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Consecutive batches of `rows`, each as large as `max_tokens` allows.

    The size of a batch is its number of rows times the longest of `lengths[rows]`. A row longer
    than `max_tokens` is a batch of its own.
    """
    lengths, batches, first = lengths[rows], [], 0
    while first < len(rows):
        candidates = lengths[first : first + max(1, max_tokens // lengths[first])]
        sizes = np.arange(1, len(candidates) + 1) * np.maximum.accumulate(candidates)
        count = max(1, int(np.searchsorted(sizes, max_tokens, side="right")))
        batches.append(rows[first : first + count])
        first += count
    return batches


class BatchLoader:
    """The steps of one rank in the sampler's order, in micro-batches of up to `max_tokens` a side.

    A GPU computes fewer than `full_tokens` tokens a side in less time than the host launches them.
    Then a micro-batch has several buckets of a step (`merge_buckets`). 0: always one.

    For a GPU, a thread prepares the next steps in page-locked memory. No process, because a fork
    copies NCCL's threads in an undefined state, and its death would send a signal to the trainer.
    """

    def __init__(
        self, sampler: StepSampler, max_tokens: int, device: torch.device, full_tokens: int = 0
    ) -> None:
        self.sampler, self.max_tokens, self.device = sampler, max_tokens, device
        self.full_tokens = full_tokens

    def largest_step(self) -> Step:
        """A made-up step of one micro-batch, the same on every rank.

        No micro-batch has more source or more target positions, in any epoch and on any rank.
        """
        lengths, ranks = self.sampler.pairs.all_lengths, self.sampler.world_size
        longest_2 = np.array([lengths.source.max(), lengths.target.max()])
        part_2 = largest_part(longest_2, self.sampler.config, ranks, merged=self.full_tokens > 0)
        positions_2 = np.maximum(longest_2, np.minimum(part_2, self.max_tokens))
        if self.full_tokens:  # with empty sentences
            positions_2 += (FOLDED - 1) * np.minimum(longest_2, SHORT)
        rows = int(np.ceil(positions_2 / longest_2).max())
        tokens_2 = np.ceil(positions_2 / rows).astype(int) - 1  # without start or end marker
        sides = (Ragged.of([[UNK] * tokens] * rows) for tokens in tokens_2)
        batch = collate(ParallelDataset(*sides))
        return Step([batch], ranks * len(batch.labels_R), np.arange(0))

    def prepare(self, buckets: Sequence[np.ndarray]) -> Step:
        """The step of these rows of all ranks, in page-locked memory if the device is a GPU."""
        sampler, parts = self.sampler, self.parts(buckets)
        pairs = sampler.pairs.take(np.concatenate(parts), sampler.epoch)
        sizes = [len(part) for part in parts]
        most, filled = self.max_tokens, self.full_tokens > 0
        micro_batches = split_into_micro_batches(pairs, sizes, most, filled)
        if self.device.type == "cuda":
            micro_batches = [batch.pin_memory() for batch in micro_batches]
        rows = np.concatenate(buckets)
        return Step(micro_batches, int(sampler.lengths.target[rows].sum()), rows)

    def parts(self, buckets: Sequence[np.ndarray]) -> list[np.ndarray]:
        """This rank's part of each bucket of a step; for a GPU, merged."""
        if not self.full_tokens:
            return self.sampler.shard(buckets)
        lengths = self.sampler.lengths
        # By length: a rank then has buckets of similar lengths, whose merging adds little padding.
        in_order = sorted(buckets, key=lambda rows: -lengths.take(rows).longest_side.max())
        shard = self.sampler.shard(in_order)
        return merge_buckets(shard, lengths, self.full_tokens, self.max_tokens)

    def __iter__(self) -> Iterator[Step]:
        steps = map(self.prepare, self.sampler)
        if not (count := PREFETCHED_STEPS[self.device.type]):
            return steps
        # A new thread uses GPU 0, where it would allocate memory of another rank's GPU.
        return prefetch(steps, count, lambda: torch.cuda.set_device(self.device))


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


def merge_buckets(
    buckets: Sequence[np.ndarray], lengths: Lengths, full_tokens: int, max_tokens: int
) -> list[np.ndarray]:
    """The rows of the buckets, which follow each other by length, in fewer buckets.

    The host launches a micro-batch in the time in which the device computes `full_tokens` tokens a
    side. Neighbours are merged, first those whose padding grows the least, as long as the slower of
    both becomes faster, and a bucket has at most `max_tokens` padded tokens a side.
    """
    merged = [rows for rows in buckets if len(rows)]
    while len(merged) > 1:
        joined = [np.concatenate(two) for two in pairwise(merged)]
        sizes = np.array([padded_tokens(rows, lengths) for rows in merged]).sum(axis=1)
        joined_sizes = np.array([padded_tokens(rows, lengths) for rows in joined])
        growth = joined_sizes.sum(axis=1) - sizes[:-1] - sizes[1:]
        growth = np.where(joined_sizes.max(axis=1) <= max_tokens, growth, np.inf)
        best = int(growth.argmin())
        launch, compute = 2 * full_tokens, sizes.sum()  # times, counted in tokens of two sides
        slower = max(len(merged) * launch, compute)
        if max((len(merged) - 1) * launch, compute + growth[best]) >= slower:
            break
        merged[best : best + 2] = [joined[best]]
    return merged or list(buckets)


def padded_tokens(rows: np.ndarray, lengths: Lengths) -> np.ndarray:
    """The tokens of one batch of these rows, padding included: of its source, and of its target."""
    taken = lengths.take(rows)
    return len(rows) * np.array([taken.source.max(), taken.target.max()])


def split_into_micro_batches(
    pairs: ParallelDataset, bucket_sizes: Sequence[int], max_tokens: int, filled: bool = False
) -> list[Batch]:
    """Batches of consecutive pairs of one bucket, each of up to `max_tokens` padded tokens a side.

    At least one, since every rank must call backward in every step: without pairs, an empty one.
    """
    longest_side = Lengths.of(pairs).longest_side
    ends = np.cumsum(bucket_sizes)
    batches = [
        collate(pairs.take(rows), filled)
        for bucket in np.split(np.arange(len(pairs)), ends[:-1])
        for rows in batch_by_tokens(bucket, longest_side, max_tokens)
    ]
    return batches or [empty_batch()]


def collate(pairs: ParallelDataset, filled: bool = False) -> Batch:
    """One batch of all pairs, padded to the longest sentence of each side.

    `filled`: if all are short, with empty sentences without labels up to a multiple of `FOLDED`.
    """
    is_filled = filled and Lengths.of(pairs).longest_side.max() <= SHORT
    empty = -len(pairs) % FOLDED if is_filled else 0
    labels_BT = pad(pairs.target, empty, last=EOS)
    # By length, with the end marker: a sampled translation may hold [PAD].
    is_real_BT = np.arange(labels_BT.shape[1]) <= pairs.target.lengths[:, None]
    real_R = torch.from_numpy(is_real_BT.ravel().nonzero()[0])
    return Batch(
        source_BS=pad(pairs.source, empty, last=EOS),
        target_BT=pad(pairs.target, empty, first=SOS),
        real_R=real_R,
        labels_R=labels_BT.flatten()[real_R],
    )


def empty_batch() -> Batch:
    """A batch of one sentence without labels, whose loss and gradients are zero."""
    no_labels = torch.empty(0, dtype=torch.int64)
    return Batch(torch.tensor([[EOS]]), torch.tensor([[SOS]]), real_R=no_labels, labels_R=no_labels)


def pad(rows: Ragged, empty: int = 0, first: int = PAD, last: int = PAD) -> Tensor:
    """Rows, then `empty` ones, after `first` or before `last`, padded on the right with [PAD]."""
    lengths = np.pad(rows.lengths, (0, empty))
    start = int(first != PAD)
    padded = np.full((len(lengths), lengths.max() + 1), PAD, dtype=np.int64)
    columns = np.arange(padded.shape[1])
    padded[(columns >= start) & (columns < start + lengths[:, None])] = rows.tokens
    if first != PAD:
        padded[:, 0] = first
    if last != PAD:
        padded[np.arange(len(lengths)), lengths] = last
    return torch.from_numpy(padded)


def padding_share(sampler: StepSampler) -> float:
    """Fraction of padding among the positions of an epoch, each bucket padded to its longest."""
    plan, lengths = sampler.plan, sampler.lengths
    sides = lengths.source, lengths.target
    real = sum(int(side[plan.rows].sum()) for side in sides)
    return 1 - real / sum(int(plan.counts @ plan.longest(side)) for side in sides)
