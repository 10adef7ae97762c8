"""What a run prints at its start and end, and the status of its folder."""

import re

import pytest

from tests.helpers.faults import Run
from tests.helpers.runs import last_state
from translate_ddp.training.report import describe_ranks, describe_seconds


def test_sixteen_ranks_have_a_line_each():
    ranks = [f"node{rank // 8}: cuda:{rank % 8} (NVIDIA H100)" for rank in range(16)]
    lines = describe_ranks(ranks)
    assert len(lines) == 16
    assert lines[0] == "rank 0  node0: cuda:0 (NVIDIA H100)"
    assert lines[15] == "rank 15  node1: cuda:7 (NVIDIA H100)"


def test_more_ranks_have_a_line_per_host():
    ranks = [f"node{rank // 8}: cuda:{rank % 8} (NVIDIA H100)" for rank in range(24)]
    assert describe_ranks(ranks) == [
        "8 ranks  node0: cuda (NVIDIA H100)",
        "8 ranks  node1: cuda (NVIDIA H100)",
        "8 ranks  node2: cuda (NVIDIA H100)",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (45, "45 s"),
        (59.7, "1 min 0 s"),
        (125, "2 min 5 s"),
        (3600, "1 h 0 min"),
        (12_000, "3 h 20 min"),
        (360_000, "100 h 0 min"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, text: str):
    assert describe_seconds(seconds) == text


def test_epoch_has_the_same_number_in_progress_messages_and_status(run: Run):
    output = run.start("--max_steps", "20").succeed()
    position = last_state(run.folder)["position"]
    assert (position["epoch"], position["global_step"]) == (1, 20)  # within epoch 2
    assert "epoch 2/2" in output and "epoch 3" not in output
    assert "Finished at epoch 2, step 20, after " in output
    assert (run.status["epoch"], run.status["step"]) == (2, 20)

    output = run.start().succeed()
    position = last_state(run.folder)["position"]
    end, best = position["global_step"], position["best_epoch"]
    assert "epoch 2/2" in output and "epoch 1/2" not in output and "epoch 3" not in output
    assert f"epoch 2, step {end}: validation loss " in output
    finished = (
        rf"Finished at epoch 2, step {end}, after [\dhmins ]+\. Best finished epoch: {best}, "
    )
    assert re.search(finished, output)
    assert (run.status["epoch"], run.status["step"]) == (2, end)


def test_report_names_what_is_trained_and_on_what(run: Run):
    output = run.start("--max_steps", "1", size=2).succeed()
    for name in ("preset", "model", "training", "steps", "corpus", "vocabulary", "ranks"):
        assert re.search(rf"^ *{name}  \S", output, re.MULTILINE), name
    assert re.search(r"ranks  2, backend gloo\n +rank 0  \S+: cpu, .*\n +rank 1  ", output)
    assert "tiny (--preset)" in output and " parameters, layers compute in " in output
    assert re.search(r"steps per epoch, .*% padding\n", output)
    assert f"saves to  {run.folder}/" in output
    assert f"logs to  {run.folder / 'metrics.jsonl'}" in output
    assert f"No checkpoint in {run.folder}: starting from scratch." in output
