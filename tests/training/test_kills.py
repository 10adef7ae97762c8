"""A run killed at any point and started again gives the weights and metrics of one never killed."""

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests import faults
from tests.helpers.faults import MANY_EPOCHS, Run
from tests.helpers.options import slow
from tests.helpers.runs import assert_same_run, last_state, metrics

KILLS = [
    # point and flags         ranks
    (faults.kill("batch", time=7, rank=1), 2),
    (faults.kill("writing", time=150), 1),
    (faults.kill("published", time=2), 1),
    *slow(
        (faults.kill("validating", rank=0), 2),
        (faults.kill("saving"), 1),
        (faults.kill("syncing", time=2), 1),
        (faults.kill("renaming", time=2), 1),
        (faults.kill("pruning"), 1),
        (faults.kill("metrics", time=2), 1),
        (faults.kill("validating", rank=1) + " --validate_on all", 2),
    ),
]


@pytest.mark.parametrize(("fault", "size"), KILLS)
def test_resume_after_kill_gives_same_weights(run: Run, fault: str, size: int):
    fault, *flags = fault.split()
    run.start(*flags, size=size, fault=fault).kill_rest()
    run.start(size=size).succeed()
    run.assert_uninterrupted(size)


FEATURES = [  # each with the point of the kill
    (
        ["--precision", "bf16", "--optimizer", "muon", "--bidirectional"],
        faults.kill("batch", time=8, rank=0),
        2,
    ),
    (["--simcut", "3", "--schedule", "linear", "--perturb"], faults.kill("published", rank=0), 2),
    (["--average", "2"], faults.kill("saving", time=11), 1),  # of the last epoch
    (["--best_metric", "loss", "--lr", "1e-30", "--patience", "1"], faults.kill("validating"), 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "fault", "size"), FEATURES)
def test_run_with_a_feature_resumes_exactly(run: Run, flags: list[str], fault: str, size: int):
    straight = run.copy("straight")
    straight.start(*flags, size=size).succeed()
    run.start(*flags, size=size, fault=fault).kill_rest()
    output = run.start(*flags, size=size).succeed()
    assert "Resuming from" in output and "Changed" not in output
    assert_same_run(straight.folder, run.folder)


@pytest.mark.parametrize("point", ["tokenizing", *slow("preparing")])
def test_restart_after_kill_during_data_preparation_gives_same_weights(run: Run, point: str):
    shutil.rmtree(run.folder / "data")
    run.start(fault=faults.kill(point)).kill_rest()
    run.start().succeed()
    run.assert_uninterrupted()
    assert [path.name[:6] for path in (run.folder / "data").iterdir()] == ["en-it-"]


@pytest.mark.slow
def test_ten_kills_at_random_times_give_same_weights(run: Run):
    started_at = time.monotonic()
    run.start(*MANY_EPOCHS).kill_when(lambda: 8 in run.saved_steps)
    typical_seconds = time.monotonic() - started_at
    generator = random.Random(0)
    for number in range(9):
        before = run.saved_steps[-1]
        job = run.start(*MANY_EPOCHS)
        if number % 2:  # at a time during the start or the first steps
            time.sleep(generator.uniform(0.2, 1.2) * typical_seconds)
            job.kill()
        else:  # after a new checkpoint, however slow the machine is
            job.kill_when(lambda before=before: run.saved_steps[-1] > before)
    epochs = str(last_state(run.folder)["position"]["epoch"] + 1)
    run.start("--num_epochs", epochs).succeed()
    straight = run.copy("straight")
    straight.start("--num_epochs", epochs).succeed()
    assert_same_run(straight.folder, run.folder)


@pytest.mark.slow
@pytest.mark.parametrize("steps", ["8", "15"])  # within an epoch, and at its end
def test_last_validation_is_recorded_after_a_kill_and_after_a_repeated_start(run: Run, steps: str):
    flags = ["--max_steps", steps]
    straight = run.copy("straight")
    straight.start(*flags).succeed()
    run.start(*flags, fault=faults.kill("validating")).kill_rest()
    for _ in range(2):
        run.start(*flags).succeed()
        assert_same_run(straight.folder, run.folder)
    assert any("validation/BLEU" in record for record in metrics(run.folder))


def test_restart_before_the_first_save_uses_the_preload_flag(run: Run, trained: Path):
    (epoch_1,) = trained.glob("tmodel_epoch_0001_*")
    launcher: dict[str, Any] = {"TORCHELASTIC_ERROR_FILE": "/tmp/run/attempt_0/0/error.json"}
    preload = ["--preload", str(epoch_1)]
    run.start(*preload, fault=faults.kill("batch"), **launcher).kill_rest()
    assert not run.saved_steps and (run.folder / ".launch").exists()
    output = run.start(*preload, **launcher).succeed()
    assert f"Resuming from {epoch_1}" in output
