"""The shards of the ranks, their micro-batches, and the tensors of a batch."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from translate_ddp.data import plan
from translate_ddp.data.batches import (
    BatchLoader,
    Step,
    batch_by_tokens,
    collate,
    padding_share,
    split_into_micro_batches,
)
from translate_ddp.data.dataset import ParallelDataset, Ragged, TrainingPairs
from translate_ddp.data.mix import Block, Mix
from translate_ddp.data.plan import Plan, StepSampler, shard
from translate_ddp.data.tokenizer import EOS, PAD, SOS
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
    return StepSampler(TrainingPairs(dataset, seed=3), config, rank=rank, world_size=size)


def rows_of_rank(dataset: ParallelDataset, *arguments: Any) -> list[np.ndarray]:
    """The rows of each step of the first epoch that one rank takes."""
    mine = sampler(dataset, *arguments)
    return [np.concatenate(mine.shard(buckets)) for buckets in mine]


@pytest.fixture(autouse=True)
def several_buckets_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let also the small steps of these tests have four buckets."""
    monkeypatch.setattr(plan, "BUCKET_TOKENS", 10)


@pytest.mark.parametrize("size", RANKS)
def test_an_epoch_has_every_pair_once_in_the_same_steps_for_any_world_size(
    dataset: ParallelDataset, size: int
):
    one_rank = [sorted(rows.tolist()) for rows in rows_of_rank(dataset)]
    assert sorted(itertools.chain(*one_rank)) == list(range(500))
    # Unequal numbers of steps, which `zip` rejects, hang the last all-reduce of an epoch.
    by_ranks = zip(*(rows_of_rank(dataset, rank, size) for rank in range(size)), strict=True)
    assert [sorted(np.concatenate(step).tolist()) for step in by_ranks] == one_rank


@pytest.mark.parametrize("size", range(1, 20))
def test_shards_are_complete_and_have_similar_numbers_of_tokens(size: int):
    buckets = [np.arange(first, first + count) for first, count in ((0, 60), (60, 80), (140, 120))]
    tokens_of = np.repeat([4, 3, 2], [60, 80, 120])  # 240 in each group
    shards = [np.concatenate(shard(buckets, rank, size)) for rank in range(size)]
    assert np.concatenate(shards).tolist() == list(range(260))
    assert all(abs(tokens_of[rows].sum() - 720 / size) <= 4 for rows in shards)


def test_buckets_equal_those_of_a_search_by_hand():
    lengths = np.array([3, 5, 2, 9, 30, 4])
    buckets = batch_by_tokens(np.array([4, 3, 1, 5, 0, 2]), lengths, max_tokens=10)
    assert [group.tolist() for group in buckets] == [[4], [3], [1, 5], [0, 2]]
    assert batch_by_tokens(np.array([], dtype=int), lengths, max_tokens=10) == []


def test_a_micro_batch_has_rows_of_one_bucket_only():
    side = Ragged.of([[5] * n for n in (9, 9, 9, 1, 1, 4)])
    micro_batches = split_into_micro_batches(
        ParallelDataset(side, side), [3, 0, 2, 1], max_tokens=20
    )
    assert [tuple(batch.target_BT.shape) for batch in micro_batches] == [
        (2, 10),
        (1, 10),
        (2, 2),
        (1, 5),
    ]


@pytest.mark.parametrize(("size", "count"), [(1, 2), (2, 1), (3, 1), (5, 1)])
def test_merged_steps_have_the_same_pairs_in_as_many_micro_batches_on_all_ranks(
    dataset: ParallelDataset, size: int, count: int
):
    def by_rank(*settings: Any) -> list[tuple[Step, ...]]:
        loaders = [BatchLoader(sampler(dataset, r, size), *settings) for r in range(size)]
        return list(zip(*loaders, strict=True))

    def labels(steps: tuple[Step, ...]) -> list[int]:
        batches = [batch for step in steps for batch in step.micro_batches]
        return sorted(token for batch in batches for token in batch.labels_R.tolist())

    # The 300 tokens of a step have four buckets; 150 tokens fill a device.
    apart, merged = by_rank(500, CPU), by_rank(500, CPU, 150)
    counts = []
    for steps, same in zip(apart, merged, strict=True):
        assert labels(steps) == labels(same)
        assert [step.target_tokens for step in steps] == [step.target_tokens for step in same]
        counts.append([len(step.micro_batches) for step in same])
    assert counts.count([count] * size) >= 0.9 * len(counts)


@pytest.mark.parametrize("size", RANKS)
def test_micro_batches_are_within_max_tokens(dataset: ParallelDataset, size: int):
    for rank in range(size):
        for step in BatchLoader(sampler(dataset, rank, size), 100, CPU):
            for batch in step.micro_batches:
                assert batch.source_BS.numel() <= 100
                assert batch.target_BT.numel() <= 100


def test_epoch_can_start_at_any_step(dataset: ParallelDataset):
    whole, rest = sampler(dataset), sampler(dataset)
    whole.set_epoch(2)
    rest.set_epoch(2, first_step=7)
    expected = [np.concatenate(buckets).tolist() for buckets in whole][7:]
    assert [np.concatenate(buckets).tolist() for buckets in rest] == expected
    assert rest.plan[7].tolist() == expected[0]


