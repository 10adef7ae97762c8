"""`--preload best` selects the best epoch of the run."""

from pathlib import Path

import pytest

from tests.helpers.faults import Run
from tests.helpers.runs import checkpoints, last_state, validations
from tests.helpers.states import make_state
from translate_ddp.errors import UserError
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.metrics import find_metric
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


def test_the_first_score_of_another_metric_is_the_best_and_no_best_epoch_is_lost():
    bleu, loss = find_metric("bleu", "it"), find_metric("loss", "it")
    position = Position()
    scores = [(bleu, 1.0), (bleu, 8.0), (bleu, 3.0), (loss, 9.0), (loss, 9.5), (loss, float("nan"))]
    for metric, score in scores:
        position = position.after_epoch(score, metric)
    assert (position.best_epoch, position.best_score, position.kept_epochs) == (4, 9.0, [2])
    assert position.epochs_since_best(loss) == 2 and position.epochs_since_best(bleu) == 0
    position = position.after_epoch(0.5, bleu)
    assert (position.best_epoch, position.best_score, position.kept_epochs) == (7, 0.5, [2, 4])


def test_no_best_epoch_is_lost_when_the_metric_changes(run: Run):
    flags = ["--lr", "0.02", "--keep_last", "1", "--save_every", "0"]
    run.start(*flags, "--num_epochs", "3").succeed()
    before = last_state(run.folder)["position"]["best_epoch"]
    flags += ["--best_metric", "loss", "--num_epochs", "6"]
    output = run.start(*flags, size=2).succeed()
    assert f"The file of epoch {before}, the best by BLEU, is kept." in output
    position = last_state(run.folder)["position"]
    losses = validations(run.folder, "loss")
    best = min((4, 5, 6), key=lambda epoch: losses[epoch - 1])
    assert (position["best_metric"], position["best_epoch"]) == ("loss", best)
    assert f"Best finished epoch: {best}, loss" in output
    held = {int(name.split("_")[2]) for name in checkpoints(run.folder) if "epoch" in name}
    assert held >= {before, best, 6}


def test_a_finished_run_has_the_best_epoch_of_its_checkpoint(finished: Run):
    best = last_state(finished.folder)["position"]["best_epoch"]
    output = finished.start("--best_metric", "loss").succeed()
    assert f"Best finished epoch: {best}, BLEU" in output
