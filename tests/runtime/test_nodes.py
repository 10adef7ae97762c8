"""Two nodes: a lost node, a cut link and a second run in the same folder."""

import json
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import faults
from tests.helpers import processes
from tests.helpers.nodes import Nodes, resume, wait_until_stopped
from tests.helpers.runs import assert_same_run, checkpoints, status

RETRY = 75  # exit code of a rank that has lost another one


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """A model folder on the disk of each node."""
    return [tmp_path / "disk0", tmp_path / "disk1"]


def flags_of_nodes(flags: Sequence[str], folders: Sequence[Path]) -> list[list[str]]:
    return [[*flags, "--model_folder", str(folder)] for folder in folders]


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_restart_after_killed_node_uses_the_checkpoints_on_the_disk_of_the_first(
    nodes: Nodes,
    tiny_run: list[str],
    undisturbed: Path,
    disks: list[Path],
    tmp_path: Path,
    killed: int,
):
    # Rank 0 saves, hosts the store and holds the lock.
    flags = flags_of_nodes(tiny_run, disks)
    fault = (faults.stop("published", rank=0), faults.stop("batch", time=6, rank=1))[killed]
    job = nodes.train(flags, tmp_path, TRANSLATE_DDP_FAULT=fault)
    wait_until_stopped(job.ranks[killed].pid)
    job.ranks[killed].kill()
    codes = [RETRY, RETRY]
    codes[killed] = -signal.SIGKILL
    assert job.wait() == codes, job.text()
    assert job.text().count("error: ") == 1, job.text()
    assert killed == 0 or "error: Rank 1 is lost" in job.text()
    assert status(disks[1 - killed])["state"] == "lost"

    # The lock was released with its process.
    output = nodes.train(flags, tmp_path, lock_seconds=0).succeed()
    assert f"Resuming from {disks[0]}/tmodel_step_00000004" in output
    assert_same_run(disks[0], undisturbed)
    assert not checkpoints(disks[1]) and not (disks[1] / "metrics.jsonl").exists()


@pytest.mark.slow
def test_cut_link_ends_both_nodes_and_restart_gives_same_weights(
    nodes: Nodes, tiny_run: list[str], undisturbed: Path, disks: list[Path], tmp_path: Path
):
    if not nodes.are_linked:
        pytest.skip("network namespaces with a link need root and the command ip")
    flags = flags_of_nodes([*tiny_run, "--timeout_minutes", "0.1"], disks)
    job = nodes.train(flags, tmp_path, TRANSLATE_DDP_FAULT=faults.stop_after_save())
    pids = [rank.pid for rank in job.ranks]
    wait_until_stopped(*pids)
    nodes.set_link("down")
    resume(*pids)
    assert job.wait() == [RETRY, RETRY], job.text()
    for rank, path in enumerate(job.outputs):
        output = path.read_text()
        assert output.count("error: ") == 1, output
        assert f"Stack of rank {rank}" in output and "compute_gradients" in output
        assert status(disks[rank])["state"] == "lost"

    nodes.set_link("up")
    assert "Resuming from" in nodes.train(flags, tmp_path).succeed()
    assert_same_run(disks[0], undisturbed)
    assert not checkpoints(disks[1])


@pytest.mark.slow
def test_second_run_in_a_folder_in_use_is_an_error_on_either_node(
    nodes: Nodes, tiny_run: list[str], undisturbed: Path, disks: list[Path], tmp_path: Path
):
    flags = flags_of_nodes(tiny_run, disks)
    first = nodes.train(flags, tmp_path, TRANSLATE_DDP_FAULT=faults.stop_after_save())
    holders = [rank.pid for rank in first.ranks]
    wait_until_stopped(*holders)
    new = tmp_path / "new0", tmp_path / "new1"
    for node, folders in enumerate([(disks[0], new[1]), (new[0], disks[1])]):
        flags = flags_of_nodes(tiny_run, folders)
        output = nodes.train(flags, tmp_path, lock_seconds=0.5).fail()
        whose = f"{disks[node]} is in use by process {holders[node]} on {socket.gethostname()}: "
        assert f"\n{whose}waiting until it ends." in f"\n{output}"
        assert output.count(f"error: {whose}") == 1 and "another --model_folder" in output
        assert "Traceback" not in output

    resume(*holders)
    first.succeed()
    assert_same_run(disks[0], undisturbed)


def test_run_whose_folder_was_taken_over_saves_nothing(
    nodes: Nodes, tiny_run: list[str], tmp_path: Path
):
    # On a network disk, locks may be local to each node.
    folder = tmp_path / "model"
    job = nodes.train([tiny_run] * 2, tmp_path, TRANSLATE_DDP_FAULT=faults.stop_after_save())
    pids = [rank.pid for rank in job.ranks]
    wait_until_stopped(*pids)
    (folder / ".holder").write_text(json.dumps({"token": "another", "pid": 1, "host": "other"}))
    (folder / "STATUS.json").write_text('{"state": "running", "pid": 1}')
    before = sorted(os.listdir(folder))
    resume(*pids)
    output = job.fail()
    assert output.count(f"error: Another run has taken over {folder}: nothing was saved") == 1
    assert sorted(os.listdir(folder)) == before
    assert status(folder)["pid"] == 1


def test_new_node_resumes_from_the_checkpoint_of_the_other(
    nodes: Nodes, tiny_run: list[str], disks: list[Path], tmp_path: Path
):
    # The checkpoint is on the second node only: the first was replaced.
    first = [*tiny_run, "--max_steps", "4", "--model_folder", str(disks[1])]
    processes.train(first, tmp_path, 2).succeed()
    flags = flags_of_nodes([*tiny_run, "--max_steps", "8"], disks)
    output = nodes.train(flags, tmp_path).succeed()
    assert output.count("Resuming from") == 1
    assert f"{disks[1]}/tmodel_step_00000004" in output and "on node 1" in output
    assert "Finished at epoch 1, step 8" in output
    # Each node maps the corpus that it prepared itself.
    assert all(list((folder / "data").glob("en-it-*/prepared.json")) for folder in disks)


@pytest.mark.slow
def test_nodes_with_different_corpora_train_nothing(
    nodes: Nodes, tiny_run: list[str], disks: list[Path], tmp_path: Path
):
    prefixes = [tmp_path / "one" / "train", tmp_path / "other" / "train"]
    for number, prefix in enumerate(prefixes):
        prefix.parent.mkdir()
        lines = [f"sun {'moon ' * (n % 7)}{number}\n" for n in range(60)]
        for language in ("en", "it"):
            Path(f"{prefix}.{language}").write_text("".join(lines))
    flags = flags_of_nodes(tiny_run, disks)
    flags = [[*words, "--dataset", str(p)] for words, p in zip(flags, prefixes, strict=True)]
    output = nodes.train(flags, tmp_path).fail()
    assert output.count("error: The nodes read different data") == 1
    assert not any(map(checkpoints, disks))
