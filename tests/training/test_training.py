"""Whole runs: what they print and record, and what ranks and passes must not change."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from config import parse
from tests.helpers import processes
from tests.helpers.corpora import write_parallel
from tests.helpers.faults import Run
from tests.helpers.runs import (
    assert_same_tree,
    last_state,
    losses,
    metrics,
    records,
)
from translate_ddp.console import describe_seconds
from translate_ddp.runtime.world import World
from translate_ddp.training.metrics import METRICS
from translate_ddp.training.run import build_loader, prepare_data
from translate_ddp.training.run_info import describe_ranks, few_tokens, unused_limit


@pytest.mark.parametrize(
    ("flags", "has_no_effect"),
    [
        (["--max_tokens", "4096", "--batch_tokens", "4096"], True),
        (["--max_tokens", "9000", "--batch_tokens", "4096"], True),
        (["--max_tokens", "4095", "--batch_tokens", "4096"], False),
        (["--batch_tokens", "4096"], False),
        (["--max_tokens", "9000", "--batch_size", "300"], False),  # in place of batch_tokens
    ],
)
def test_limit_of_micro_batches_that_is_no_less_than_a_step_is_reported(
    flags: list[str], has_no_effect: bool
):
    message = unused_limit(vars(parse(flags).batches)) or ""
    assert message.split(":")[0] == f"--max_tokens {flags[1]} has no effect" * has_no_effect


@pytest.mark.slow
def test_validation_on_all_ranks_gives_the_scores_of_rank_0(
    run: Run, uninterrupted: Callable[..., Run]
):
    run.start("--validate_on", "all", "--average", "2", size=2).succeed()
    one, other = metrics(uninterrupted(2, 2, "--average", "2").folder), metrics(run.folder)
    assert sum("validation/BLEU" in record for record in one) == 2
    assert sum("validation_average/BLEU" in record for record in one) == 1
    assert other == [pytest.approx(record, rel=1e-6) for record in one]


def test_records_have_the_epoch_and_the_unsmoothed_loss(run: Run):
    output = run.start("--validate_every", "5").succeed()
    position = last_state(run.folder)["position"]
    end, best = position["global_step"], position["best_epoch"]
    assert f"epoch 2, step {end}: validation loss " in output and "epoch 3" not in output
    best = rf"Best finished epoch: {best}, "
    assert re.search(rf"Finished at epoch 2, step {end}, after [\dhmins ]+\. {best}", output)
    logged = records(run.folder)
    training = [record for record in logged if "train/loss" in record]
    assert all(0 < record["train/nll"] < record["train/loss"] for record in training)
    per_epoch = end / 2  # epochs of equal length
    assert [r["epoch"] for r in logged] == pytest.approx([r["step"] / per_epoch for r in logged])
    validated = [record["epoch"] for record in logged if "validation/loss" in record]
    assert len(validated) > 2 and {1.0, 2.0} < set(validated)
    names = {name for record in logged for name in record if not name.startswith("train/")}
    scores = {f"validation/{metric.name}" for metric in METRICS}
    assert names == {"step", "time", "epoch"} | scores


def test_ranks_and_micro_batches_change_no_loss(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--dropout", "0", "--seq_len", "20"]
    straight, changing = tmp_path / "straight", tmp_path / "changing"
    processes.train([*flags, "--model_folder", str(straight)], tmp_path, 2).succeed()
    flags += ["--model_folder", str(changing), "--max_tokens", "20"]  # several micro-batches a step
    for size, max_steps in ((2, "4"), (1, "9"), (3, "13"), (2, "0")):
        processes.train([*flags, "--max_steps", max_steps], tmp_path, size).succeed()
    assert len(losses(straight)) >= 8
    assert losses(changing) == pytest.approx(losses(straight), abs=1e-5)


@pytest.mark.slow
def test_trace_and_deterministic_kernels_change_no_weight(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--max_steps", "13"]
    processes.train(flags, tmp_path, 1).succeed()
    expected = last_state(tmp_path / "model")["model"]
    flags += ["--deterministic", "--profile", "99", "--model_folder", str(tmp_path / "traced")]
    assert "ui.perfetto.dev" in processes.train(flags, tmp_path, 1).succeed()
    assert_same_tree(last_state(tmp_path / "traced")["model"], expected)
    # The run ended within the 99 steps.
    with gzip.open(tmp_path / "traced" / "profile-13.json.gz") as file:
        names = [event.get("name", "") for event in json.load(file)["traceEvents"]]
    assert sum(name == "Optimizer.step#AdamW.step" for name in names) == 3


def test_advice_on_batch_tokens_is_for_several_gpus_that_wait():
    gpus, batches = torch.device("cuda"), {"batch_tokens": 25_000, "batch_size": 0}
    assert "--batch_tokens 200000" in (few_tokens(batches, World(size=8, device=gpus)) or "")
    for world in (World(size=2, device=gpus), World(device=gpus), World(size=8)):
        assert few_tokens(batches, world) is None


def test_up_to_sixteen_ranks_have_a_line_each_and_more_a_line_per_host():
    ranks = [f"node{rank // 8}: cuda:{rank % 8} (NVIDIA H100)" for rank in range(24)]
    lines = describe_ranks(ranks[:16])
    assert len(lines) == 16
    assert lines[0] == "rank 0  node0: cuda:0 (NVIDIA H100)"
    assert lines[15] == "rank 15  node1: cuda:7 (NVIDIA H100)"
    assert describe_ranks(ranks) == [f"8 ranks  node{n}: cuda (NVIDIA H100)" for n in range(3)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(45, "45 s"), (59.7, "1 min 0 s"), (125, "2 min 5 s"), (12_000, "3 h 20 min")],
)
def test_durations_have_at_most_two_units(seconds: float, text: str):
    assert describe_seconds(seconds) == text


@pytest.mark.slow
def test_epoch_has_the_same_number_in_progress_messages_and_status(run: Run):
    output = run.start("--max_steps", "20").succeed()
    position = last_state(run.folder)["position"]
    assert (position["epoch"], position["global_step"]) == (1, 20)  # within epoch 2
    assert "epoch 2/2" in output and "epoch 3" not in output
    assert "Finished at epoch 2, step 20, after " in output
    assert (run.status["epoch"], run.status["step"]) == (2, 20)


def test_report_names_what_is_trained_and_on_what(run: Run):
    output = run.start("--max_steps", "1", size=2).succeed()
    for name in ("preset", "model", "training", "steps", "corpus", "vocabulary", "ranks"):
        assert re.search(rf"^ *{name}  \S", output, re.MULTILINE), name
    assert re.search(r"ranks  2, backend gloo\n +rank 0  \S+: cpu, .*\n +rank 1  ", output)
    assert "preset  tiny" in output and " parameters, layers compute in " in output
    assert re.search(r"steps per epoch, .*% padding\n", output)
    assert f"saves to  {run.folder}/: at most 9 checkpoints of " in output
    assert f"logs to  {run.folder / 'metrics.jsonl'}" in output
    assert f"No checkpoint in {run.folder}: starting from scratch." in output


SIMCUT = ["--simcut", "3"]


@pytest.mark.slow
def test_first_record_with_simcut_has_only_steps_with_it(run: Run):
    run.start("--max_steps", "4").succeed()  # the last record is of step 3
    each = run.copy("each")
    shutil.copytree(run.folder, each.folder, dirs_exist_ok=True)
    each.start(*SIMCUT, "--max_steps", "6", "--log_every", "1").succeed()
    of_each = [record.get("train/divergence") for record in records(each.folder)]
    fifth, sixth = filter(None, of_each)
    run.start(*SIMCUT, "--max_steps", "6").succeed()
    of_both = [record.get("train/divergence") for record in records(run.folder)]
    (mean,) = filter(None, of_both)
    assert min(fifth, sixth) <= mean <= max(fifth, sixth)


def test_micro_batch_with_simcut_holds_half_of_the_pairs(tmp_path: Path):
    corpus = write_parallel(tmp_path / "train", [(f"one {n}", f"eins {n}") for n in range(100)])
    flags = ["--dataset", corpus, "--lang_src", "en", "--lang_tgt", "de", "--preset", "tiny"]
    flags += ["--max_tokens", "300", "--seq_len", "100", "--validation", "10"]
    flags += ["--model_folder", str(tmp_path / "model")]
    most = []
    for further in ([], SIMCUT):
        config = parse([*flags, *further])
        data = prepare_data(config, tmp_path / "data", World())
        loader = build_loader(config, data, World(), torch.float32)
        passes = [batch.source_BS for step in loader for batch in step.micro_batches]
        most.append(max(source.numel() for source in passes))
    assert 150 < most[0] <= 300 and most[1] <= 150
