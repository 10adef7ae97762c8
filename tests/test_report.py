"""What a run prints at its start and end, and the status of its folder."""

import json
import re
from pathlib import Path

import pytest

from tests.helpers import processes
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


def status(folder: Path) -> dict[str, object]:
    return json.loads((folder / "STATUS.json").read_text())


def test_epoch_has_the_same_number_in_progress_messages_and_status(
    tiny_run: list[str], tmp_path: Path
):
    folder = tmp_path / "model"
    output = processes.train([*tiny_run, "--max_steps", "20"], tmp_path).succeed()
    position = last_state(folder)["position"]
    assert (position["epoch"], position["global_step"]) == (1, 20)  # within epoch 2
    assert "epoch 2/2" in output and "epoch 3" not in output
    assert "Finished at epoch 2, step 20, after " in output
    assert status(folder)["epoch"] == 2 and status(folder)["step"] == 20

    output = processes.train(tiny_run, tmp_path).succeed()
    end = last_state(folder)["position"]["global_step"]
    best = last_state(folder)["position"]["best_epoch"]
    assert "epoch 2/2" in output and "epoch 1/2" not in output and "epoch 3" not in output
    assert f"epoch 2, step {end}: validation loss " in output
    assert re.search(
        rf"Finished at epoch 2, step {end}, after \d+ s\. Best epoch: {best}, ", output
    )
    assert status(folder)["epoch"] == 2 and status(folder)["step"] == end


def test_stop_is_reported_with_its_reason_and_place(tiny_run: list[str], tmp_path: Path):
    folder = tmp_path / "model"
    flags = [*tiny_run, "--num_epochs", "100000", "--max_minutes", "1e-9"]
    output = processes.train(flags, tmp_path, 2).succeed()
    position, found = last_state(folder)["position"], status(folder)
    epoch, step = position["epoch"] + (position["step_in_epoch"] > 0), position["global_step"]
    assert (found["state"], found["epoch"], found["step"]) == ("preempted", epoch, step)
    (line,) = [line for line in output.splitlines() if line.startswith("Stopped at")]
    place = f"epoch {epoch}, step {step:,}, on request ({found['reason']}), and saved, after "
    assert line.startswith(f"Stopped at {place}")
    assert line.endswith(". The same command resumes from the last checkpoint.")
    assert (folder / str(found["checkpoint"])).exists()


def test_report_names_what_is_trained_and_on_what(tiny_run: list[str], tmp_path: Path):
    folder = tmp_path / "model"
    output = processes.train([*tiny_run, "--max_steps", "1"], tmp_path, 2).succeed()
    start = output.splitlines()
    for name in ("preset", "model", "training", "steps", "corpus", "vocabulary", "ranks"):
        assert any(re.match(rf" *{name}  \S", line) for line in start), name
    assert re.search(r"ranks  2, backend gloo\n +rank 0  \S+: cpu, .*\n +rank 1  ", output)
    assert "tiny (--preset)" in output
    assert f"saves to  {folder}/" in output and f"logs to  {folder / 'metrics.jsonl'}" in output
