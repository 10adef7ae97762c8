"""`--preload best` selects the best epoch of the run."""

from pathlib import Path

import pytest

from tests.helpers.faults import Run
from tests.helpers.runs import validations
from tests.helpers.states import make_state
from translate_ddp.errors import UserError
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.distributed import World
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.find_checkpoint import load_state
from translate_ddp.training.state import Position


def test_best_selects_the_best_epoch_of_the_newest_checkpoint(tmp_path: Path):
    store = CheckpointStore(CheckpointConfig(str(tmp_path)))
    for epoch, best_epoch in ((1, 1), (2, 2), (3, 2)):
        state = make_state(10 * epoch, position=Position(epoch, 0, 10 * epoch, best_epoch))
        store.save(state, epoch=epoch)
    found, _ = store.find("best")
    assert found.epoch == 2
    found.path.unlink()
    with pytest.raises(UserError, match=r"No checkpoint of epoch 2: .* holds epochs 1, 3\."):
        store.find("best")


def test_best_reports_a_damaged_newest_checkpoint(tmp_path: Path):
    store = CheckpointStore(CheckpointConfig(str(tmp_path)))
    for epoch in (1, 2):
        state = make_state(10 * epoch, position=Position(epoch, 0, 10 * epoch, epoch))
        path = store.save(state, epoch=epoch)
    path.write_bytes(path.read_bytes()[:-1])
    found, messages = store.find("best")
    assert found.epoch == 1
    resumed, _, printed = load_state(store, "best", World())
    assert resumed is not None and resumed.position.best_epoch == 1
    for lines in (messages, printed[:-1]):
        (line,) = lines
        assert line.startswith(f"Skipped {path}: ")
    assert printed[-1].startswith(f"Resuming from {found.path}")


def test_best_needs_a_finished_epoch(tmp_path: Path):
    store = CheckpointStore(CheckpointConfig(str(tmp_path)))
    with pytest.raises(UserError, match=r"holds no checkpoint named tmodel_\*\. Train first"):
        store.find("best")
    with pytest.raises(UserError, match="No best epoch: .* holds no checkpoint"):
        load_state(store, "best", World())
    store.save(make_state(4, position=Position(0, 4, 4)))
    with pytest.raises(UserError, match=r"No epoch has ended yet: .* holds steps 4\."):
        store.find("best")


def test_run_resumes_from_its_best_epoch(run: Run):
    # The learning rate rises to 3, so that the loss rises after epoch 1.
    flags = ["--lr", "3", "--warmup_steps", "30", "--best_metric", "loss", "--num_epochs", "3"]
    run.start(*flags).succeed()
    best = 1 + min(range(3), key=validations(run.folder, "loss").__getitem__)
    assert best < 3
    (file,) = run.folder.glob(f"tmodel_epoch_000{best}_*")
    output = run.start(*flags, "--preload", "best", "--max_steps", str(15 * best + 1)).succeed()
    assert f"Resuming from {file}" in output and "Moved files" in output
    assert not list(run.folder.glob("tmodel_epoch_0003_*"))
