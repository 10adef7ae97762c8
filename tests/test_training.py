"""Whole runs on real processes: what kills, ranks and passes must not change."""

import json
import os
import resource
from pathlib import Path

import pytest
import torch

from tests.helpers import processes
from tests.helpers.runs import assert_same_state, checkpoints, last_state, losses, metrics
from translate_ddp.data.batches import Step
from translate_ddp.data.dataset import load_prepared
from translate_ddp.data.tokenizer import SPECIAL_TOKENS
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.updater import StepResult, Updater

RANKS = [1, 2, 3]


def test_killed_and_resumed_run_ends_like_an_uninterrupted_one(tiny_run: list[str], tmp_path: Path):
    # With three ranks the order of DDP's buckets matters; test_kills.py kills one rank and two.
    size = 3
    uninterrupted, killed = tmp_path / "uninterrupted", tmp_path / "killed"
    processes.train([*tiny_run, "--model_folder", str(uninterrupted)], tmp_path, size).succeed()

    flags = [*tiny_run, "--model_folder", str(killed)]
    job = processes.train(flags, tmp_path, size)
    job.kill_when(lambda: list(killed.glob("tmodel_step_00000004-*")))  # within an epoch
    output = processes.train(flags, tmp_path, size).succeed()

    assert "Resuming from" in output
    assert "bit for bit" not in output  # nothing changed that would need the warning
    assert_same_state(uninterrupted, killed)
    assert metrics(uninterrupted) == metrics(killed)


def test_loss_curve_does_not_depend_on_the_number_of_ranks(tiny_run: list[str], tmp_path: Path):
    curves = []
    for size in RANKS:
        folder = tmp_path / str(size)
        flags = [*tiny_run, "--dropout", "0", "--model_folder", str(folder)]
        processes.train(flags, tmp_path, size).succeed()
        curves.append(losses(folder))
    assert len(curves[0]) >= 8
    for curve in curves[1:]:
        assert curve == pytest.approx(curves[0], abs=1e-5)


def test_loss_curve_does_not_depend_on_the_number_of_passes(tiny_run: list[str], tmp_path: Path):
    curves = []
    for max_tokens in ("100", "20"):  # one pass a step, and two to four
        folder = tmp_path / max_tokens
        flags = ["--dropout", "0", "--seq_len", "20", "--max_tokens", max_tokens]
        flags += ["--model_folder", str(folder)]
        processes.train([*tiny_run, *flags], tmp_path, 2).succeed()
        curves.append(losses(folder))
    assert curves[1] == pytest.approx(curves[0], abs=1e-5)


def test_bf16_trains_and_resumes_exactly(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--precision", "bf16"]
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    output = processes.train([*flags, "--model_folder", str(straight)], tmp_path).succeed()
    assert "bf16" in output
    for max_steps in (["--max_steps", "8"], []):
        processes.train([*flags, "--model_folder", str(resumed), *max_steps], tmp_path).succeed()
    assert_same_state(straight, resumed)
    assert losses(straight)[-1] < losses(straight)[0]
    assert all(tensor.dtype == torch.float32 for tensor in last_state(straight)["model"].values())


def test_validation_on_all_ranks_gives_the_scores_of_rank_0(tiny_run: list[str], tmp_path: Path):
    scores = []
    for where in ("rank0", "all"):
        folder = tmp_path / where
        flags = [*tiny_run, "--validate_on", where, "--model_folder", str(folder)]
        processes.train(flags, tmp_path, 2).succeed()
        scores.append([r for r in metrics(folder) if "validation/BLEU" in r])
    assert len(scores[0]) == 2
    for one, other in zip(*scores, strict=True):
        assert other == pytest.approx(one, rel=1e-6)


def test_records_have_the_epoch_and_the_unsmoothed_loss(tiny_run: list[str], tmp_path: Path):
    folder = tmp_path / "model"
    processes.train([*tiny_run, "--validate_every", "5"], tmp_path).succeed()
    records = metrics(folder)
    training = [record for record in records if "train/loss" in record]
    assert all(0 < record["train/nll"] < record["train/loss"] for record in training)
    epochs = [record["epoch"] for record in records]
    assert epochs == sorted(epochs) and epochs[-1] == 2 and 0 < epochs[0] < 1
    ends = [record["step"] for record in records if record["epoch"] == 1]
    assert last_state(folder)["position"]["global_step"] == 2 * ends[0]  # epochs of equal length
    names = {name for record in records for name in record if name.startswith("validation/")}
    assert names == {f"validation/{name}" for name in ("loss", "BLEU", "chrf", "cer", "wer")}


def test_only_the_newest_and_best_checkpoints_are_kept(tiny_run: list[str], tmp_path: Path):
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


def test_run_that_diverges_stops_and_saves_nothing(tiny_run: list[str], tmp_path: Path):
    processes.train([*tiny_run, "--max_steps", "4"], tmp_path).succeed()
    before = checkpoints(tmp_path / "model")
    flags = [*tiny_run, "--lr", "1e38", "--clip_grad_norm", "0"]
    output = processes.train(flags, tmp_path, 2).fail()
    assert output.count("not finite in 10 steps in a row") == 1 and "Traceback" not in output
    assert checkpoints(tmp_path / "model") == before


def train_on_a_full_disk(flags: list[str], limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    processes.run_train(flags)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (1_000, "No space to read"),
        (40_000, "Could not save a checkpoint"),
    ],
)
def test_full_disk_ends_the_run_with_one_message(
    tiny_run: list[str], tmp_path: Path, limit: int, message: str
):
    job = processes.start(train_on_a_full_disk, tmp_path, 2, None, tiny_run, limit)
    output = job.fail()
    assert output.count(f"error: {message}") == 1
    assert "File too large" in output and "Traceback" not in output


def train_and_trace(flags: list[str], trace: str) -> None:
    """Trains, and records the target of every sentence of every step that this rank takes."""
    take_step = Updater.step

    def step(self: Updater, step: Step, *, stop: bool = False, save: bool = False) -> StepResult:
        with open(f"{trace}-{os.getpid()}", "a") as file:
            for row in (row for batch in step.passes for row in batch.target_BT.tolist()):
                if tokens := [token for token in row if token >= len(SPECIAL_TOKENS)]:
                    record = [self.position.epoch, self.position.global_step, tokens]
                    file.write(json.dumps(record) + "\n")
        return take_step(self, step, stop=stop, save=save)

    Updater.step = step
    processes.run_train(flags)


def test_ranks_may_change_within_an_epoch_and_each_sentence_is_seen_once(
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

    traces = [path.read_text().splitlines() for path in tmp_path.glob("trace-*")]
    records = [json.loads(line) for lines in traces for line in lines]
    (prepared,) = (changing / "data").iterdir()
    pairs = load_prepared(prepared).train
    corpus = sorted(pairs.target[row].tolist() for row in range(len(pairs)))
    for epoch in range(2):
        assert sorted(tokens for at, _, tokens in records if at == epoch) == corpus
    steps = {(epoch, step) for epoch, step, _ in records}
    assert len(steps) == last_state(changing)["position"]["global_step"]
    assert losses(changing) == pytest.approx(losses(straight), abs=1e-5)
