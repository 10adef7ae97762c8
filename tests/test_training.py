"""Whole runs on real processes: their records, and what ranks and passes must not change."""

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_state, last_state, losses, metrics, records
from translate_ddp.data.batches import Step
from translate_ddp.data.dataset import load_prepared
from translate_ddp.data.tokenizer import SPECIAL_TOKENS
from translate_ddp.training.metrics import METRICS
from translate_ddp.training.updater import StepResult, Updater


def test_bf16_trains_and_resumes_exactly(run: Run):
    straight, bf16 = run.copy("straight"), ["--precision", "bf16"]
    assert "bf16" in straight.start(*bf16).succeed()
    for flags in (["--max_steps", "8"], []):
        run.start(*bf16, *flags).succeed()
    assert_same_state(straight.folder, run.folder)
    assert losses(run.folder)[-1] < losses(run.folder)[0]
    model = last_state(run.folder)["model"]
    assert all(tensor.dtype == torch.float32 for tensor in model.values())


def test_validation_on_all_ranks_gives_the_scores_of_rank_0(
    run: Run, uninterrupted: Callable[..., Run]
):
    run.start("--validate_on", "all", size=2).succeed()
    one, other = metrics(uninterrupted(2).folder), metrics(run.folder)
    assert sum("validation/BLEU" in record for record in one) == 2
    assert other == [pytest.approx(record, rel=1e-6) for record in one]


def test_records_have_the_epoch_and_the_unsmoothed_loss(run: Run):
    run.start("--validate_every", "5").succeed()
    logged = records(run.folder)
    training = [record for record in logged if "train/loss" in record]
    assert all(0 < record["train/nll"] < record["train/loss"] for record in training)
    per_epoch = last_state(run.folder)["position"]["global_step"] / 2  # epochs of equal length
    assert [r["epoch"] for r in logged] == pytest.approx([r["step"] / per_epoch for r in logged])
    validated = [record["epoch"] for record in logged if "validation/loss" in record]
    assert len(validated) > 2 and {1.0, 2.0} < set(validated)
    names = {name for record in logged for name in record if not name.startswith("train/")}
    scores = {f"validation/{metric.name}" for metric in METRICS}
    assert names == {"step", "time", "epoch"} | scores


def train_on_a_full_disk(flags: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    processes.run_train(flags)


def test_full_disk_ends_the_run_with_one_message(tiny_run: list[str], tmp_path: Path):
    output = processes.start(train_on_a_full_disk, tmp_path, 2, None, tiny_run).fail()
    assert output.count("error: No space to read") == 1
    assert "File too large" in output and "Traceback" not in output


def train_and_trace(flags: list[str], trace: str) -> None:
    """Trains, and records the target of every sentence of every pass that this rank takes."""
    take_step = Updater.step

    def step(self: Updater, step: Step, *, stop: bool = False, save: bool = False) -> StepResult:
        with open(f"{trace}-{os.getpid()}", "a") as file:
            rows = [(n, row) for n, batch in enumerate(step.passes) for row in batch.target_BT]
            for number, row in rows:
                if tokens := [token for token in row.tolist() if token >= len(SPECIAL_TOKENS)]:
                    record = [self.position.epoch, self.position.global_step, number, tokens]
                    file.write(json.dumps(record) + "\n")
        return take_step(self, step, stop=stop, save=save)

    Updater.step = step
    processes.run_train(flags)


def test_ranks_and_passes_change_no_loss_and_each_sentence_is_seen_once(
    tiny_run: list[str], tmp_path: Path
):
    flags = [*tiny_run, "--dropout", "0", "--seq_len", "20"]
    straight, changing = tmp_path / "straight", tmp_path / "changing"
    processes.train([*flags, "--model_folder", str(straight)], tmp_path, 2).succeed()
    flags += ["--model_folder", str(changing), "--max_tokens", "20"]  # several passes a step
    for size, max_steps in ((2, "4"), (1, "9"), (3, "13"), (2, "0")):
        trace = str(tmp_path / f"trace-{size}")
        command = [*flags, "--max_steps", max_steps]
        processes.start(train_and_trace, tmp_path, size, None, command, trace).succeed()
    assert len(losses(straight)) >= 8
    assert losses(changing) == pytest.approx(losses(straight), abs=1e-5)

    traces = [path.read_text().splitlines() for path in tmp_path.glob("trace-*")]
    seen = [json.loads(line) for lines in traces for line in lines]
    (prepared,) = (changing / "data").iterdir()
    pairs = load_prepared(prepared).train
    corpus = sorted(pairs.target[row].tolist() for row in range(len(pairs)))
    for epoch in range(2):
        assert sorted(tokens for at, _, _, tokens in seen if at == epoch) == corpus
    steps = {(epoch, step) for epoch, step, _, _ in seen}
    assert len(steps) == last_state(changing)["position"]["global_step"]
    assert max(number for _, _, number, _ in seen) > 0
