"""Whole runs on real processes: what resuming, ranks and passes must not change."""

import json
import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers import processes
from tests.helpers.runs import assert_same_state, checkpoints, last_state, losses, metrics
from translate_ddp.data.batches import Batch
from translate_ddp.data.dataset import load_prepared
from translate_ddp.data.tokenizer import SPECIAL_TOKENS
from translate_ddp.errors import UserError
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.meters import Window
from translate_ddp.training.resume import check_same_run, describe_changes
from translate_ddp.training.trainer import Trainer

RANKS = [1, 2, 3]


def test_a_killed_and_resumed_run_ends_as_if_never_killed(tiny_run: list[str], tmp_path: Path):
    # With three ranks the order of DDP's buckets shows; test_faults.py kills one and two anywhere.
    size = 3
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    processes.train([*tiny_run, "--model_folder", str(undisturbed)], tmp_path, size).succeed()

    flags = [*tiny_run, "--model_folder", str(killed)]
    job = processes.train(flags, tmp_path, size)
    job.kill_when(lambda: list(killed.glob("tmodel_step_00000004-*")))  # in mid-epoch
    said = processes.train(flags, tmp_path, size).succeed()

    assert "Resuming from" in said
    assert "bit for bit" not in said  # nothing changed that would need the warning
    assert_same_state(undisturbed, killed)
    assert metrics(undisturbed) == metrics(killed)


def test_the_loss_curve_does_not_depend_on_the_number_of_ranks(tiny_run: list[str], tmp_path: Path):
    curves = []
    for size in RANKS:
        folder = tmp_path / str(size)
        flags = [*tiny_run, "--dropout", "0", "--model_folder", str(folder)]
        processes.train(flags, tmp_path, size).succeed()
        curves.append(losses(folder))
    assert len(curves[0]) >= 8
    for curve in curves[1:]:
        assert curve == pytest.approx(curves[0], abs=1e-5)


def test_the_loss_curve_does_not_depend_on_the_number_of_passes(
    tiny_run: list[str], tmp_path: Path
):
    curves = []
    for max_tokens in ("100", "20"):  # one pass a step, and two to four
        folder = tmp_path / max_tokens
        flags = ["--dropout", "0", "--seq_len", "20", "--max_tokens", max_tokens]
        flags += ["--model_folder", str(folder)]
        processes.train([*tiny_run, *flags], tmp_path, 2).succeed()
        curves.append(losses(folder))
    assert curves[1] == pytest.approx(curves[0], abs=1e-5)


