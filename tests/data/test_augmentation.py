"""Augmented steps: equal for any ranks, passes and resumes, within limits, counted exactly."""

from collections import Counter
from pathlib import Path

import pytest
import torch

from config import parse
from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_run, last_state
from translate_ddp.data.batches import GROWTH, Batch, BatchLoader, Lengths
from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.step_sampler import StepSampler
from translate_ddp.data.tokenizer import EOS, PAD
from translate_ddp.runtime.world import World
from translate_ddp.training.build import build_loader, prepare_data

BOTH = ["--perturb", "--bpe_dropout", "0.2"]
Pairs = Counter[tuple[tuple[int, ...], tuple[int, ...]]]


@pytest.fixture
def flags(tiny_run: list[str], corpus: str) -> list[str]:
    """Of the tiny run, with prepared data that all tests share."""
    folder = str(Path(corpus).parent / "model")
    return [*tiny_run, "--model_folder", folder, "--batch_tokens", "300"]


def loader_of(flags: list[str], rank: int = 0, size: int = 1) -> tuple[BatchLoader, PreparedData]:
    config = parse(flags)
    data = prepare_data(config, Path(config.checkpoint.model_folder) / "data", World())
    return build_loader(config, data, World(rank=rank, size=size)), data


def pairs_of(batch: Batch) -> Pairs:
    """The sources and labels of a batch."""
    labels = torch.full(batch.target_BT.shape, PAD).flatten()
    labels[batch.real_R] = batch.labels_R
    sides = (batch.source_BS.tolist(), labels.view(batch.target_BT.shape).tolist())
    rows = (tuple(tuple(i for i in row if i != PAD) for row in side) for side in sides)
    return Counter(pair for pair in zip(*rows, strict=True) if pair[1])  # not of an empty batch


def steps_of(flags: list[str], size: int = 1, first_step: int = 0) -> list[Pairs]:
    """The pairs of each step of the second epoch, of all ranks."""
    steps: list[list[Batch]] = []
    for rank in range(size):
        loader, _ = loader_of(flags, rank, size)
        loader.sampler.set_epoch(1, first_step)
        mine = list(loader)
        steps = steps or [[] for _ in mine]
        for batches, step in zip(steps, mine, strict=True):
            batches += step.passes
    return [sum(map(pairs_of, batches), Counter()) for batches in steps]


@pytest.mark.parametrize("augment", [["--perturb"], BOTH[1:]])
def test_seed_chooses_the_changes(flags: list[str], augment: list[str]):
    one, other = (sum(steps_of([*flags, *augment, "--seed", n]), Counter()) for n in ("1", "2"))
    plain = sum(steps_of(flags), Counter())
    assert one.total() == other.total() == plain.total()
    assert all(changes.total() for changes in (one - other, one - plain, other - plain))


@pytest.mark.parametrize("augment", [BOTH, ["--perturb"], BOTH[1:]])
def test_steps_are_the_same_for_any_ranks_passes_and_resumes(flags: list[str], augment: list[str]):
    expected = steps_of([*flags, *augment])
    assert expected != steps_of(flags)
    for size, max_tokens in ((1, "70"), (2, "300"), (3, "70")):
        assert steps_of([*flags, *augment, "--max_tokens", max_tokens], size) == expected
    assert steps_of([*flags, *augment], first_step=4) == expected[4:]


def test_target_tokens_of_a_step_are_those_of_all_ranks(flags: list[str]):
    loaders = [loader_of([*flags, *BOTH], rank, 2)[0] for rank in range(2)]
    differ = 0
    for ours, theirs in zip(*loaders, strict=True):
        labels = sum(len(batch.labels_R) for step in (ours, theirs) for batch in step.passes)
        assert ours.target_tokens == theirs.target_tokens == labels
        differ += labels != loaders[0].sampler.lengths.target[ours.rows].sum()
    assert differ > 3


