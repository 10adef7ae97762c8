"""Two nodes: what a lost machine, a cut cable or a second run must not do to a run."""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import processes
from tests.helpers.nodes import Nodes, go_on, state_of, two_nodes, wait_until, wait_until_stopped
from tests.helpers.runs import assert_same_state, checkpoints, last_state, metrics
from tests.helpers.tiny_run import TINY_RUN

LOST = 75  # the exit code of ranks with which nothing is wrong but that others are gone


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with two_nodes() as nodes:
        yield nodes


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, corpus: str) -> Path:
    """The model folder of a run on two nodes that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    flags = [*TINY_RUN, "--dataset", corpus, "--model_folder", str(folder)]
    with two_nodes() as nodes:
        nodes.train([flags, flags], folder).succeed()
    return folder


def assert_as_undisturbed(folder: Path, undisturbed: Path) -> None:
    assert_same_state(folder, undisturbed)
    assert metrics(folder) == metrics(undisturbed)


def each_with_its_disk(flags: Sequence[str], folders: Sequence[Path]) -> list[list[str]]:
    return [[*flags, "--model_folder", str(folder)] for folder in folders]


def status(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "STATUS.json").read_text())


def test_a_killed_node_ends_the_run_on_the_other_and_a_new_start_goes_on(
    nodes: Nodes, tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    agents = nodes.torchrun([tiny_run] * 2, tmp_path, TRANSLATE_DDP_FAULT="batch:6@1=stop")
    wait_until_stopped(agents[1].rank())
    agents[1].kill(with_rank=True)
    assert agents[0].wait() == 1, agents[0].text

    said = agents[0].text
    assert said.count("error: ") == 1 and re.search("^error: Rank 1 .*lost", said, re.M), said
    left = status(tmp_path / "model")
    assert left["state"] == "failed" and left["reason"].startswith("Rank 1 ")

    said = nodes.train([tiny_run] * 2, tmp_path).succeed()
    assert "Resuming from" in said and "step_00000004" in said
    assert_as_undisturbed(tmp_path / "model", undisturbed)


def test_a_killed_node_that_has_the_checkpoints_goes_on_with_its_disk(
    nodes: Nodes, tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    # The rank killed is the one that saves, and holds the store and the lock.
    disks = tmp_path / "disk0", tmp_path / "disk1"
    flags = each_with_its_disk(tiny_run, disks)
    job = nodes.train(flags, tmp_path, TRANSLATE_DDP_FAULT="batch:6@0=stop")
    wait_until_stopped(job.ranks[0].pid)
    job.ranks[0].kill()
    assert job.wait() == [-signal.SIGKILL, LOST], job.text()
    assert job.text().count("error: ") == 1, job.text()
    assert status(disks[1])["state"] == "failed"

    # Without any patience: the lock is gone with its process.
    said = nodes.train(flags, tmp_path, patience_seconds=0).succeed()
    assert f"Resuming from {disks[0]}/tmodel_step_00000004" in said
    assert_as_undisturbed(disks[0], undisturbed)
    assert not checkpoints(disks[1]) and not (disks[1] / "metrics.jsonl").exists()


def test_a_cut_link_ends_both_sides_and_once_mended_a_new_start_goes_on(
    nodes: Nodes, tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    if not nodes.have_a_cable:
        pytest.skip("a link can be cut between network namespaces only, which need root and ip")
    disks = tmp_path / "disk0", tmp_path / "disk1"
    flags = each_with_its_disk([*tiny_run, "--timeout_minutes", "0.1"], disks)
    job = nodes.train(flags, tmp_path, TRANSLATE_DDP_FAULT="batch:6=stop")
    pids = [rank.pid for rank in job.ranks]
    wait_until_stopped(*pids)
    nodes.set_cable("down")
    go_on(*pids)
    assert job.wait() == [LOST, LOST], job.text()
    for rank, output in enumerate(job.outputs):
        said = output.read_text()
        assert said.count("error: ") == 1, said
        assert f"rank {rank} stood here" in said and "_train_epoch" in said
        assert status(disks[rank])["state"] == "failed"

    nodes.set_cable("up")
    assert "Resuming from" in nodes.train(flags, tmp_path).succeed()
    assert_as_undisturbed(disks[0], undisturbed)
    assert not checkpoints(disks[1])


def test_ranks_that_lose_the_host_of_the_rendezvous_save_and_leave(
    nodes: Nodes, tiny_run: list[str], tmp_path: Path
):
    # The first torchrun keeps the store by which ranks find and hear each other.
    folder = tmp_path / "model"
    agents = nodes.torchrun([[*tiny_run, "--num_epochs", "1000"]] * 2, tmp_path)
    ranks = [agent.rank() for agent in agents]
    wait_until(lambda: list(folder.glob("tmodel_step_00000004-*")))
    agents[0].kill(with_rank=False)
    agents[1].wait()
    wait_until(lambda: all(state_of(rank) in "Z-" for rank in ranks))

    left = status(folder)
    assert left["state"] == "preempted", left
    assert left["checkpoint"] == checkpoints(folder)[0]
    step = last_state(folder)["position"]["global_step"]
    assert step == left["step"]

    more = [*tiny_run, "--num_epochs", "1000", "--max_steps", str(step + 1)]
    said = nodes.train([more] * 2, tmp_path).succeed()
    assert f"Resuming from {folder / left['checkpoint']}" in said
    assert last_state(folder)["position"]["global_step"] == step + 1


def test_a_second_run_on_a_folder_in_use_is_refused_on_either_node(
    nodes: Nodes, tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    disks = tmp_path / "disk0", tmp_path / "disk1"
    first = nodes.train(
        each_with_its_disk(tiny_run, disks), tmp_path, TRANSLATE_DDP_FAULT="batch:6=stop"
    )
    holders = [rank.pid for rank in first.ranks]
    wait_until_stopped(*holders)
    new = tmp_path / "new0", tmp_path / "new1"
    for node, folders in enumerate([(disks[0], new[1]), (new[0], disks[1])]):
        second = nodes.train(each_with_its_disk(tiny_run, folders), tmp_path, patience_seconds=0.5)
        told = second.fail()
        whose = f"{disks[node]} is in use by process {holders[node]} on {socket.gethostname()}: "
        assert told.count(f"error: {whose}") == 1 and "another --model_folder" in told
        assert "Traceback" not in told

    go_on(*holders)
    first.succeed()
    assert_as_undisturbed(disks[0], undisturbed)


def test_a_run_whose_folder_was_taken_over_writes_no_more(
    nodes: Nodes, tiny_run: list[str], tmp_path: Path
):
    # Disks of a network may keep the locks of each machine apart.
    folder = tmp_path / "model"
    job = nodes.train([tiny_run] * 2, tmp_path, TRANSLATE_DDP_FAULT="batch:6=stop")
    pids = [rank.pid for rank in job.ranks]
    wait_until_stopped(*pids)
    (folder / ".lock").write_text(json.dumps({"token": "another", "pid": 1, "host": "other"}))
    (folder / "STATUS.json").write_text('{"state": "running", "pid": 1}')
    before = sorted(os.listdir(folder))
    go_on(*pids)
    told = job.fail()
    assert told.count(f"error: Another run has taken {folder} over: nothing was saved") == 1
    assert sorted(os.listdir(folder)) == before
    assert status(folder)["pid"] == 1


def test_a_new_machine_goes_on_from_the_checkpoint_of_the_other(
    nodes: Nodes, tiny_run: list[str], tmp_path: Path
):
    # The checkpoint is on the second node only, as after the first was replaced.
    folders = [tmp_path / "node0", tmp_path / "node1"]
    first = [*tiny_run, "--max_steps", "4", "--model_folder", str(folders[1])]
    processes.train(first, tmp_path, 2).succeed()
    flags = each_with_its_disk([*tiny_run, "--max_steps", "8"], folders)
    said = nodes.train(flags, tmp_path).succeed()
    assert said.count("Resuming from") == 1
    assert f"{folders[1]}/tmodel_step_00000004" in said and "on node 1" in said
    assert "Finished at epoch 0, step 8" in said
    # Each node maps the corpus that it prepared itself.
    assert all(list((folder / "data").glob("en-it-*/prepared.json")) for folder in folders)
