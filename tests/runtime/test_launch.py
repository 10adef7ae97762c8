"""The variables of torchrun and Slurm; restarts by them resume, whatever --preload is."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import faults
from tests.helpers.commands import ROOT, environment
from tests.helpers.faults import Run
from tests.helpers.runs import checkpoints
from translate_ddp.errors import UserError
from translate_ddp.runtime.launch import (
    Launch,
    first_slurm_host,
    is_restart,
    launch_names,
    read_launch,
    record_launch,
)

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}


def test_variables_of_torchrun():
    variables = TORCHRUN | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert read_launch(variables) == Launch(5, 8, local_rank=1, local_size=4, node=4)
    assert read_launch(variables | {"GROUP_RANK": "1"}).node == 1
    assert read_launch(variables | {"TORCHELASTIC_RUN_ID": "none"}).under_torchrun


def test_variables_of_slurm_when_srun_starts_the_ranks():
    variables = {
        "SLURM_PROCID": "9",
        "SLURM_NTASKS": "12",  # of the job
        "SLURM_STEP_NUM_TASKS": "11",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "2",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
    }
    expected = Launch(rank=9, size=11, local_rank=1, local_size=3, node=2)
    assert read_launch(variables) == read_launch(variables | {"PMI_SIZE": "11"}) == expected
    assert (
        read_launch(variables | {"SLURM_STEP_NUM_TASKS": "1"}) == Launch()
    )  # an interactive shell


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": ""}, "The launcher's variable RANK is '', which is no number."),
        ({"RANK": "one"}, "The launcher's variable RANK is 'one', which is no number."),
        ({"WORLD_SIZE": None}, "The launcher's variable WORLD_SIZE is not set."),
        ({"RANK": None}, "The launcher's variable RANK is not set."),
        ({"LOCAL_RANK": "-1"}, "The launcher's variable LOCAL_RANK is '-1', which is no number."),
        ({"MASTER_ADDR": None}, "RANK is set, but MASTER_ADDR is not."),
        ({"MASTER_PORT": ""}, "The launcher's variable MASTER_PORT is '', which is no number."),
        ({"RANK": "8"}, "RANK=8 is not below WORLD_SIZE=8."),
    ],
)
def test_incomplete_variables_are_an_error_that_names_them(
    changes: dict[str, str | None], message: str
):
    variables = {k: v for k, v in (TORCHRUN | changes).items() if v is not None}
    with pytest.raises(UserError) as raised:
        read_launch(variables)
    assert str(raised.value).startswith(f"{message} Start with torchrun, or unset RANK")


def test_one_process_needs_no_address():
    assert read_launch({"RANK": "0", "WORLD_SIZE": "1"}) == Launch()


def test_processes_of_mpirun_are_an_error_unless_a_wrapper_sets_their_ranks():
    variables = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2"}
    # mpirun starts its daemons with srun: these variables do not describe the processes.
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    for more in ({}, step):
        with pytest.raises(UserError, match="mpirun has started 4 processes without RANK"):
            read_launch(variables | more)
    assert read_launch(variables | TORCHRUN).rank == 5
    assert read_launch(variables | {"OMPI_COMM_WORLD_SIZE": "1"}) == Launch()


@pytest.mark.parametrize("words", [["train.py"], ["-m", "translate_ddp", "translate", "a text"]])
@pytest.mark.parametrize(
    ("variables", "messages"),
    [
        ({"RANK": ""}, 1),
        ({"RANK": "0", "WORLD_SIZE": "2"}, 1),
        ({"RANK": "3", "WORLD_SIZE": "2"}, 1),
        ({"PMI_SIZE": "2", "PMI_RANK": "0"}, 1),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, 1),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, 0),  # rank 0 prints it
    ],
)
def test_unusable_variables_end_programs_with_one_message(
    words: list[str], variables: dict[str, str], messages: int
):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment() | variables,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == messages and done.stderr.startswith("error: " * messages)


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("gpu[07-09,12],big1", "gpu07"), ("node3", "node3"), ("a1,a2", "a1"), ("n-[1,3]", "n-1")],
)
def test_first_host_of_a_slurm_node_list(nodelist: str, host: str):
    assert first_slurm_host(nodelist) == host


# --- restarts ---


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


@pytest.mark.slow
def test_start_that_fails_early_does_not_use_up_the_preload_flag(finished: Run):
    before = checkpoints(finished.folder)
    finished.start("--preload", "", "--dataset", "absent/corpus", **torchrun("a")).fail()
    assert checkpoints(finished.folder) == before
    output = finished.start("--preload", "", **torchrun("a", attempt=1)).succeed()
    assert "Resuming" not in output and "Moved files that are not part of this run" in output


def test_new_run_is_resumed_when_its_torchrun_starts_it_again(finished: Run):
    before = len(checkpoints(finished.folder))
    finished.start("--preload", "", fault=faults.kill("published"), **torchrun("a")).kill_rest()
    saved = checkpoints(finished.folder)
    assert len(saved) < before
    for _ in range(2):
        output = finished.start("--preload", "", **torchrun("a")).succeed()
        assert "Resuming from" in output and "Moved" not in output
        finished.assert_uninterrupted()
    output = finished.start("--preload", "", **torchrun("b")).succeed()
    assert "Resuming" not in output and "Moved" in output