def test_pairs_are_those_of_the_corpus_in_another_form(flags: list[str]):
    loader, data = loader_of([*flags, *BOTH])
    decode = data.tokenizer.decode
    changed = 0
    for step in loader:
        found = sum(map(pairs_of, step.passes), Counter())
        plain = data.train.take(step.rows)
        sources, targets = (decode(list(side)) for side in zip(*found.elements(), strict=True))
        expected = [
            decode([row.tolist() for row in side])
            for side in zip(*(plain[n] for n in range(len(plain))), strict=True)
        ]
        assert sorted(targets) == sorted(expected[1])
        changed += (Counter(sources) - Counter(expected[0])).total()
    # Lower case and no full stop change nothing in this corpus.
    assert 0.05 * len(data.train) < changed < 0.3 * len(data.train)


@pytest.mark.parametrize("max_tokens", ["300", "100"])
def test_passes_are_within_max_tokens_and_their_growth(flags: list[str], max_tokens: str):
    loader, data = loader_of([*flags, *BOTH, "--max_tokens", max_tokens])
    before, split = Lengths.of(data.train).longest_side, 0
    for step in loader:
        limit = min(int(max_tokens), GROWTH * len(step.rows) * before[step.rows].max())
        for batch in step.passes:
            if len(batch.source_BS) > 1:
                assert max(batch.source_BS.numel(), batch.target_BT.numel()) <= limit
            assert max(batch.source_BS.shape[1], batch.target_BT.shape[1]) <= 60
        split += len(step.passes) > 1
    assert split > 3  # upper case is long in this vocabulary


@pytest.mark.parametrize("augment", [BOTH, ["--perturb"], BOTH[1:]])
def test_rows_are_planned_with_rows_of_their_new_length(flags: list[str], augment: list[str]):
    """Otherwise a few long sentences, as in upper case, would pad all others of their pass."""
    loader, data = loader_of([*flags, *augment])
    lengths, config = Lengths.of(data.train), parse(flags).batches
    plain = StepSampler(lengths, config, seed=0, rank=0, world_size=1)
    unplanned = BatchLoader(
        data.train, plain, loader.max_tokens, World().device, loader.augmentation
    )
    assert count_padding(loader) < 0.6 * count_padding(unplanned)


def count_padding(loader: BatchLoader) -> int:
    batches = [batch for step in loader for batch in step.passes]
    sides = [side for batch in batches for side in (batch.source_BS, batch.target_BT)]
    return sum(int((side == PAD).sum()) for side in sides)


def test_without_augmentation_passes_are_in_the_order_of_the_plan(flags: list[str]):
    loader, data = loader_of(flags)
    assert loader.augmentation is None
    for step in loader:
        ((batch,), rows) = step.passes, [data.train[row][0].tolist() for row in step.rows]
        found = [[i for i in row if i != PAD] for row in batch.source_BS.tolist()]
        assert found == [[*row, EOS] for row in rows]
        assert step.target_tokens == Lengths.of(data.train).target[step.rows].sum()


def test_resume_after_kill_within_an_epoch_gives_same_weights(run: Run):
    run.flags += BOTH
    straight = run.copy("straight")
    straight.start(size=2).succeed()
    run.start(size=2, fault="batch:7@0=kill").kill_rest()
    assert 0 < last_state(run.folder)["position"]["step_in_epoch"]
    output = run.start(size=2).succeed()
    assert "Resuming from" in output and "Changed" not in output
    assert_same_run(straight.folder, run.folder)


def test_bpe_dropout_may_change_between_epochs_only(run: Run):
    # The plan of an epoch depends on the lengths that it makes.
    run.start("--max_steps", "5").succeed()
    assert last_state(run.folder)["position"]["step_in_epoch"]
    output = run.start("--bpe_dropout", "0.1", "--max_steps", "8").fail()
    assert "bpe_dropout: 0.0 in the checkpoint, 0.1 now" in output and "--preload EPOCH" in output
    run.start("--num_epochs", "1").succeed()
    output = run.start("--bpe_dropout", "0.1", "--num_epochs", "2").succeed()
    assert "Changed: bpe_dropout: 0.0 in the checkpoint, 0.1 now." in output


def test_error_for_dropout_without_bpe_names_both_settings(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(["--bpe_dropout", "0.1", "--tokenizer", "word"])
    printed = capsys.readouterr().err
    assert "tokenizer is" in printed and "--bpe_dropout 0" in printed
