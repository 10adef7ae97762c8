"""A real Slurm of two nodes: the job script, `srun` alone, requests to stop and lost nodes."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import faults
from tests.helpers.nodes import resume
from tests.helpers.runs import assert_same_run, status
from tests.slurm.cluster import (
    BatchJob,
    Cluster,
    poll,
    ranks_of,
    slurm_cluster,
    stopped_ranks,
    submit,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nodes_are_idle(cluster: Cluster) -> None:
    poll(cluster.is_idle, cluster.logs)


def submit_and_stop(cluster: Cluster, folder: Path, flags: list[str]) -> tuple[BatchJob, list[int]]:
    """A job whose two ranks have stopped in the middle of an epoch, and their pids."""
    job = submit(cluster, folder, flags, TRANSLATE_DDP_FAULT=faults.stop_after_save())
    poll(lambda: len(stopped_ranks(folder / "model")) == 2, job.explain)
    return job, stopped_ranks(folder / "model")


def test_preempted_job_is_queued_again_and_ends_like_an_undisturbed_run(
    cluster: Cluster, tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    folder = tmp_path / "model"
    job, pids = submit_and_stop(cluster, tmp_path, tiny_run)
    cluster.run("scancel", "--signal=USR1", job.number)
    resume(*pids)
    job.start_again()
    left = status(folder)
    assert (left["state"], left["reason"]) == ("preempted", "SIGUSR1"), job.text
    assert "Traceback" not in job.text and "torchrun: Process" in job.text

    job.wait_for("COMPLETED")
    assert job.show("Restarts") == "1"
    assert "ranks  2" in job.text and job.text.count("Resuming from") == 1
    assert "Traceback" not in job.text
    assert_same_run(folder, undisturbed)


def test_job_that_lost_a_process_is_queued_again_and_ends_like_an_undisturbed_run(
    cluster: Cluster, tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    folder = tmp_path / "model"
    job, (killed, other) = submit_and_stop(cluster, tmp_path, tiny_run)
    os.kill(killed, signal.SIGKILL)
    resume(other)
    job.start_again()
    assert status(folder)["state"] == "lost", job.text
    job.wait_for("COMPLETED")
    assert job.show("Restarts") == "1" and job.text.count("Resuming from") == 1
    assert_same_run(folder, undisturbed)


def test_cancelled_job_saves_and_is_not_queued_again(
    cluster: Cluster, tiny_run: list[str], tmp_path: Path
):
    folder = tmp_path / "model"
    job = submit(cluster, tmp_path, [*tiny_run, "--num_epochs", "100000"])
    poll(lambda: bool(list(folder.glob("tmodel_step_*"))), job.explain)
    cluster.run("scancel", job.number)
    job.wait_for("CANCELLED")
    poll(lambda: not ranks_of(folder), job.explain)
    left = status(folder)
    assert left["state"] == "preempted" and (folder / left["checkpoint"]).exists()
    assert job.show("Restarts") == "0" and "Traceback" not in job.text


def test_job_that_lost_a_node_is_queued_again_and_ends_like_an_undisturbed_run(
    cluster: Cluster, tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    folder = tmp_path / "model"
    job, pids = submit_and_stop(cluster, tmp_path, tiny_run)
    cluster.kill("n2")
    # What Slurm does itself when the node has not replied for SlurmdTimeout.
    cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=lost")
    resume(*[pid for pid in pids if Path(f"/proc/{pid}").exists()])
    job.wait_for("PENDING")
    cluster.start_node(1)
    cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    job.start_again()
    job.wait_for("COMPLETED")
    assert job.text.count("Resuming from") == 1
    assert_same_run(folder, undisturbed)


def test_srun_alone_starts_the_ranks(
    cluster: Cluster, tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    output = cluster.run("srun", "--nodes=2", "python", "train.py", *tiny_run)
    assert "ranks  2" in output and output.count("Finished at epoch 2") == 1, output
    assert_same_run(tmp_path / "model", undisturbed)
