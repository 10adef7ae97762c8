"""The average of the last epochs: against the plain mean of the files."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import faults
from tests.helpers.commands import translate_ddp
from tests.helpers.faults import Run
from tests.helpers.runs import (
    assert_same_run,
    assert_same_state,
    assert_same_tree,
    checkpoints,
    last_state,
    metrics,
    records,
    validations,
)
from tests.helpers.states import make_state
from translate_ddp.errors import UserError
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore, load
from translate_ddp.training.metrics import METRICS
from translate_ddp.training.open_checkpoint import average_weights, last_epochs
from translate_ddp.translator import Translator

LINES = ["sun moon river", "stone bird fish wolf tree"]


@pytest.fixture
def four_epochs(uninterrupted: Callable[..., Run]) -> Path:
    """The folder of a finished run of four epochs, which no test may change."""
    return uninterrupted(1, 4).folder


@pytest.fixture
def copied(four_epochs: Path, tmp_path: Path) -> Path:
    """A copy of its checkpoints."""
    folder = tmp_path / "copied"
    shutil.copytree(four_epochs, folder, ignore=shutil.ignore_patterns("data", "earlier-*"))
    return folder


def epoch_file(folder: Path, epoch: int) -> Path:
    (path,) = folder.glob(f"tmodel_epoch_{epoch:04d}_*.pt")
    return path


def mean_of(folder: Path, *epochs: int) -> dict[str, Any]:
    """The mean weights of these epochs, read without our code."""
    files = [epoch_file(folder, epoch) for epoch in epochs]
    models = [torch.load(path, weights_only=True)["model"] for path in files]
    return {n: torch.stack([m[n].double() for m in models]).mean(0).float() for n in models[0]}


def assert_average(translator: Translator, folder: Path, *epochs: int) -> None:
    # The sums of the two sides may be in another order, which fp64 hides except in the last bit.
    expected = mean_of(folder, *epochs)
    actual = translator.state.model
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert actual[name].dtype == torch.float32
        torch.testing.assert_close(actual[name], tensor, rtol=1.2e-7, atol=0)
    assert translator.state.position.epoch == epochs[-1]


@pytest.mark.parametrize(
    ("preload", "average", "epochs"),
    [
        ("latest", 3, (2, 3, 4)),
        ("latest", 9, (1, 2, 3, 4)),
        ("3", 2, (2, 3)),
        ("epoch 3", 2, (2, 3)),  # a file
    ],
)
def test_weights_are_the_mean_of_the_epochs_up_to_the_selected_one(
    four_epochs: Path,
    preload: str,
    average: int,
    epochs: tuple[int, ...],
    capsys: pytest.CaptureFixture[str],
):
    if preload == "epoch 3":
        preload = str(epoch_file(four_epochs, 3))
    translator = Translator.open(str(four_epochs), preload, average=average)
    assert_average(translator, four_epochs, *epochs)
    listed = ", ".join(map(str, epochs))
    captured = capsys.readouterr()
    assert captured.err == f"Averaged epochs: {listed}.\n" and not captured.out


def test_missing_and_damaged_epochs_are_left_out_with_a_message(
    copied: Path, capsys: pytest.CaptureFixture[str]
):
    damaged = epoch_file(copied, 3)
    for missing in (1, 2):
        epoch_file(copied, missing).unlink()
    damaged.write_bytes(damaged.read_bytes() + b"\0")
    translator = Translator.open(str(copied), average=4)
    assert_average(translator, copied, 4)
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == f"Not in the average: epochs 1, 2, whose files are not in {copied}."
    assert damaged.name in second and "it is damaged" in second
    assert last == "Fewer than two epochs: nothing is averaged."


def test_files_of_another_run_and_of_other_folders_are_left_out(copied: Path, tmp_path: Path):
    other = epoch_file(copied, 3)
    other.rename(copied / other.name.replace("tmodel", "other"))
    own = epoch_file(copied, 4)
    outside = tmp_path / own.name
    shutil.copy(own, outside)
    names = [f"../{own.name}", str(outside), "tmodel_step_00000015-aaaaaaaa.pt", other.name]
    found, messages = last_epochs(copied, names, 4)
    assert [checkpoint.path for checkpoint in found] == [own]
    assert messages == [f"Not in the average: epochs 3, whose files are not in {copied}."]


def test_run_that_stopped_within_an_epoch_uses_its_finished_epochs(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    finished.start("--num_epochs", "3", "--max_steps", "33").succeed()
    assert "step_00000033" in checkpoints(finished.folder)[0]
    translator = Translator.open(str(finished.folder), average=2)
    assert_average(translator, finished.folder, 1, 2)

    store = CheckpointStore(CheckpointConfig(str(tmp_path / "new")))
    newest = finished.folder / checkpoints(finished.folder)[0]
    state = load(newest)
    state.run.history.clear()
    store.save(state)
    capsys.readouterr()
    translator = Translator.open(str(store.folder), average=2)
    assert_same_tree(translator.state.model, state.model)
    assert "nothing is averaged" in capsys.readouterr().err


@pytest.fixture
def averaging(uninterrupted: Callable[..., Run]) -> Run:
    """A finished run of three epochs, whose last two are averaged."""
    return uninterrupted(1, 3, "--average", "2")


@pytest.mark.slow
def test_setting_of_the_run_holds_for_latest_and_for_epochs(averaging: Run, tmp_path: Path):
    folder = averaging.folder
    best = last_state(folder)["position"]["best_epoch"]
    assert_average(Translator.open(str(folder)), folder, 2, 3)
    assert_average(Translator.open(str(folder), "2"), folder, 1, 2)
    assert_average(Translator.open(str(folder), average=1), folder, 3)
    assert_average(Translator.open(str(folder), "best"), folder, best)
    assert_average(Translator.open(str(folder), str(epoch_file(folder, 2))), folder, 2)
    code, output = translate_ddp(tmp_path, "translate", *LINES, "--model_folder", str(folder))
    expected = Translator.open(str(folder), average=2).translate(LINES)
    assert code == 0 and output.splitlines() == ["Averaged epochs: 2, 3.", *expected]


def averages(folder: Path) -> list[dict[str, Any]]:
    return [record for record in metrics(folder) if "validation_average/BLEU" in record]


@pytest.mark.slow
def test_run_validates_its_average_once_and_its_weights_stay_the_same(
    run: Run, averaging: Run, uninterrupted: Callable[..., Run], tmp_path: Path
):
    assert_same_state(uninterrupted(1, 3).folder, averaging.folder)
    [record] = averages(averaging.folder)
    scores = {n.partition("/")[2]: v for n, v in record.items() if n.startswith("validation_")}
    assert scores.keys() == {metric.name for metric in METRICS}
    assert record["step"] == 45 and record["epoch"] == 3
    assert len(validations(averaging.folder, "loss")) == 3
    # Another code path: the command that averages the files.
    code, text = translate_ddp(tmp_path, "validate", "--model_folder", str(averaging.folder))
    assert code == 0 and f"loss {scores['loss']:.4g} " in text, text
    assert f"loss {validations(averaging.folder, 'loss')[-1]:.4g} " not in text
    [output] = averaging.folder.glob("rank-0-*.txt")
    shown = f"average of epochs 2, 3: validation loss {scores['loss']:.4g} "
    assert shown in output.read_text()

    run.continue_from(averaging)
    again = run.start("--average", "2", "--num_epochs", "3").succeed()
    assert "average of" not in again  # nothing is left to do
    assert records(run.folder) == records(averaging.folder)


STOP = faults.several(
    faults.request("term", "validating", time=3), faults.sleep(1, "validating", time=3)
)


@pytest.mark.slow
def test_average_whose_validation_was_stopped_is_logged_once(
    run: Run, uninterrupted: Callable[..., Run]
):
    flags = ["--average", "2"]
    straight = uninterrupted(1, 2, *flags)
    run.start(*flags, fault=STOP).succeed()
    assert run.status["state"] == "preempted" and not averages(run.folder)
    assert epoch_file(run.folder, 1) and not list(run.folder.glob("tmodel_epoch_0002_*"))
    run.start(*flags).succeed()
    assert len(averages(run.folder)) == 1
    assert_same_run(straight.folder, run.folder)


def test_average_of_one_epoch_is_not_validated(run: Run):
    run.start("--average", "2", "--num_epochs", "1").succeed()
    assert averages(run.folder) == []


def test_epochs_of_the_average_are_not_pruned(tmp_path: Path):
    store = CheckpointStore(CheckpointConfig(str(tmp_path), keep_last=1, average=3))
    for epoch in range(1, 6):
        store.save(make_state(epoch), epoch=epoch)
        store.save(make_state(100 + epoch))
    store.prune([checkpoint.path.name for checkpoint in store.list()], best_epoch=1)
    assert [(c.epoch, c.step) for c in store.list()] == [
        (None, 105),
        (5, 5),
        (4, 4),
        (3, 3),
        (1, 1),
    ]


def test_mean_is_computed_in_double_precision():
    # Summed in fp32, the ones vanish: 1e8 + 1 is 1e8.
    models = [{"w": torch.tensor([value])} for value in (1e8, 1.0, 1.0, -1e8)]
    mean = average_weights(models)["w"]
    assert mean.dtype == torch.float32 and mean.item() == 0.5
    assert [float(model["w"]) for model in models] == [1e8, 1.0, 1.0, -1e8]  # unchanged


def test_weights_of_different_models_are_not_averaged():
    with pytest.raises(UserError, match="not of the same model"):
        average_weights([{"w": torch.zeros(2)}, {"w": torch.zeros(1)}])
