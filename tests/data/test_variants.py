"""Steps with variants: equal for any ranks, micro-batches and resumes, exactly planned."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from config import parse
from translate_ddp.data.batches import Batch, BatchLoader
from translate_ddp.data.dataset import Lengths, ParallelDataset, PreparedData, Ragged, TrainingPairs
from translate_ddp.data.tokenizer import PAD
from translate_ddp.directions import LanguagePair
from translate_ddp.runtime.world import World
from translate_ddp.training.run import build_loader, prepare_data

Pairs = Counter[tuple[tuple[int, ...], tuple[int, ...]]]


@pytest.fixture
def flags(tiny_run: list[str], corpus: str) -> list[str]:
    """Of the tiny run, with prepared data that all tests share."""
    folder = str(Path(corpus).parent / "model")
    return [*tiny_run, "--model_folder", folder, "--batch_tokens", "300"]


def loader_of(flags: list[str], rank: int = 0, size: int = 1) -> tuple[BatchLoader, PreparedData]:
    config = parse(flags)
    data = prepare_data(config, Path(config.checkpoint.model_folder) / "data", World())
    return build_loader(config, data, World(rank=rank, size=size), torch.float32), data


def pairs_of(batch: Batch) -> Pairs:
    """The sources and labels of a batch."""
    labels = torch.full(batch.target_BT.shape, PAD).flatten()
    labels[batch.real_R] = batch.labels_R
    sides = (batch.source_BS.tolist(), labels.view(batch.target_BT.shape).tolist())
    rows = (tuple(tuple(i for i in row if i != PAD) for row in side) for side in sides)
    return Counter(pair for pair in zip(*rows, strict=True) if pair[1])  # not of an empty batch


def steps_of(flags: list[str], size: int = 1, first_step: int = 0, epoch: int = 1) -> list[Pairs]:
    """The pairs of each step of an epoch, of all ranks."""
    steps: list[list[Batch]] = []
    for rank in range(size):
        loader, _ = loader_of(flags, rank, size)
        loader.sampler.set_epoch(epoch, first_step)
        mine = list(loader)
        steps = steps or [[] for _ in mine]
        for batches, step in zip(steps, mine, strict=True):
            batches += step.micro_batches
    return [sum(map(pairs_of, batches), Counter()) for batches in steps]


def test_steps_are_the_same_for_any_ranks_micro_batches_and_resumes(flags: list[str]):
    flags, plain = [*flags, "--perturb", "--swap_epochs", "2"], flags
    expected = steps_of(flags)
    assert expected != steps_of(plain)
    for size, max_tokens in ((1, "70"), (2, "300"), (3, "70")):
        assert steps_of([*flags, "--max_tokens", max_tokens], size) == expected
    assert steps_of(flags, first_step=4) == expected[4:]


def test_lengths_of_an_epoch_are_exactly_those_of_its_steps(flags: list[str]):
    loader, data = loader_of([*flags, "--perturb", "--swap_epochs", "1"])
    assert data.variants is not None and len(data.variants) == 8 * len(data.train)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        lengths = loader.sampler.lengths
        assert lengths.longest_side.max() <= 60
        for step in loader:
            found = Lengths.of(loader.sampler.pairs.take(step.rows, epoch))
            assert np.array_equal(found.source, lengths.source[step.rows])
            assert np.array_equal(found.target, lengths.target[step.rows])
            assert len(step.micro_batches) == 1  # --max_tokens has its value from a step


def test_every_pair_is_drawn_in_one_of_its_variants():
    plain = Ragged.of([[5]] * 1000)
    rows = Ragged.of([[row % 250 + 4, number] for row in range(1000) for number in range(4)])
    pairs = TrainingPairs(ParallelDataset(plain, plain), 3, ParallelDataset(rows, rows))
    some = np.array([7, 3, 999])
    for epoch in range(3):
        found = pairs.take(np.arange(1000), epoch).source.tokens.reshape(1000, 2)
        assert found[:, 0].tolist() == [row % 250 + 4 for row in range(1000)]
        assert np.bincount(found[:, 1]).min() > 200
        assert pairs.take(some, epoch).source.tokens.tolist() == found[some].ravel().tolist()
    other = TrainingPairs(ParallelDataset(plain, plain), 4, ParallelDataset(rows, rows))
    assert other.take(some, 0).source.tokens.tolist() != pairs.take(some, 0).source.tokens.tolist()


def test_each_pair_is_swapped_in_every_second_epoch(flags: list[str]):
    plain = sum(steps_of(flags), Counter())
    swapped = Counter({pair[::-1]: count for pair, count in plain.items()})
    swap = [*flags, "--swap_epochs", "3"]
    one, two, end = (sum(steps_of(swap, epoch=epoch), Counter()) for epoch in (1, 2, 3))
    assert end == plain
    assert one + two == plain + swapped
    assert (one & plain).total() > plain.total() / 3 < (two & plain).total()
    tagged = [*flags, "--tags", "<bt>"]
    assert steps_of([*tagged, "--swap_epochs", "2"]) == steps_of(tagged)  # a target has no tag
    facts = loader_of(flags)[1].facts
    assert facts.can_swap and not replace(facts, directions=[LanguagePair("pt", "pt_BR")]).can_swap
