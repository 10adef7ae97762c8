"""Errors of the disk: single ones cost nothing, three in a row end the run with one message."""

import pytest

from tests.helpers.faults import Run
from tests.helpers.runs import checkpoints

SINGLE_FAILURES = ["saving:2=enospc", "writing:150=enospc", "syncing:2=eio", "renaming:2=eio"]
SINGLE_FAILURES += ["saving:2=enospc saving:4=enospc saving:6=enospc"]  # never three in a row
SINGLE_FAILURES += ["published:2=eio", "pruning:1=eio", "metrics:2-3=enospc"]


@pytest.mark.parametrize("fault", SINGLE_FAILURES)
def test_single_disk_failures_change_nothing(run: Run, fault: str):
    output = run.start(fault=fault).succeed()
    if "pruning" not in fault:  # one checkpoint too many is not reported
        assert ("No space left on device" in output) or ("Input/output error" in output)
    run.assert_uninterrupted()


@pytest.mark.parametrize("save", [5, 10, 11])  # of epoch 1, the last step, epoch 2
def test_a_failed_save_leaves_no_epoch_without_its_file(run: Run, save: int):
    run.start(fault=f"saving:{save}=enospc").succeed()
    epochs = {name.split("_step")[0] for name in checkpoints(run.folder) if "epoch" in name}
    assert epochs == {"tmodel_epoch_0001", "tmodel_epoch_0002"}


def test_three_failed_saves_in_a_row_end_the_run_with_the_error_of_the_disk(run: Run):
    output = run.start(size=2, fault="syncing:2-4=enospc").fail()
    assert output.count("error: Could not save a checkpoint") == 1
    assert output.count("No space left on device") == 3 and "Traceback" not in output
    assert run.saved_steps == [4]
    assert run.status["state"] == "failed" and "No space left" in run.status["reason"]
    run.start(size=2).succeed()
    run.assert_uninterrupted(2)


@pytest.mark.parametrize(
    ("error", "message"), [("erofs", "Read-only file system"), ("eacces", "Permission denied")]
)
def test_disk_that_becomes_unwritable_ends_the_run_with_its_error(
    run: Run, error: str, message: str
):
    output = run.start(fault=f"saving:2-4={error}").fail()
    assert output.count(message) == 3 and output.count("error: Could not save a checkpoint") == 1
    run.start().succeed()
    run.assert_uninterrupted()


def test_failed_last_save_is_an_error(run: Run):
    output = run.start("--max_steps", "8", fault="saving:2=enospc").fail()
    assert "error: Could not save a checkpoint" in output and "Finished" not in output
