"""`--preload best` selects the best epoch of the run."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.faults import Run
from tests.helpers.runs import checkpoints, last_state, validations
from tests.helpers.states import make_state
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.logbook import JsonlSink
from translate_ddp.training.metrics import find_metric
from translate_ddp.training.run import choose_best, find_preload
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


NAN = float("nan")
BLEU_BEST_2 = [1.0, 8.0, 3.0, 2.0]  # of epochs 1 to 4


@pytest.mark.parametrize(
    ("losses", "held", "best"),
    [
        ([5.0, 4.0, 3.0, 2.0], [2, 3, 4], 4),
        ([1.0, 4.0, 2.0, 3.0], [2, 3, 4], 3),  # the file of epoch 1 was deleted
        ([1.0, 4.0, 4.0, 4.0], [2, 3, 4], 2),  # the first of equal ones, best by BLEU, too
        ([1.0, NAN, NAN, 7.0], [2, 3, 4], 4),
        ([1.0, 2.0], [3, 4], None),  # metrics.jsonl has lost the others
        ([], [2, 3, 4], None),
    ],
)
def test_another_metric_chooses_the_best_epoch_that_has_a_file(
    tmp_path: Path, losses: Sequence[float], held: Sequence[int], best: int | None
):
    store, bleu = (
        CheckpointStore(CheckpointConfig(str(tmp_path))),
        find_metric("bleu", [LanguagePair("en", "it")]),
    )
    log, state = JsonlSink(tmp_path, None, print), make_state(position=Position())
    for epoch, score in enumerate(BLEU_BEST_2, start=1):
        state.position.global_step = 10 * epoch
        state.position = state.position.after_epoch(score, bleu)
        log.log(10 * epoch - 5, {"validation/loss": 0.1})  # within the epoch
        if epoch <= len(losses):
            log.log(10 * epoch, {"validation/loss": losses[epoch - 1]})
        if epoch in held:
            store.save(state, epoch=epoch)
    log.close(1.0, failed=False)
    assert choose_best(state.position, bleu, store, World()) == (state.position, [])
    loss = find_metric("loss", [LanguagePair("en", "it")])
    position, (message,) = choose_best(state.position, loss, store, World())
    assert f"metrics.jsonl: {best or 'none yet'}. The file of epoch 2, the best by BLEU" in message
    if best:
        assert (position.best_epoch, position.best_score) == (best, losses[best - 1])
    ended = position.after_epoch(99.0, loss)
    assert ended.best_epoch == (best or 5) and ended.kept_epochs == [2]


@pytest.mark.slow
def test_no_best_epoch_is_lost_when_the_metric_changes_and_changes_back(run: Run):
    flags = ["--lr", "0.02", "--keep_last", "1", "--save_every", "0"]

    def epochs() -> set[int]:
        return {int(name.split("_")[2]) for name in checkpoints(run.folder) if "epoch" in name}

    last, chosen = 0, []
    for size, metric in ((1, "BLEU"), (2, "loss"), (1, "BLEU")):
        held, last = epochs(), last + 3
        more = ["--best_metric", metric, "--num_epochs", str(last)]
        output = run.start(*flags, *more, size=size).succeed()
        known = sorted(held | {last - 2, last - 1, last})
        scores = {epoch: validations(run.folder, metric)[epoch - 1] for epoch in known}
        best = (min if metric == "loss" else max)(known, key=scores.__getitem__)
        position = last_state(run.folder)["position"]
        assert (position["best_metric"], position["best_epoch"]) == (metric, best)
        assert f"Best finished epoch: {best}, {metric}" in output
        chosen.append(best)
        assert epochs() >= {*chosen, last}  # the best ones by each metric, and the newest
    assert "The file of epoch" in output and "best by loss, is kept." in output


def test_a_finished_run_has_the_best_epoch_of_its_checkpoint(finished: Run):
    best = last_state(finished.folder)["position"]["best_epoch"]
    output = finished.start("--best_metric", "loss").succeed()
    assert f"Best finished epoch: {best}, BLEU" in output
