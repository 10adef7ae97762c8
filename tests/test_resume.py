"""What a run resumes from, whether it is the same run, and when it gets a new run id."""

import shutil
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from config import Config
from tests.helpers import processes
from tests.helpers.runs import checkpoints, last_state, metrics
from tests.helpers.states import make_state
from translate_ddp.errors import UserError
from translate_ddp.settings import ModelConfig
from translate_ddp.training.resume import check_same_run, describe_changes, run_identity
from translate_ddp.training.state import Position, RunIdentity, RunState

DATA: Any = SimpleNamespace(fingerprint="data", tokenizer=SimpleNamespace(fingerprint="tokens"))


def identity(world_size: int = 1, **changes: Any) -> RunIdentity:
    """Of a run with the default settings but for `changes`, such as model={"d_model": 8}."""
    settings = Config().to_dict()
    for part, values in changes.items():
        settings[part] = settings[part] | values
    return run_identity(settings, DATA, world_size)


def state_of(saved: RunIdentity, step_in_epoch: int = 0) -> RunState:
    state = make_state(position=Position(1, step_in_epoch, 10))
    return replace(state, run=replace(state.run, identity=saved))


@pytest.mark.parametrize("name", [setting.name for setting in fields(ModelConfig)])
def test_model_settings_may_not_change_except_dropout(name: str):
    saved, now = identity(), identity(model={name: 9})
    if name == "dropout":
        check_same_run(state_of(saved), now)
    else:
        with pytest.raises(UserError, match=f"{name}: .* in the checkpoint, 9 now"):
            check_same_run(state_of(saved), now)


def test_new_model_setting_without_parameters_is_part_of_the_identity():
    old, new = identity(), identity(model={"activation": "gelu"})
    with pytest.raises(UserError, match="activation: unset in the checkpoint, gelu now"):
        check_same_run(state_of(old), new)
    with pytest.raises(UserError, match="activation: gelu in the checkpoint, unset now"):
        check_same_run(state_of(new), old)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"batches": {"batch_tokens": 7}}, "batch_tokens"),
        ({"batches": {"batch_size": 7}}, "batch_size"),
        ({"batches": {"shuffle": 7}}, "shuffle"),  # a setting that does not exist yet
        ({"train": {"seed": 7}}, "seed"),
    ],
)
def test_batches_may_change_between_epochs_only(changes: dict[str, Any], name: str):
    saved, now = identity(), identity(**changes)
    check_same_run(state_of(saved), now)
    with pytest.raises(UserError, match=f"{name}: .* in the checkpoint, 7 now") as raised:
        check_same_run(state_of(saved, step_in_epoch=3), now)
    assert "--preload EPOCH" in str(raised.value)


def test_order_of_the_data_may_change_between_epochs_only():
    now = identity()
    saved = replace(now, within_epoch=now.within_epoch | {"data order": 1})
    check_same_run(state_of(saved), now)
    with pytest.raises(UserError, match="data order: 1 in the checkpoint, 3 now"):
        check_same_run(state_of(saved, step_in_epoch=3), now)


def test_number_of_ranks_and_passes_may_change_within_an_epoch():
    saved = identity(world_size=1)
    now = identity(world_size=8, batches={"max_tokens": 300})
    check_same_run(state_of(saved, step_in_epoch=3), now)
    # But not with --batch_size, which counts sentences per rank.
    saved = identity(world_size=1, batches={"batch_size": 7})
    now = identity(world_size=8, batches={"batch_size": 7})
    with pytest.raises(UserError, match="world_size: 1 in the checkpoint, 8 now"):
        check_same_run(state_of(saved, step_in_epoch=3), now)


@pytest.mark.parametrize("name", ["threads", "torch"])
def test_environment_that_changes_the_last_bits_is_one_message(name: str):
    now = {"world_size": 1, "threads": 2, "max_tokens": 2048, "device": "cpu", "torch": "2.13.0"}
    (message,) = describe_changes(make_state(environment=now | {name: "other"}), {}, now)
    assert "not bit for bit the same results" in message
    assert f"{name}: other in the checkpoint, {now[name]} now" in message
    assert describe_changes(make_state(environment=now), {}, now) == []


def test_changed_settings_and_ranks_are_reported(tiny_run: list[str], tmp_path: Path):
    processes.train([*tiny_run, "--max_steps", "4"], tmp_path).succeed()
    flags = [*tiny_run, "--max_steps", "5", "--lr", "0.001"]
    output = processes.train(flags, tmp_path, 2).succeed()
    assert "Changed: lr: 0.002 in the checkpoint, 0.001 now" in output
    assert "not bit for bit the same results: " in output
    assert "world_size: 1 in the checkpoint, 2 now" in output


def test_another_model_corpus_or_seed_is_rejected(tiny_run: list[str], tmp_path: Path):
    processes.train([*tiny_run, "--max_steps", "4"], tmp_path).succeed()
    before = checkpoints(tmp_path / "model")
    output = processes.train([*tiny_run, "--d_model", "32"], tmp_path, 2).fail()
    assert output.count("belongs to another run") == 1  # printed by rank 0 only
    assert "d_model: 16 in the checkpoint, 32 now" in output
    assert "Traceback" not in output
    output = processes.train([*tiny_run, "--tokenizer", "word"], tmp_path).fail()
    assert "tokenizer: " in output
    output = processes.train([*tiny_run, "--seed", "5"], tmp_path).fail()
    assert "seed: 0 in the checkpoint, 5 now" in output
    assert checkpoints(tmp_path / "model") == before


