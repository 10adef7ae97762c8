"""A signal to one rank, or --max_minutes, stops all ranks with a checkpoint."""

import random
import shutil
import signal
import time
from contextlib import suppress

import pytest

from tests import faults
from tests.helpers.faults import MANY_EPOCHS, Run
from tests.helpers.options import slow
from tests.helpers.runs import last_state

STOPS = [
    # point and rank             ranks
    (faults.request("term", "batch", time=7, rank=1), 2),
    *slow(
        (faults.request("term", "writing", time=150), 1),
        (faults.request("hup", "published"), 1),
        (faults.request("int", "gradients", time=7, rank=1), 2),
        (
            faults.several(
                faults.request("term", "validating", rank=0), faults.sleep(1, "validating", rank=0)
            ),
            2,
        ),
        # Schedulers escalate signals.
        (
            faults.several(
                faults.request("int", "batch", time=7),
                faults.sleep(1.2, "batch", time=7),
                faults.request("term", "batch", time=7),
            ),
            1,
        ),
    ),
]


@pytest.mark.parametrize(("fault", "size"), STOPS)
def test_signal_to_one_rank_saves_and_resume_gives_same_weights(run: Run, fault: str, size: int):
    output = run.start(*MANY_EPOCHS, size=size, fault=fault).succeed()
    position = last_state(run.folder)["position"]
    assert f"step {position['global_step']}, on request (SIG" in output and "and saved" in output
    status = run.status
    assert status["state"] == "preempted" and status["reason"].startswith("SIG")
    assert status["step"] == position["global_step"]
    assert (run.folder / status["checkpoint"]).exists()
    epochs = max(2, position["epoch"] + 1)  # on a slow machine the signal may take an epoch
    run.start("--num_epochs", str(epochs), size=size).succeed()
    run.assert_uninterrupted(size, epochs)


@pytest.mark.slow
def test_rank_that_waits_for_validation_can_stop_it(run: Run, long_validation: list[str]):
    # The signal reaches rank 1, which waits, while rank 0 validates for a minute.
    flags = [*MANY_EPOCHS, *long_validation]
    job = run.start(*flags, size=2, fault=faults.sleep(0.5, "validating", until=1000, rank=0))
    job.signal_when(lambda: 15 in run.saved_steps, signal.SIGTERM, rank=1)
    assert "epoch 1, step 15, on request (SIGTERM), and saved" in job.succeed()


@pytest.mark.slow
def test_signal_before_the_first_step_exits_at_once(run: Run):
    shutil.rmtree(run.folder / "data")
    fault = faults.several(faults.request("int", "preparing"), faults.hang("preparing"))
    job = run.start(size=2, fault=fault)
    assert job.wait() == [0, 0]
    assert job.text().count("Stopped before the first step (SIG") == 1
    assert run.status["state"] == "preempted"


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        faults.several(faults.request("term", "tokenizing", rank=0), faults.hang("tokenizing")),
        faults.request("term", "batch", time=7, rank=1),
    ],
)
def test_exit_code_after_a_request_to_stop_can_be_chosen(run: Run, fault: str):
    shutil.rmtree(run.folder / "data")
    job = run.start(*MANY_EPOCHS, "--preempted_exit_code", "143", size=2, fault=fault)
    assert job.wait() == [143, 143], job.text()
    assert run.status["state"] == "preempted"
    assert "Traceback" not in job.text() and "Stack of" not in job.text()


@pytest.mark.slow
def test_signal_at_random_times_of_the_start_leaves_no_traceback(run: Run):
    generator = random.Random(1)
    begin = time.monotonic()
    run.start(*MANY_EPOCHS, fault=faults.request("term", "batch")).succeed()
    typical_seconds = time.monotonic() - begin  # of this machine, until the first step
    for _ in range(6):
        job = run.start(*MANY_EPOCHS)
        time.sleep(generator.uniform(0.0, 1.0) * typical_seconds)
        job.signal(signal.SIGTERM)
        assert job.wait()[0] in (0, -signal.SIGTERM)
        assert "Traceback" not in job.text()
    assert not list(run.folder.glob(".tmodel*"))


def test_stop_that_exceeds_the_grace_period_reports_the_phase(run: Run):
    grace = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "6.5"}
    job = run.start(
        *MANY_EPOCHS,
        size=2,
        fault=faults.several(
            faults.hang("batch", time=6, rank=1), faults.request("term", "batch", time=6, rank=0)
        ),
        **grace,
    )
    assert job.wait() == [75, 75]
    output = job.text()
    assert output.count("grace period of 1.5 s") == 1 and "exited without saving" in output
    assert "Stack of rank 0" in output and "Stack of rank 1" in output
    assert run.status["state"] == "preempted"
    assert run.saved_steps == [4]


def test_second_ctrl_c_exits_at_once(run: Run):
    job = run.start(*MANY_EPOCHS, fault=faults.hang("batch", time=5))
    job.signal_when(lambda: 4 in run.saved_steps, signal.SIGINT)
    while job.ranks[0].is_alive():
        time.sleep(0.3)  # within a second, it may be the same Ctrl-C
        with suppress(ProcessLookupError):
            job.signal(signal.SIGINT)
    assert job.wait() == [130]
    assert "Traceback" not in job.text()


def test_max_minutes_stops_like_a_signal(run: Run):
    output = run.start(*MANY_EPOCHS, "--max_minutes", "0.03", size=2).succeed()
    assert "on request (--max_minutes reached), and saved" in output
    assert run.status["state"] == "preempted"


@pytest.mark.slow
def test_stop_after_a_failed_save_saves_again(run: Run):
    fault = faults.several(
        faults.full_disk("syncing", time=2),
        faults.request("term", "validating"),
        faults.sleep(1, "validating"),
    )
    output = run.start("--validate_every", "6", fault=fault).succeed()
    assert "step 6, on request (SIGTERM), and saved" in output
    assert run.saved_steps == [4, 6]
