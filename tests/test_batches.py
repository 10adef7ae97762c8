"""The plan of an epoch, the shards of the ranks, and the tensors of a batch."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from translate_ddp.data.batches import (
    BatchLoader,
    Lengths,
    StepSampler,
    collate,
    group_by_tokens,
    padding_share,
    plan_epoch,
    shard,
    split_into_passes,
)
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import EOS, PAD, SOS
from translate_ddp.presets import PRESETS
from translate_ddp.settings import BatchConfig

CONFIG = BatchConfig(batch_tokens=300, max_tokens=100, seq_len=60)
RANKS = [1, 2, 3, 5]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def dataset() -> ParallelDataset:
    """500 pairs with lengths as of real text: most are short, both sides are similar."""
    random = np.random.default_rng(0)
    source = np.clip(random.gamma(4, 3, 500), 1, 50).astype(int)
    target = np.clip(source + random.integers(-3, 4, 500), 1, 50)
    return ParallelDataset(
        Ragged.of(random.integers(4, 90, n).tolist() for n in source),
        Ragged.of(random.integers(4, 90, n).tolist() for n in target),
    )


def sampler(
    dataset: ParallelDataset, rank: int = 0, size: int = 1, config: BatchConfig = CONFIG
) -> StepSampler:
    return StepSampler(Lengths.of(dataset), config, seed=3, rank=rank, world_size=size)


def rows_of_rank(dataset: ParallelDataset, *arguments: Any) -> list[np.ndarray]:
    """The rows of each step of the first epoch that one rank takes."""
    mine = sampler(dataset, *arguments)
    return [mine.shard(rows) for rows in mine]


def plan(lengths: Lengths, world_size: int = 1, **settings: int) -> list[np.ndarray]:
    config = BatchConfig(seq_len=60, **settings)
    return plan_epoch(lengths, config, seed=3, epoch=0, world_size=world_size)


@pytest.mark.parametrize("size", RANKS)
def test_an_epoch_has_every_pair_once_in_the_same_steps_for_any_world_size(
    dataset: ParallelDataset, size: int
):
    one_rank = [sorted(rows.tolist()) for rows in rows_of_rank(dataset)]
    assert sorted(itertools.chain(*one_rank)) == list(range(500))
    # Unequal numbers of steps, which `zip` rejects, hang the last all-reduce of an epoch.
    by_ranks = zip(*(rows_of_rank(dataset, rank, size) for rank in range(size)), strict=True)
    assert [sorted(np.concatenate(step).tolist()) for step in by_ranks] == one_rank


@pytest.mark.parametrize(("budget", "filled"), [(60, 0.8), (300, 0.8), (1000, 0.9)])
def test_steps_are_within_batch_tokens_and_nearly_full(
    dataset: ParallelDataset, budget: int, filled: float
):
    lengths = Lengths.of(dataset)
    steps = plan(lengths, batch_tokens=budget, max_tokens=100)
    sizes = [len(rows) * int(lengths.longest_side[rows].max()) for rows in steps]
    assert max(sizes) <= budget
    assert np.median(sizes) > filled * budget


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_all_ranks_have_the_same_number_of_passes(size: int):
    random = np.random.default_rng(0)
    lengths = np.clip(random.gamma(4, 3, 3000), 1, 50).astype(int)
    pairs = ParallelDataset(*(Ragged.of([[5] * n for n in lengths]) for _ in range(2)))
    uneven = 0
    for rows in plan(Lengths.of(pairs), size, batch_tokens=1600, max_tokens=400):
        shards = [shard(rows, rank, size) for rank in range(size)]
        passes = {len(split_into_passes(pairs, part, 400)) for part in shards}
        uneven += passes != {max(1, 4 // size)}
    assert uneven <= 2  # the last step of the corpus, and that of the few longest rows


@pytest.mark.parametrize(("budget", "divisor"), [(90, 1), (207, 2), (423, 4), (810, 8)])
def test_number_of_pairs_of_a_step_is_a_multiple_of_ranks(budget: int, divisor: int):
    lengths = np.full(1000, 9)
    steps = plan(Lengths(lengths, lengths), batch_tokens=budget)
    fit = budget // 9  # 10, 23, 47 and 90
    usual = fit - fit % divisor
    assert sorted(len(rows) for rows in steps)[1:] == [usual] * (999 // usual)


def test_passes_are_as_large_as_max_tokens_allows():
    random = np.random.default_rng(0)
    side = Ragged.of([5] * n for n in random.integers(1, 40, 300).tolist())
    batches = split_into_passes(ParallelDataset(side, side), np.arange(300), max_tokens=100)
    passes = [batch.target_BT for batch in batches]
    assert sum(len(batch_BT) for batch_BT in passes) == 300
    for batch_BT, next_BT in itertools.pairwise(passes):
        first_of_next = int((next_BT[0] != PAD).sum())
        assert (len(batch_BT) + 1) * max(batch_BT.shape[1], first_of_next) > 100


def test_groups_equal_those_of_a_search_by_hand():
    lengths = np.array([3, 5, 2, 9, 30, 4])
    groups = group_by_tokens(np.array([4, 3, 1, 5, 0, 2]), lengths, max_tokens=10)
    assert [group.tolist() for group in groups] == [[4], [3], [1, 5], [0, 2]]
    assert group_by_tokens(np.array([], dtype=int), lengths, max_tokens=10) == []


def test_steps_have_less_padding_than_plain_sorting(dataset: ParallelDataset):
    lengths = Lengths.of(dataset)
    order = np.lexsort((lengths.source, lengths.target))

    def source_padding(steps: list[np.ndarray]) -> int:
        return sum(int((lengths.source[rows].max() - lengths.source[rows]).sum()) for rows in steps)

    plain = np.split(order, range(10, len(order), 10))
    assert source_padding(plan(lengths, batch_size=10)) < 0.9 * source_padding(plain)


@pytest.mark.parametrize("size", RANKS)
def test_passes_are_within_max_tokens(dataset: ParallelDataset, size: int):
    for rank in range(size):
        for rows in rows_of_rank(dataset, rank, size):
            for batch in split_into_passes(dataset, rows, max_tokens=100):
                assert batch.source_BS.numel() <= 100
                assert batch.target_BT.numel() <= 100


def test_shards_are_similar_in_number_and_length():
    rows = np.arange(20)  # a step is sorted by length, so row numbers serve as lengths
    shards = [shard(rows, rank, 3) for rank in range(3)]
    assert sorted(len(part) for part in shards) == [6, 7, 7]
    assert max(part.sum() for part in shards) - min(part.sum() for part in shards) <= 20


def test_epochs_differ_and_are_reproducible(dataset: ParallelDataset):
    def epoch(number: int) -> list[list[int]]:
        mine = sampler(dataset)
        mine.set_epoch(number)
        return [rows.tolist() for rows in mine]

    assert epoch(1) == epoch(1)
    assert epoch(0) != epoch(1)
    # Not merely the same steps in another order.
    assert {tuple(sorted(rows)) for rows in epoch(0)} != {tuple(sorted(rows)) for rows in epoch(1)}


def test_epoch_can_start_at_any_step(dataset: ParallelDataset):
    whole, rest = sampler(dataset), sampler(dataset)
    whole.set_epoch(2)
    rest.set_epoch(2, first_step=7)
    expected = [rows.tolist() for rows in whole][7:]
    assert [rows.tolist() for rows in rest] == expected


def test_batch_size_counts_pairs_per_rank(dataset: ParallelDataset):
    config = BatchConfig(batch_size=8)
    steps = [rows_of_rank(dataset, rank, 2, config) for rank in range(2)]
    counts = sorted({len(rows) for rank in steps for rows in rank})
    assert counts == [2, 8]  # 500 = 31 * 16 + 4
    assert sorted(row for rank in steps for rows in rank for row in rows) == list(range(500))


def test_padding_of_a_real_corpus_is_small():
    # 29,000 pairs of the lengths of image captions, at the budget of the small preset.
    random = np.random.default_rng(0)
    source = np.clip(random.gamma(9, 1.6, 29_000), 4, 60).astype(int)
    target = np.clip(source + random.integers(-4, 6, 29_000), 3, 60)
    config = BatchConfig(batch_tokens=int(PRESETS["small"]["batch_tokens"]))
    for size in (1, 2):
        mine = StepSampler(Lengths(source, target), config, seed=0, rank=0, world_size=size)
        assert padding_share(mine, config.pass_tokens("cpu")) < 0.08


def test_padding_share_equals_that_of_the_batches(dataset: ParallelDataset):
    mine = sampler(dataset, 1, 2)
    batches = [batch for step in BatchLoader(dataset, mine, 100, CPU) for batch in step.passes]
    real = sum(int((b.source_BS != PAD).sum()) + len(b.labels_R) for b in batches)
    everything = sum(b.source_BS.numel() + b.target_BT.numel() for b in batches)
    assert padding_share(mine, 100) == pytest.approx(1 - real / everything)


def test_target_tokens_of_a_step_are_those_of_all_ranks(dataset: ParallelDataset):
    samplers = [sampler(dataset, rank, 3) for rank in range(3)]
    loaders = [BatchLoader(dataset, mine, 100, CPU) for mine in samplers]
    for step_of_ranks in zip(*loaders, strict=True):
        labels = sum(len(batch.labels_R) for step in step_of_ranks for batch in step.passes)
        assert [step.target_tokens for step in step_of_ranks] == [labels] * 3


def test_collate_equals_a_batch_written_by_hand():
    batch = collate(ParallelDataset(Ragged.of([[7, 8, 9], [6]]), Ragged.of([[5], [4, 5, 6]])))
    assert batch.source_BS.tolist() == [[7, 8, 9, EOS], [6, EOS, PAD, PAD]]
    assert batch.target_BT.tolist() == [[SOS, 5, PAD, PAD], [SOS, 4, 5, 6]]
    assert batch.real_R.tolist() == [0, 1, 4, 5, 6, 7]
    assert batch.labels_R.tolist() == [5, EOS, 4, 5, 6, EOS]


def test_rank_without_pairs_has_one_empty_pass(dataset: ParallelDataset):
    one_pair = ParallelDataset(Ragged.of([[5, 6]]), Ragged.of([[7]]))
    mine = sampler(one_pair, rank=1, size=2)
    (step,) = BatchLoader(one_pair, mine, 100, CPU)
    assert [len(batch.labels_R) for batch in step.passes] == [0]


def test_largest_step_has_the_most_positions(dataset: ParallelDataset):
    loader = BatchLoader(dataset, sampler(dataset), 300, CPU)
    sizes = {
        step.rows.tobytes(): step.passes[0].source_BS.numel() + step.passes[0].target_BT.numel()
        for step in loader
    }
    largest = loader.largest_step()
    assert sizes[largest.rows.tobytes()] == max(sizes.values())
    assert largest.target_tokens == sum(len(batch.labels_R) for batch in largest.passes)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"seq_len": 500, "batch_tokens": 400}, "batch_tokens"),
        ({"seq_len": 500, "batch_tokens": 900, "max_tokens": 400}, "max_tokens"),
        ({"batch_size": -1}, "batch_size"),
        ({"seq_len": 1}, "seq_len"),
    ],
)
def test_error_for_impossible_budget_names_the_setting(wrong: dict[str, int], named: str):
    with pytest.raises(ValueError, match=named):
        BatchConfig(**wrong)