def test_more_epochs_resume_a_finished_run(tiny_run: list[str], tmp_path: Path):
    folder = tmp_path / "model"
    output = processes.train([*tiny_run, "--num_epochs", "1"], tmp_path).succeed()
    assert f"No checkpoint in {folder}: starting from scratch." in output
    output = processes.train([*tiny_run, "--num_epochs", "2"], tmp_path).succeed()
    (epoch_1,) = folder.glob("tmodel_epoch_0001_*")
    assert f"Resuming from {epoch_1}" in output
    assert "epoch 2/2" in output and "epoch 1/2" not in output
    again = processes.train([*tiny_run, "--num_epochs", "2"], tmp_path).succeed()
    assert "Finished at epoch 2" in again and "epoch 2/2" not in again


def test_preload_is_an_epoch_a_file_or_empty(tiny_run: list[str], tmp_path: Path):
    folder = tmp_path / "model"
    processes.train(tiny_run, tmp_path).succeed()
    (epoch_1,) = folder.glob("tmodel_epoch_0001_*")

    for preload in ("1", str(epoch_1)):
        output = processes.train([*tiny_run, "--preload", preload], tmp_path).succeed()
        assert f"Resuming from {epoch_1}" in output

    output = processes.train([*tiny_run, "--preload", "7"], tmp_path).fail()
    assert "No checkpoint of epoch 7" in output and "epochs 1, 2" in output

    before = checkpoints(folder)
    output = processes.train([*tiny_run, "--preload", ""], tmp_path).succeed()
    assert "Resuming" not in output
    archive = sorted(folder.glob("earlier-*"))[-1]
    assert f"Moved files that are not part of this run to {archive}" in output
    assert {path.name for path in archive.iterdir()} == {*before, "metrics.jsonl"}
    assert len(metrics(folder)) == len(metrics(archive))


def test_resuming_an_earlier_epoch_archives_the_later_ones(tiny_run: list[str], tmp_path: Path):
    # Otherwise the next `latest` would be the last step of the abandoned course.
    folder = tmp_path / "model"
    processes.train(tiny_run, tmp_path).succeed()
    (epoch_1,) = folder.glob("tmodel_epoch_0001_*")
    (epoch_2,) = folder.glob("tmodel_epoch_0002_*")
    stop_early = ["--max_steps", str(int(epoch_1.name.split("_")[4].split("-")[0]) + 1)]
    output = processes.train([*tiny_run, "--preload", "1", *stop_early], tmp_path).succeed()
    archive = folder / "earlier-001"
    assert f"Moved files that are not part of this run to {archive}" in output
    assert (archive / epoch_2.name).exists() and not epoch_2.exists()
    assert epoch_1.exists() and not (archive / epoch_1.name).exists()
    assert len(metrics(archive)) > len(metrics(folder))
    assert last_state(folder)["position"]["epoch"] == 1


def run_id(folder: Path) -> str:
    return last_state(folder)["run"]["run_id"]


def test_run_id_is_kept_after_a_kill_and_for_any_name_of_the_folder(
    tiny_run: list[str], tmp_path: Path
):
    folder = tmp_path / "model"
    job = processes.train([*tiny_run, "--num_epochs", "1"], tmp_path)
    job.kill_when(lambda: list(folder.glob("tmodel_step_00000008-*")))
    first = run_id(folder)
    processes.train([*tiny_run, "--num_epochs", "1"], tmp_path).succeed()
    assert run_id(folder) == first

    (epoch_1,) = folder.glob("tmodel_epoch_0001_*")
    link = tmp_path / "link"
    link.symlink_to(folder)
    one_more_step = ["--max_steps", str(last_state(folder)["position"]["global_step"] + 1)]
    for preload in ("latest", "1", str(epoch_1), str(link / epoch_1.name)):
        flags = [*tiny_run, "--preload", preload, *one_more_step]
        processes.train(flags, tmp_path).succeed()
        assert run_id(folder) == first, preload
        for path in folder.glob("tmodel_step_*"):
            path.unlink()  # epoch 1 is the latest again
    assert not list(folder.glob("earlier-*"))


def test_run_that_goes_back_or_leaves_its_folder_gets_a_new_id(tiny_run: list[str], tmp_path: Path):
    # Trackers cannot rewrite what they hold under an id.
    folder, other = tmp_path / "model", tmp_path / "other"
    flags = [*tiny_run, "--num_epochs", "3"]
    processes.train(flags, tmp_path).succeed()
    (epoch_2,) = folder.glob("tmodel_epoch_0002_*")
    first = run_id(folder)
    shutil.copytree(folder / "data", other / "data")
    elsewhere = [*flags, "--model_folder", str(other)]
    processes.train([*elsewhere, "--preload", str(epoch_2)], tmp_path).succeed()
    assert run_id(other) != first and run_id(folder) == first

    processes.train([*flags, "--preload", "2"], tmp_path, TRANSLATE_DDP_FAULT="batch=kill").wait()
    assert run_id(folder) == first  # killed before it could save its new id
    processes.train(flags, tmp_path).succeed()
    second = run_id(folder)
    assert second not in (first, run_id(other))
    processes.train([*flags, "--num_epochs", "4"], tmp_path).succeed()
    assert run_id(folder) == second
