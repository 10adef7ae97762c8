"""The end of a run whose best metric no longer improves (`--patience`)."""

from collections.abc import Callable

import pytest

from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_run, last_state, records, validations
from translate_ddp.directions import LanguagePair
from translate_ddp.training.metrics import find_metric
from translate_ddp.training.state import Position

# No weight changes at this rate, so every epoch has the loss of the first.
NO_PROGRESS = ["--best_metric", "loss", "--lr", "1e-30"]
FLAGS = [*NO_PROGRESS, "--num_epochs", "9", "--patience", "2"]


@pytest.fixture
def stopped(run: Run, uninterrupted: Callable[..., Run]) -> Run:
    """A run that has ended after its third epoch."""
    run.continue_from(uninterrupted(1, 9, *FLAGS))
    return run


def test_run_ends_after_epochs_without_a_better_score(stopped: Run):
    position = last_state(stopped.folder)["position"]
    assert (position["epoch"], position["best_epoch"]) == (3, 1)
    assert len(set(validations(stopped.folder, "loss"))) == 1
    status = stopped.status
    assert (status["state"], status["epoch"]) == ("finished", 3)
    assert status["reason"] == "no better loss since epoch 1"


def test_finished_run_says_so_and_does_not_train_on(stopped: Run):
    before = records(stopped.folder)
    output = stopped.start(*FLAGS).succeed()
    assert "Finished at epoch 3, step 45 (no better loss since epoch 1), after" in output
    assert "epoch 4/9" not in output
    assert records(stopped.folder) == before
    assert stopped.status["reason"] == "no better loss since epoch 1"


@pytest.mark.slow
def test_higher_patience_resumes_the_run(stopped: Run):
    straight = stopped.copy("straight")
    straight.start(*FLAGS, "--patience", "3").succeed()
    output = stopped.start(*FLAGS, "--patience", "3", "--keep_last", "4").succeed()
    assert "Changed: patience: 2 in the checkpoint, 3 now." in output
    assert "Changed: keep_last: " in output and "Changed: model_folder" not in output
    assert last_state(stopped.folder)["position"]["epoch"] == 4
    assert_same_run(straight.folder, stopped.folder)


@pytest.mark.slow
def test_lower_patience_ends_a_resumed_run_after_its_epoch(run: Run):
    run.start(*NO_PROGRESS, "--num_epochs", "9", "--max_steps", "47").succeed()
    run.start(*FLAGS).succeed()
    position = last_state(run.folder)["position"]
    assert (position["epoch"], position["step_in_epoch"]) == (4, 0)


def test_run_that_reaches_its_last_epoch_has_no_other_reason(run: Run):
    output = run.start(*NO_PROGRESS, "--num_epochs", "2", "--patience", "1").succeed()
    assert "no better" not in output and run.status["reason"] == ""


@pytest.mark.slow
def test_ranks_end_after_the_same_epoch_and_validate_the_average(run: Run):
    output = run.start(*FLAGS, "--patience", "1", "--average", "2", size=2).succeed()
    assert "Finished at epoch 2" in output and "(no better loss since epoch 1)" in output
    assert output.count("average of epochs 1, 2: validation loss ") == 1


def test_better_equal_and_worse_epochs_are_counted_as_by_hand():
    bleu, position, counts = find_metric("bleu", [LanguagePair("en", "it")]), Position(), []
    for score in (1.0, 3.0, 3.0, 2.0, 4.0, 0.0):
        position = position.after_epoch(score, bleu)
        counts.append(position.epochs_since_best)
    assert counts == [0, 0, 1, 2, 0, 1]
    assert (position.epoch, position.best_epoch, position.best_score) == (6, 5, 4.0)
