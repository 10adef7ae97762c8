"""A rank that dies, hangs, fails or is late ends the run with one message that names it."""

import os
import signal
import time
from typing import Any

import pytest

from tests import faults
from tests.helpers import processes
from tests.helpers.faults import MANY_EPOCHS, Run
from tests.helpers.options import slow

SHORT_TIMEOUT = ["--timeout_minutes", "0.05"]  # 3 s


def assert_failed(run: Run, output: str, message: str, stacks: str) -> None:
    """The run has ended with one error that starts so, and prints the stacks of these ranks."""
    assert output.count("error: ") == 1 and f"error: {message}" in output, output
    assert run.status["state"] == ("failed" if " failed at " in message else "lost")
    assert message in run.status["reason"]
    for rank in "012":
        assert (f"Stack of rank {rank}" in output) == (rank in stacks)


def test_killed_rank_is_named_with_step_and_phase(run: Run):
    job = run.start(*MANY_EPOCHS, size=3, fault=faults.kill("batch", time=5, rank=1))
    assert sorted(job.wait()) == [-signal.SIGKILL, 75, 75]
    message = "Rank 1 is lost at step 5, computing gradients. Run the same command"
    assert_failed(run, job.text(), message, stacks="02")
    assert job.text().count("in compute_gradients") == 2  # not where the ranks handle the error
    assert "Traceback" not in job.text()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (faults.hang("batch", time=6, rank=1), "Rank 1 hung at step 6, reading a batch"),
        *slow(
            (faults.stop("batch", time=6, rank=1), "Rank 1 is lost at step 6, computing gradients"),
            (faults.hang("validating", rank=0), "Rank 0 hung at step 15, validating"),
        ),
    ],
)
def test_hanging_rank_ends_the_run_and_is_named(run: Run, fault: str, message: str):
    job = run.start(*MANY_EPOCHS, *SHORT_TIMEOUT, size=2, fault=fault)
    is_stopped = '"stop"' in fault
    if is_stopped:
        job.ranks[0].join(processes.SECONDS)
        job.ranks[1].kill()
    assert job.wait() == [75, -signal.SIGKILL if is_stopped else 75]
    message += ": no progress for 3 s"
    assert_failed(run, job.text(), message, stacks="0" if is_stopped else "01")
    assert "Traceback" not in job.text()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (faults.error("batch", time=5, rank=1), "Rank 1 failed at step 5, reading a batch"),
        *slow(
            # while rank 1 waits for it
            (faults.error("validating", rank=0), "Rank 0 failed at step 15, validating"),
        ),
    ],
)
def test_rank_that_raises_ends_the_run_and_is_named(run: Run, fault: str, message: str):
    job = run.start(*MANY_EPOCHS, size=2, fault=fault)
    assert job.wait() == [1, 1]
    message += ": RuntimeError: injected fault"
    assert_failed(run, job.text(), message, stacks="0" if "Rank 1" in message else "1")
    assert job.text().count("Traceback") == 1


@pytest.mark.slow
def test_validation_longer_than_every_timeout_is_no_hang(run: Run, long_validation: list[str]):
    # The timeout without progress is 3 s, the timeout of a collective 6 s. The sixth batch stops
    # the run, after 7 s of validation.
    fault = faults.several(
        faults.sleep(1.4, "validating", until=5, rank=0),
        faults.request("term", "validating", time=6, rank=0),
        faults.sleep(1, "validating", time=6, rank=0),
    )
    flags = [*MANY_EPOCHS, *SHORT_TIMEOUT, *long_validation]
    output = run.start(*flags, size=2, fault=fault).succeed()
    assert "step 15, on request (SIGTERM), and saved" in output


def train_slowly_on_rank_1(flags: list[str]) -> None:
    from translate_ddp.training import run

    check_same_run = run.check_same_run

    def check_late(*arguments: Any) -> None:
        if os.environ["RANK"] == "1":
            time.sleep(3600)
        check_same_run(*arguments)

    run.check_same_run = check_late
    processes.run_train(flags)


@pytest.mark.slow
def test_error_of_all_ranks_is_no_preemption_for_a_late_rank(run: Run):
    # The launcher signals the late rank once the first one has exited: that is no stop request.
    run.start("--max_steps", "4").succeed()
    flags = [*run.flags, "--d_model", "32"]
    job = processes.start(train_slowly_on_rank_1, run.folder, 2, None, flags)
    assert job.wait() == [2, 2]
    assert job.text().count("error: The checkpoint belongs to another run") == 1
    assert run.status["state"] == "finished"  # the state of the run before