def test_bf16_trains_and_resumes_exactly_too(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--precision", "bf16"]
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    said = processes.train([*flags, "--model_folder", str(straight)], tmp_path).succeed()
    assert "bf16" in said
    for max_steps in (["--max_steps", "8"], []):
        processes.train([*flags, "--model_folder", str(resumed), *max_steps], tmp_path).succeed()
    assert_same_state(straight, resumed)
    assert losses(straight)[-1] < losses(straight)[0]
    assert all(tensor.dtype == torch.float32 for tensor in last_state(straight)["model"].values())


def test_spread_validation_gives_the_numbers_of_rank_0(tiny_run: list[str], tmp_path: Path):
    scores = []
    for where in ("rank0", "all"):
        folder = tmp_path / where
        flags = [*tiny_run, "--validate_on", where, "--model_folder", str(folder)]
        processes.train(flags, tmp_path, 2).succeed()
        scores.append([r for r in metrics(folder) if "validation/BLEU" in r])
    assert len(scores[0]) == 2
    for one, other in zip(*scores, strict=True):
        assert other == pytest.approx(one, rel=1e-6)


def test_a_later_call_with_more_epochs_goes_on(tiny_run: list[str], tmp_path: Path):
    folder = tmp_path / "model"
    processes.train([*tiny_run, "--num_epochs", "1"], tmp_path).succeed()
    said = processes.train([*tiny_run, "--num_epochs", "2"], tmp_path).succeed()
    (epoch_1,) = folder.glob("tmodel_epoch_0001_*")
    assert f"Resuming from {epoch_1}" in said
    assert "epoch 2/2" in said and "epoch 1/2" not in said
    again = processes.train([*tiny_run, "--num_epochs", "2"], tmp_path).succeed()
    assert "Finished at epoch 2" in again and "epoch 2/2" not in again


def test_preload_takes_an_epoch_a_file_or_nothing(tiny_run: list[str], tmp_path: Path):
    folder = tmp_path / "model"
    processes.train(tiny_run, tmp_path).succeed()
    (epoch_1,) = folder.glob("tmodel_epoch_0001_*")

    for preload in ("1", str(epoch_1)):
        said = processes.train([*tiny_run, "--preload", preload], tmp_path).succeed()
        assert f"Resuming from {epoch_1}" in said

    said = processes.train([*tiny_run, "--preload", "7"], tmp_path).fail()
    assert "No checkpoint of epoch 7" in said and "epochs 1, 2" in said

    before = checkpoints(folder)
    said = processes.train([*tiny_run, "--preload", ""], tmp_path).succeed()
    assert "Resuming" not in said
    aside = sorted(folder.glob("earlier-*"))[-1]
    assert f"Moved what is no part of this run to {aside}" in said
    assert {path.name for path in aside.iterdir()} == {*before, "metrics.jsonl"}
    assert len(metrics(folder)) == len(metrics(aside))


def test_another_shape_or_corpus_is_refused_in_words(tiny_run: list[str], tmp_path: Path):
    processes.train([*tiny_run, "--max_steps", "4"], tmp_path).succeed()
    before = checkpoints(tmp_path / "model")
    said = processes.train([*tiny_run, "--d_model", "32"], tmp_path, 2).fail()
    assert said.count("belongs to another run") == 1  # told once, by rank 0
    assert "d_model: 16 in the checkpoint, 32 now" in said
    assert "Traceback" not in said
    said = processes.train([*tiny_run, "--tokenizer", "word"], tmp_path).fail()
    assert "tokenizer: " in said
    said = processes.train([*tiny_run, "--seed", "5"], tmp_path).fail()
    assert "seed: 0 in the checkpoint, 5 now" in said
    assert checkpoints(tmp_path / "model") == before


def test_an_epoch_that_another_order_of_data_began_is_not_gone_on_with():
    def state(step: int) -> Any:
        identity = {"always": {}, "within an epoch": {"seed": 0}}  # from before orders had numbers
        return {"run": {"identity": identity}, "position": {"step": step}}

    identity = {"always": {}, "within an epoch": {"seed": 0, "data order": 2}}
    check_same_run(state(step=0), identity)
    with pytest.raises(UserError, match="data order: 1 in the checkpoint, 2 now"):
        check_same_run(state(step=3), identity)


def test_what_may_change_is_told(tiny_run: list[str], tmp_path: Path):
    processes.train([*tiny_run, "--max_steps", "4"], tmp_path).succeed()
    said = processes.train([*tiny_run, "--max_steps", "5", "--lr", "0.001"], tmp_path, 2).succeed()
    assert "Changed: lr: 0.002 in the checkpoint, 0.001 now" in said
    assert "no longer bit for bit: " in said and "world_size: 1 in the checkpoint, 2 now" in said


def test_only_the_newest_and_the_best_checkpoints_stay(tiny_run: list[str], tmp_path: Path):
    folder = tmp_path / "model"
    foreign = folder / "tmodel_epoch_0001_step_00000001-00000000.pt"
    folder.mkdir()
    foreign.touch()
    flags = [*tiny_run, "--num_epochs", "4", "--keep_last", "2", "--preload", ""]
    processes.train(flags, tmp_path).succeed()
    held = CheckpointStore(CheckpointConfig(str(folder))).list()
    best = last_state(folder)["position"]["best_epoch"]
    assert {c.epoch for c in held if c.epoch is not None} == {3, 4, best}
    steps = [c.step for c in held if c.epoch is None]
    assert 1 <= len(steps) <= 2  # one of the last two may have become an epoch's end
    assert all(step % 4 == 0 and step > held[0].step - 12 for step in steps)


def test_going_on_from_an_older_epoch_keeps_the_later_ones_apart(
    tiny_run: list[str], tmp_path: Path
):
    # Otherwise the next `latest` would be the last step of the run that was left.
    folder = tmp_path / "model"
    processes.train(tiny_run, tmp_path).succeed()
    (epoch_1,) = folder.glob("tmodel_epoch_0001_*")
    (epoch_2,) = folder.glob("tmodel_epoch_0002_*")
    stop_early = ["--max_steps", str(int(epoch_1.name.split("_")[4].split("-")[0]) + 1)]
    said = processes.train([*tiny_run, "--preload", "1", *stop_early], tmp_path).succeed()
    aside = folder / "earlier-001"
    assert f"Moved what is no part of this run to {aside}" in said
    assert (aside / epoch_2.name).exists() and not epoch_2.exists()
    assert epoch_1.exists() and not (aside / epoch_1.name).exists()
    assert len(metrics(aside)) > len(metrics(folder))
    assert last_state(folder)["position"]["epoch"] == 1


def test_a_run_that_diverges_stops_and_saves_nothing_of_it(tiny_run: list[str], tmp_path: Path):
    processes.train([*tiny_run, "--max_steps", "4"], tmp_path).succeed()
    before = checkpoints(tmp_path / "model")
    said = processes.train([*tiny_run, "--lr", "1e38", "--clip_grad_norm", "0"], tmp_path, 2).fail()
    assert said.count("not finite in 10 steps in a row") == 1 and "Traceback" not in said
    assert checkpoints(tmp_path / "model") == before


def train_on_a_full_disk(flags: list[str], limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    processes.run_train(flags)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (1_000, "No space to read"),
        (40_000, "Could not save a checkpoint"),
    ],
)
def test_a_full_disk_ends_in_a_sentence(tiny_run: list[str], tmp_path: Path, limit: int, said: str):
    job = processes.start(train_on_a_full_disk, tmp_path, 2, None, tiny_run, limit)
    told = job.fail()
    assert told.count(f"error: {said}") == 1
    assert "File too large" in told and "Traceback" not in told