def test_padding_share_equals_that_of_whole_buckets(dataset: ParallelDataset):
    mine = sampler(dataset)
    micro_batches = [batch for step in BatchLoader(mine, 1000, CPU) for batch in step.micro_batches]
    real = sum(int((b.source_BS != PAD).sum()) + len(b.labels_R) for b in micro_batches)
    padded = sum(b.source_BS.numel() + b.target_BT.numel() for b in micro_batches)
    assert padding_share(mine) == pytest.approx(1 - real / padded)


def test_target_tokens_of_a_step_are_those_of_all_ranks(dataset: ParallelDataset):
    samplers = [sampler(dataset, rank, 3) for rank in range(3)]
    loaders = [BatchLoader(mine, 100, CPU) for mine in samplers]
    for step_of_ranks in zip(*loaders, strict=True):
        labels = sum(len(batch.labels_R) for step in step_of_ranks for batch in step.micro_batches)
        assert [step.target_tokens for step in step_of_ranks] == [labels] * 3


def test_collate_equals_a_batch_written_by_hand():
    batch = collate(ParallelDataset(Ragged.of([[7, 8, 9], [6]]), Ragged.of([[5], [4, 5, 6]])))
    assert batch.source_BS.tolist() == [[7, 8, 9, EOS], [6, EOS, PAD, PAD]]
    assert batch.target_BT.tolist() == [[SOS, 5, PAD, PAD], [SOS, 4, 5, 6]]
    assert batch.real_R.tolist() == [0, 1, 4, 5, 6, 7]
    assert batch.labels_R.tolist() == [5, EOS, 4, 5, 6, EOS]


def test_rank_without_pairs_has_one_empty_micro_batch(dataset: ParallelDataset):
    one_pair = ParallelDataset(Ragged.of([[5, 6]]), Ragged.of([[7]]))
    mine = sampler(one_pair, rank=0, size=2)
    (step,) = BatchLoader(mine, 100, CPU)
    assert [len(batch.labels_R) for batch in step.micro_batches] == [0]


def positions(step: Step) -> np.ndarray:
    """The most source and target positions of a micro-batch of the step."""
    return np.max([(b.source_BS.numel(), b.target_BT.numel()) for b in step.micro_batches], axis=0)


@pytest.mark.parametrize("seed", range(40))
def test_warm_up_has_the_positions_of_every_micro_batch_of_all_epochs_and_ranks(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    random = np.random.default_rng(seed)
    monkeypatch.setattr(plan, "BUCKET_TOKENS", random.choice([10, 512]))
    size, forms = int(random.choice([1, 2, 3, 5, 8])), int(random.choice([1, 3]))
    pairs = int(random.integers(2, 150))
    sides = np.minimum(random.geometric(1 / random.uniform(2, 20, (2, 1)), (2, pairs * forms)), 99)
    sides[:, random.integers(pairs * forms)] = random.choice([[99, 3], [3, 99], [9, 9]])
    variants = ParallelDataset(*(Ragged.of([[5] * n for n in side]) for side in sides))
    plain = variants.take(np.arange(0, pairs * forms, forms))
    training = TrainingPairs(plain, seed, variants if forms > 1 else None)
    batch_tokens = int(random.choice([100, 300, 2048, 2500, 9000]))
    config = BatchConfig(batch_tokens, 0, int(random.choice([0, 0, 1, 6])), seq_len=100)
    blocks = [Block(0, 0, pairs // 2), Block(1, 0, pairs - pairs // 2)]
    mix = Mix.of([(1.0, 0.5), (2.5, 1.0)][seed % 2], blocks)
    max_tokens, merging = int(random.choice([60, 500, 4096])), int(random.choice([0, 50, 3000]))
    found, largest = np.zeros(2), []
    for rank in range(size):
        mine = StepSampler(training, config, rank=rank, world_size=size, mix=mix)
        loader = BatchLoader(mine, max_tokens, CPU, merging)
        largest.append(loader.largest_step())
        for epoch in range(3):
            mine.set_epoch(epoch)
            found = np.maximum(found, np.max([positions(step) for step in loader], axis=0))
    assert {len(step.micro_batches) for step in largest} == {1}  # as many backward calls
    assert (positions(largest[0]) >= found).all()
    assert all(np.array_equal(positions(step), positions(largest[0])) for step in largest)
    assert largest[0].target_tokens == sum(len(step.micro_batches[0].labels_R) for step in largest)


def test_error_of_the_thread_that_plans_reaches_the_training(
    dataset: ParallelDataset, monkeypatch: pytest.MonkeyPatch
):
    mine = StepSampler(TrainingPairs(dataset, seed=3), CONFIG, num_epochs=2)

    def fail(*_: object, **__: object) -> Plan:
        raise MemoryError

    monkeypatch.setattr(plan, "plan_epoch", fail)
    iter(mine)
    with pytest.raises(MemoryError):
        mine.set_epoch(1)
