"""Launchers: none, torchrun with signals and restarts, and Slurm's srun."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import processes
from tests.helpers.commands import TORCHRUN, background, command


def test_train_runs_without_a_launcher_from_any_folder(tiny_run: list[str], tmp_path: Path):
    done = command(sys.executable, "train.py", *tiny_run, "--max_steps", "2")
    assert done.returncode == 0, done.stderr
    assert "ranks  1" in done.stdout


@pytest.fixture
def torchrun(tiny_run: list[str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the tiny run under torchrun on two ranks and waits for its first checkpoint."""
    jobs: list[subprocess.Popen[str]] = []

    def start(options: list[str], flags: list[str]) -> subprocess.Popen[str]:
        words = [*TORCHRUN, "--nproc_per_node=2", *options, "train.py", *tiny_run, *flags]
        job = background(words)
        jobs.append(job)
        deadline = time.monotonic() + processes.SECONDS
        while not list((tmp_path / "model").glob("tmodel_step_*")):
            assert job.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        return job

    yield start
    for job in jobs:
        job.terminate()
        job.communicate()


def test_signal_to_torchrun_saves_and_stops_the_run(torchrun: Callable[..., subprocess.Popen[str]]):
    job = torchrun([], ["--num_epochs", "1000"])
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=processes.SECONDS)
    assert ", on request (SIGTERM), and saved" in output


def test_ranks_save_and_exit_when_torchrun_is_killed(
    torchrun: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    job = torchrun([], ["--num_epochs", "1000"])
    ranks = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    job.kill()
    deadline = time.monotonic() + processes.SECONDS
    while any(Path(f"/proc/{rank}").exists() for rank in ranks):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    output, _ = job.communicate(timeout=processes.SECONDS)
    status = json.loads((tmp_path / "model/STATUS.json").read_text())
    assert status["state"] == "preempted"
    assert status["reason"] == f"torchrun (process {job.pid}) has exited"
    place = f"epoch {status['epoch']}, step {status['step']:,}"
    assert f"Stopped at {place}, on request ({status['reason']}), and saved, after " in output
    assert ". The same command resumes from the last checkpoint.\n" in output
    assert (tmp_path / "model" / status["checkpoint"]).exists()


def test_torchrun_restarts_a_run_that_lost_a_rank(
    torchrun: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    # A restart resumes from the latest checkpoint, whatever --preload is. And torchrun's store
    # still holds the results of the first start, which must not be read again.
    job = torchrun(["--max-restarts=1"], ["--preload", "", "--num_epochs", "3"])
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    output, _ = job.communicate(timeout=processes.SECONDS)
    assert job.returncode == 0, output
    assert output.count("Resuming from") == 1 and output.count("Finished at epoch 3") == 1
    assert not list((tmp_path / "model").glob("earlier-*"))


def test_srun_starts_the_ranks_without_torchrun(tiny_run: list[str], tmp_path: Path):
    variables = {
        "SLURM_NTASKS": "2",
        "SLURM_NODEID": "0",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_STEP_NODELIST": "127.0.0.1",
        "SLURM_JOB_ID": str(processes.free_port()),
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
    outputs = [task.communicate(timeout=processes.SECONDS)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], outputs
    assert "ranks  2" in outputs[0] and outputs[1].strip() == ""