def train_and_trace(flags: list[str], trace: str) -> None:
    """Trains, and notes the target of every sentence of every step this rank takes."""
    take_step = Trainer.step

    def step(self: Trainer, passes: Sequence[Batch], target_tokens: int) -> torch.Tensor:
        with open(f"{trace}-{os.getpid()}", "a") as file:
            for row in (row for batch in passes for row in batch.target_BT.tolist()):
                if tokens := [token for token in row if token >= len(SPECIAL_TOKENS)]:
                    note = [self.position.epoch, self.position.global_step, tokens]
                    file.write(json.dumps(note) + "\n")
        return take_step(self, passes, target_tokens)

    Trainer.step = step
    processes.run_train(flags)


def test_a_run_may_change_its_ranks_in_mid_epoch_and_sees_each_sentence_once(
    tiny_run: list[str], tmp_path: Path
):
    flags = [*tiny_run, "--dropout", "0"]
    straight, changing = tmp_path / "straight", tmp_path / "changing"
    processes.train([*flags, "--model_folder", str(straight)], tmp_path, 2).succeed()
    flags += ["--model_folder", str(changing)]
    for size, stop in (
        (2, ["--max_steps", "4"]),
        (1, ["--max_steps", "9"]),
        (3, ["--max_steps", "13"]),
        (2, []),
    ):
        trace = str(tmp_path / f"trace-{size}")
        processes.start(train_and_trace, tmp_path, size, None, [*flags, *stop], trace).succeed()

    notes = [json.loads(n) for p in tmp_path.glob("trace-*") for n in p.read_text().splitlines()]
    (prepared,) = (changing / "data").iterdir()
    pairs = load_prepared(prepared).train
    corpus = sorted(pairs.target[row].tolist() for row in range(len(pairs)))
    for epoch in range(2):
        assert sorted(tokens for at, _, tokens in notes if at == epoch) == corpus
    steps = {(epoch, step) for epoch, step, _ in notes}
    assert len(steps) == last_state(changing)["position"]["global_step"]
    assert losses(changing) == pytest.approx(losses(straight), abs=1e-5)


@pytest.mark.parametrize("what", ["threads", "torch"])
def test_what_ends_bit_for_bit_is_told_in_one_line(what: str):
    now = {"world_size": 1, "threads": 2, "max_tokens": 2048, "device": "cpu", "torch": "2.13.0"}
    state = {"run": {"about": {}}, "environment": now | {what: "other"}}
    (line,) = describe_changes(state, {}, now)
    assert "no longer bit for bit" in line
    assert f"{what}: other in the checkpoint, {now[what]} now" in line
    assert describe_changes({"run": {"about": {}}, "environment": now}, {}, now) == []


def test_a_skipped_step_weighs_nothing_in_the_mean_loss():
    window = Window.of(4, torch.device("cpu"))
    for step, (loss, skipped) in enumerate([(6.0, 0.0), (torch.nan, 1.0), (9.0, 0.0)]):
        window.add(step, torch.tensor(loss), tokens=3, skipped=torch.tensor(skipped))
    assert window.take_skipped(0, 3) == [False, True, False]
    assert window.take_skipped(0, 3) == [False, False, False]  # counted once
    assert window.mean_loss(window.losses) == pytest.approx((6 + 9) / (3 + 3))
