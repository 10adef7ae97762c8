"""Launchers: none, torchrun, `srun` and two nodes. A run that they disturb ends like any other."""

import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from tests import faults
from tests.helpers.commands import TORCHRUN, background, outputs_of
from tests.helpers.faults import Run
from tests.helpers.nodes import Agent, resume, state_of, two_nodes, wait_until_stopped
from tests.helpers.options import slow
from tests.helpers.processes import SECONDS, children_of, free_port, train, wait_until
from tests.helpers.runs import assert_same_run
from translate_ddp.runtime.fault_injection import VARIABLE


class Torchrun:
    """torchrun with two ranks, which the fault stops (SIGSTOP) in the middle of an epoch."""

    def __init__(self, run: Run, *options: str, fault: str = faults.stop_after_save()) -> None:
        words = [*TORCHRUN, "--nproc_per_node=2", *options, "train.py", *run.flags]
        self.process: Popen[str] = background(words, **{VARIABLE: fault})
        wait_until(lambda: len(self._children()) == 2 or self.process.poll() is not None)
        self.ranks = self._children()
        wait_until_stopped(*self.ranks)

    def _children(self) -> list[int]:
        return children_of(self.process.pid) if self.process.poll() is None else []

    def resume_ranks(self) -> str:
        """Let the ranks continue, wait until all processes have ended, and return the output."""
        resume(*self.ranks)
        output, _ = self.process.communicate(timeout=SECONDS)
        wait_until(lambda: all(state_of(rank) in "Z-" for rank in self.ranks))
        return output

    def end(self) -> None:
        for rank in self.ranks:
            if state_of(rank) not in "Z-":
                resume(rank)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def jobs() -> Iterator[list[Torchrun]]:
    jobs: list[Torchrun] = []
    yield jobs
    for job in jobs:
        job.end()


@pytest.mark.slow
def test_run_whose_torchrun_was_killed_continues_like_an_uninterrupted_one(
    run: Run, jobs: list[Torchrun]
):
    jobs.append(job := Torchrun(run))
    job.process.kill()
    output = job.resume_ranks()
    reason = f"torchrun (process {job.process.pid}) has exited"
    assert (run.status["state"], run.status["reason"]) == ("preempted", reason), output
    place = f"epoch {run.status['epoch']}, step {run.status['step']}"
    assert f"Stopped at {place}, on request ({reason}), and saved, after " in output
    assert ". The same command resumes from the last checkpoint.\n" in output
    run.start(size=2).succeed()
    run.assert_uninterrupted(2)


@pytest.mark.slow
def test_run_whose_torchrun_forwards_a_signal_continues_like_an_uninterrupted_one(
    run: Run, jobs: list[Torchrun]
):
    jobs.append(job := Torchrun(run, "--signals-to-handle=SIGTERM,SIGUSR2"))
    job.process.send_signal(signal.SIGUSR2)  # without the option it kills torchrun
    output = job.resume_ranks()
    assert (run.status["state"], run.status["reason"]) == ("preempted", "SIGUSR2"), output
    assert job.process.returncode == 1
    run.start(size=2).succeed()
    run.assert_uninterrupted(2)


@pytest.mark.parametrize("ranks", [1, *slow(2)])
def test_run_that_torchrun_restarted_ends_like_an_uninterrupted_one(run: Run, ranks: int):
    # A restart resumes from the latest checkpoint, whatever --preload is. And torchrun's store
    # still holds the results of the first start, which must not be read again.
    words = [*TORCHRUN, f"--nproc_per_node={ranks}", "--max-restarts=1", "train.py", *run.flags]
    job = background(
        [*words, "--preload", ""], **{VARIABLE: faults.kill("gradients", time=7, rank=ranks - 1)}
    )
    output, _ = job.communicate(timeout=SECONDS)
    assert job.returncode == 0 and output.count("Resuming from") == 1, output
    assert not list(run.folder.glob("earlier-*"))
    run.assert_uninterrupted(ranks)


@pytest.mark.slow
def test_sigterm_of_a_scheduler_soon_after_sigint_still_saves(run: Run, jobs: list[Torchrun]):
    # torchrun sends the ranks what a second Ctrl-C would cause; but it has no terminal.
    jobs.append(
        job := Torchrun(
            run,
            fault=faults.several(
                faults.stop_after_save(), faults.sleep(3, "syncing", time=2, until=9, rank=0)
            ),
        )
    )
    job.process.send_signal(signal.SIGINT)
    resume(*job.ranks)
    time.sleep(1.5)
    job.process.send_signal(signal.SIGTERM)
    output, _ = job.process.communicate(timeout=SECONDS)
    assert ", on request (SIGINT), and saved" in output


@pytest.mark.slow
def test_train_runs_without_a_launcher_from_any_folder(tiny_run: list[str], tmp_path: Path):
    job = background([sys.executable, "train.py", *tiny_run, "--max_steps", "2"])
    assert "ranks  1" in outputs_of([job])[0]


@pytest.mark.slow
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


@pytest.mark.slow
def test_static_launch_on_two_nodes_gives_same_weights_as_one_node(
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

    usual = [*flags, "--model_folder", str(tmp_path / "usual")]
    train(usual, tmp_path, sum(processes), **environment).succeed()
    assert_same_run(tmp_path / "static", tmp_path / "usual")


def are_stopped(agents: list[Agent]) -> bool:
    return all(state_of(agent.rank()) == "T" for agent in agents)


@pytest.mark.slow
def test_remaining_node_continues_like_one_process_from_the_same_checkpoint(
    tiny_run: list[str], tmp_path: Path
):
    folder, copy = tmp_path / "model", tmp_path / "copy"
    with two_nodes() as nodes:
        agents = nodes.torchrun(
            [tiny_run] * 2,
            tmp_path,
            nnodes="1:2",
            options=["--max-restarts=3"],
            TRANSLATE_DDP_FAULT=faults.stop_after_save(),
        )
        wait_until(lambda: are_stopped(agents), lambda: agents[0].text)
        shutil.copytree(folder, copy)
        agents[1].kill(with_rank=True)
        resume(agents[0].rank())
        assert agents[0].wait() == 0, agents[0].text
        assert "ranks  1" in agents[0].text and agents[0].text.count("Resuming from") == 1

        output = nodes.train([[*tiny_run, "--model_folder", str(copy)]], tmp_path).succeed()
        assert "Resuming from" in output
    assert_same_run(folder, copy)
