"""`--preload best` selects the best epoch of the run."""

from pathlib import Path

import pytest

from tests.helpers.faults import Run
from tests.helpers.states import make_state
from translate_ddp.errors import UserError
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.run import find_preload
from translate_ddp.training.state import Position


def test_best_selects_the_best_epoch_of_the_newest_checkpoint(tmp_path: Path):
    store = CheckpointStore(CheckpointConfig(str(tmp_path)))
    for epoch, best_epoch in ((1, 1), (2, 2), (3, 2)):
        state = make_state(10 * epoch, position=Position(epoch, 0, 10 * epoch, best_epoch))
        store.save(state, epoch=epoch)
    found = store.find("best", World())
    assert found.checkpoint.epoch == 2
    found.path.unlink()
    with pytest.raises(UserError, match=r"No checkpoint of epoch 2: .* holds epochs 1, 3\."):
        store.find("best", World())


def test_best_reports_a_damaged_newest_checkpoint(tmp_path: Path):
    store = CheckpointStore(CheckpointConfig(str(tmp_path)))
    for epoch in (1, 2):
        state = make_state(10 * epoch, position=Position(epoch, 0, 10 * epoch, epoch))
        path = store.save(state, epoch=epoch)
    path.write_bytes(path.read_bytes()[:-1])
    start = find_preload(store, "best", World())
    assert start.state is not None and start.state.position.best_epoch == 1
    skipped, resuming = start.messages
    assert skipped.startswith(f"Skipped {path}: ")
    assert resuming.startswith("Resuming from ") and "tmodel_epoch_0001_" in resuming


def test_best_needs_a_finished_epoch(tmp_path: Path):
    store = CheckpointStore(CheckpointConfig(str(tmp_path)))
    with pytest.raises(UserError, match=r"holds no checkpoint named tmodel_\*\. Train first"):
        find_preload(store, "best", World())
    store.save(make_state(4, position=Position(0, 4, 4)))
    with pytest.raises(UserError, match=r"No epoch has ended yet: .* holds steps 4\."):
        store.find("best", World())


def test_the_metric_of_the_best_epoch_stays_the_same(finished: Run):
    error = finished.start("--best_metric", "loss").fail()
    assert "best_metric: auto in the checkpoint, loss now" in error
