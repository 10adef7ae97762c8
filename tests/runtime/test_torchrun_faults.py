"""Faults under a real torchrun: the continued run ends like one without faults."""

import signal
from collections.abc import Iterator
from subprocess import Popen

import pytest

from tests.helpers.commands import TORCHRUN, background
from tests.helpers.faults import Run
from tests.helpers.nodes import resume, state_of, wait_until_stopped
from tests.helpers.processes import SECONDS, children_of, wait_until
from translate_ddp.runtime.fault_injection import VARIABLE

HANDLED = "--signals-to-handle=SIGTERM,SIGINT,SIGUSR1,SIGUSR2"


class Torchrun:
    """torchrun with two ranks, which the fault stops (SIGSTOP) in the middle of an epoch."""

    def __init__(self, run: Run, *options: str) -> None:
        words = [*TORCHRUN, "--nproc_per_node=2", *options, "train.py", *run.flags]
        self.process: Popen[str] = background(words, **{VARIABLE: "batch:6=stop"})
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


def test_run_whose_torchrun_was_killed_continues_like_an_uninterrupted_one(
    run: Run, jobs: list[Torchrun]
):
    jobs.append(job := Torchrun(run))
    job.process.kill()
    output = job.resume_ranks()
    reason = f"torchrun (process {job.process.pid}) has exited"
    assert (run.status["state"], run.status["reason"]) == ("preempted", reason), output
    run.start(size=2).succeed()
    run.assert_uninterrupted(2)


@pytest.mark.parametrize(("number", "options"), [(signal.SIGUSR1, []), (signal.SIGUSR2, [HANDLED])])
def test_run_whose_torchrun_received_a_signal_continues_like_an_uninterrupted_one(
    run: Run, jobs: list[Torchrun], number: signal.Signals, options: list[str]
):
    # By default the signal kills torchrun, which is noticed; otherwise torchrun forwards it.
    jobs.append(job := Torchrun(run, *options))
    job.process.send_signal(number)
    output = job.resume_ranks()
    reason = number.name if options else f"torchrun (process {job.process.pid}) has exited"
    assert (run.status["state"], run.status["reason"]) == ("preempted", reason), output
    assert job.process.returncode == (1 if options else -number)
    run.start(size=2).succeed()
    run.assert_uninterrupted(2)


def test_run_that_torchrun_restarted_ends_like_an_uninterrupted_one(run: Run):
    words = [*TORCHRUN, "--nproc_per_node=2", "--max-restarts=1", "train.py", *run.flags]
    job = background(words, **{VARIABLE: "gradients:7@1=kill"})
    output, _ = job.communicate(timeout=SECONDS)
    assert job.returncode == 0 and output.count("Resuming from") == 1, output
    run.assert_uninterrupted(2)
