"""Launchers: none, torchrun and the variables of srun."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from tests.helpers.commands import TORCHRUN, background, outputs_of
from tests.helpers.processes import SECONDS, children_of, free_port, wait_until
from tests.helpers.runs import assert_same_run, status
from translate_ddp.runtime.fault_injection import VARIABLE

Start = Callable[[list[str], list[str]], Popen[str]]


def test_train_runs_without_a_launcher_from_any_folder(tiny_run: list[str], tmp_path: Path):
    job = background([sys.executable, "train.py", *tiny_run, "--max_steps", "2"])
    assert "ranks  1" in outputs_of([job])[0]


@pytest.fixture
def torchrun(tiny_run: list[str], tmp_path: Path) -> Iterator[Start]:
    """Starts the tiny run under torchrun on two ranks and waits for its first checkpoint."""
    jobs: list[Popen[str]] = []

    def start(options: list[str], flags: list[str]) -> Popen[str]:
        words = [*TORCHRUN, "--nproc_per_node=2", *options, "train.py", *tiny_run, *flags]
        jobs.append(job := background(words))
        is_saved = lambda: list((tmp_path / "model").glob("tmodel_step_*"))  # noqa: E731
        wait_until(lambda: is_saved() or job.poll() is not None)
        assert job.poll() is None
        return job

    yield start
    for job in jobs:
        job.terminate()
        job.communicate()


def test_signal_to_torchrun_saves_and_stops_the_run(torchrun: Start):
    job = torchrun([], ["--num_epochs", "1000"])
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=SECONDS)
    assert ", on request (SIGTERM), and saved" in output


def test_sigterm_of_a_scheduler_soon_after_sigint_still_saves(
    torchrun: Start, monkeypatch: pytest.MonkeyPatch
):
    # torchrun sends the ranks what a second Ctrl-C would cause; but it has no terminal.
    monkeypatch.setenv(VARIABLE, "syncing:2-9@0=sleep:3")
    job = torchrun([], ["--num_epochs", "1000"])
    job.send_signal(signal.SIGINT)
    time.sleep(1.5)
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=SECONDS)
    assert ", on request (SIGINT), and saved" in output


def test_ranks_save_and_exit_when_torchrun_is_killed(torchrun: Start, tmp_path: Path):
    job = torchrun([], ["--num_epochs", "1000"])
    ranks = children_of(job.pid)
    job.kill()
    wait_until(lambda: not any(Path(f"/proc/{rank}").exists() for rank in ranks))
    output, _ = job.communicate(timeout=SECONDS)
    left = status(tmp_path / "model")
    assert left["state"] == "preempted"
    assert left["reason"] == f"torchrun (process {job.pid}) has exited"
    place = f"epoch {left['epoch']}, step {left['step']:,}"
    assert f"Stopped at {place}, on request ({left['reason']}), and saved, after " in output
    assert ". The same command resumes from the last checkpoint.\n" in output
    assert (tmp_path / "model" / left["checkpoint"]).exists()


def test_torchrun_restarts_a_run_that_lost_a_rank(torchrun: Start, tmp_path: Path):
    # A restart resumes from the latest checkpoint, whatever --preload is. And torchrun's store
    # still holds the results of the first start, which must not be read again.
    job = torchrun(["--max-restarts=1"], ["--preload", "", "--num_epochs", "3"])
    os.kill(children_of(job.pid)[-1], signal.SIGKILL)
    output, _ = job.communicate(timeout=SECONDS)
    assert job.returncode == 0, output
    assert output.count("Resuming from") == 1 and output.count("Finished at epoch 3") == 1
    assert not list((tmp_path / "model").glob("earlier-*"))


def test_srun_starts_the_ranks_without_torchrun(tiny_run: list[str], tmp_path: Path):
    variables = {
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_NODEID": "0",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_STEP_NODELIST": "127.0.0.1",
        "MASTER_PORT": str(free_port()),  # by default from the number of the job
    }
    tasks = [
        background(
            [sys.executable, "train.py", *tiny_run, "--max_steps", "2"],
            **variables,
            SLURM_PROCID=str(n),
            SLURM_LOCALID=str(n),
        )
        for n in range(2)
    ]
    outputs = outputs_of(tasks)
    assert "ranks  2" in outputs[0] and outputs[1].strip() == ""


def test_static_launch_on_two_nodes_gives_same_weights_as_one_torchrun(
    tiny_run: list[str], tmp_path: Path
):
    processes = (2, 1)  # nodes need not start equally many
    flags = [*tiny_run, "--num_epochs", "1"]
    # The last bits of a sum depend on the number of threads, by default a share of the node's.
    environment = {"OMP_NUM_THREADS": "1"}
    master = ["--nnodes=2", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    agents = [
        background(
            [
                *(*TORCHRUN, *master, f"--node_rank={node}", f"--nproc_per_node={count}"),
                *("train.py", *flags, "--model_folder", str(tmp_path / "static")),
            ],
            **environment,
        )
        for node, count in enumerate(processes)
    ]
    outputs = outputs_of(agents)
    assert f"ranks  {sum(processes)}, backend gloo" in outputs[0]
    assert "Finished at epoch 1" in outputs[0] and "Finished" not in outputs[1]

    usual = [*TORCHRUN, f"--nproc_per_node={sum(processes)}", "train.py", *flags]
    outputs_of([background([*usual, "--model_folder", str(tmp_path / "usual")], **environment)])
    assert_same_run(tmp_path / "static", tmp_path / "usual")
