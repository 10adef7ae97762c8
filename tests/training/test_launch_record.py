"""Starts by the launcher after the first one resume, whatever --preload is."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.faults import Run
from tests.helpers.runs import checkpoints
from translate_ddp.runtime.launch import is_restart, launch_names, record_launch


def torchrun(name: str, attempt: int = 0) -> dict[str, Any]:
    """What it sets; the attempt does not count changes of the number of nodes."""
    return {"TORCHELASTIC_ERROR_FILE": f"/tmp/x/none_{name}/attempt_{attempt}/0/error.json"}


def slurm(job: int, restarts: int = 0) -> dict[str, str]:
    restarted = {"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}
    return {"SLURM_JOB_ID": str(job), **restarted}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (torchrun("a"), torchrun("a", attempt=1), True),
        (torchrun("a"), torchrun("a"), True),  # after a node has joined
        (torchrun("a"), torchrun("b"), False),
        (torchrun("a"), torchrun("aa"), False),
        (torchrun("a") | slurm(7), torchrun("b") | slurm(7, restarts=1), True),
        (slurm(7, restarts=1), slurm(7, restarts=2), True),
        (slurm(7), slurm(7), False),  # the next srun of an interactive job
        (slurm(7, restarts=1), slurm(7, restarts=1), False),
        (slurm(7), slurm(71, restarts=1), False),
        ({}, {}, False),
        (torchrun("a"), {"TORCHELASTIC_ERROR_FILE": ""}, False),
    ],
)
def test_restart_is_told_from_a_new_start(
    tmp_path: Path, first: dict[str, str], second: dict[str, str], expected: bool
):
    assert not is_restart(first, tmp_path)  # nothing is recorded
    record_launch(tmp_path, launch_names(first))
    assert is_restart(second, tmp_path) == expected


def test_any_torchrun_of_the_nodes_that_began_the_run_restarts_it(tmp_path: Path):
    record_launch(tmp_path, launch_names(torchrun("node0")) + launch_names(torchrun("node1")))
    assert is_restart(torchrun("node1"), tmp_path)


def test_damaged_record_is_none(tmp_path: Path):
    (tmp_path / ".launch").write_bytes(b"\xff")
    assert not is_restart(torchrun("a"), tmp_path)


def test_start_that_fails_early_does_not_use_up_the_preload_flag(finished: Run):
    before = checkpoints(finished.folder)
    finished.start("--preload", "", "--dataset", "absent/corpus", **torchrun("a")).fail()
    assert checkpoints(finished.folder) == before
    output = finished.start("--preload", "", **torchrun("a", attempt=1)).succeed()
    assert "Resuming" not in output and "Moved files that are not part of this run" in output


def test_new_run_is_resumed_when_its_torchrun_starts_it_again(finished: Run):
    before = len(checkpoints(finished.folder))
    finished.start("--preload", "", fault="batch:6=kill", **torchrun("a")).kill_rest()
    saved = checkpoints(finished.folder)
    assert len(saved) < before
    for _ in range(2):
        output = finished.start("--preload", "", **torchrun("a")).succeed()
        assert "Resuming from" in output and "Moved" not in output
        finished.assert_uninterrupted()
    output = finished.start("--preload", "", **torchrun("b")).succeed()
    assert "Resuming" not in output and "Moved" in output
