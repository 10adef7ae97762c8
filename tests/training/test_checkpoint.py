"""Checkpoint files: complete or absent, verified before they are parsed, found by name."""

import errno
import os
import pickle
import random
import re
import resource
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.helpers.runs import assert_same_tree, damage
from tests.helpers.states import make_state
from translate_ddp.errors import NotSaved, UserError
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training import checkpoint
from translate_ddp.training.checkpoint import CheckpointStore, load, select_path
from translate_ddp.training.state import Position


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(CheckpointConfig(str(tmp_path / "model"), keep_last=2))


def names(store: CheckpointStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


def test_saved_state_can_be_loaded(store: CheckpointStore):
    path = store.save(make_state(7))
    assert re.fullmatch(r"tmodel_step_00000007-[0-9a-f]{8}\.pt", path.name)
    state = load(path)
    assert_same_tree(state.to_dict(), make_state(7).to_dict())
    assert names(store) == [path.name]  # no temporary file is left


def test_file_that_may_not_survive_a_power_cut_is_no_checkpoint(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
):
    def fail(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(checkpoint, "sync_folder", fail)
    with pytest.raises(NotSaved, match="Input/output error"):
        store.save(make_state(7))
    assert names(store) == []


def test_latest_is_found_by_step_not_by_time(store: CheckpointStore):
    newest = store.save(make_state(10), epoch=1)
    older = store.save(make_state(9))
    store.save(make_state(10))  # the same step, before its epoch was finished
    os.utime(newest, (0, 0))
    os.utime(older, (2e9, 2e9))
    found = store.find("latest", World())
    assert found.path == newest
    assert found.messages == []


def test_damaged_file_is_passed_over_with_one_message(store: CheckpointStore):
    older, newer = store.save(make_state(1)), store.save(make_state(2))
    newer.write_bytes(newer.read_bytes() + b"\0")
    found = store.find("latest", World())
    assert found.path == older
    (message,) = found.messages
    assert newer.name in message and "damaged" in message
    assert newer.exists()


def test_every_flipped_bit_and_missing_byte_is_found(store: CheckpointStore):
    # torch.load notices hardly any of these bits: the tensors would just be other ones.
    path = store.save(make_state(1))
    intact = path.read_bytes()
    generator = random.Random(0)
    for _ in range(300):
        data = bytearray(intact)
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        path.write_bytes(data)
        assert damage(path) is not None
    for length in [0, 1, len(intact) - 1, *generator.sample(range(len(intact)), 50)]:
        path.write_bytes(intact[:length])
        assert damage(path) is not None
    path.write_bytes(intact)
    assert damage(path) is None


def test_other_files_in_the_folder_are_left_alone(store: CheckpointStore):
    path = store.save(make_state(1))
    strays = ["tmodel_step_00000009.pt", "tmodel_00.pt", "x.pt", "tmodel_step_9-0123abcd.pt", "a b"]
    for name in strays:
        (store.folder / name).write_text("?")
    (store.folder / "tmodel_step_00000008-0123abcd.pt").mkdir()
    os.mkfifo(store.folder / "tmodel_step_00000007-0123abcd.pt")  # opening it would never end
    (store.folder / "tmodel_step_00000006-0123abcd.pt").symlink_to("/etc/passwd")
    (store.folder / "tmodel_step_00000005-0123abcd.pt").symlink_to("nowhere")
    before = names(store)
    found = store.find("latest", World())
    assert found.path == path
    assert len(found.messages) == 4
    assert names(store) == before


def test_save_does_not_write_through_a_link(store: CheckpointStore, tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    store.folder.mkdir()
    (store.folder / ".tmodel.partial").symlink_to(victim)
    path = store.save(make_state(1))
    assert victim.read_text() == "precious"
    assert not path.is_symlink() and damage(path) is None


def test_file_that_unpacks_to_more_than_its_size_is_rejected(store: CheckpointStore):
    intact = store.save(make_state(1, model={"zeros": torch.zeros(1_000_000)}))
    bomb = store.folder / "bomb.pt"
    with (
        zipfile.ZipFile(intact) as source,
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for entry in source.infolist():
            packed.writestr(entry.filename, source.read(entry))
    with pytest.raises(UserError, match="is not a checkpoint .* its data is compressed"):
        load(bomb)


def test_without_an_intact_checkpoint_no_new_run_starts(store: CheckpointStore):
    path = store.save(make_state(1))
    path.write_bytes(b"")
    with pytest.raises(UserError, match="No intact checkpoint is left"):
        store.find("latest", World())


def test_missing_epoch_lists_the_existing_ones(store: CheckpointStore):
    store.save(make_state(5), epoch=1)
    store.save(make_state(9), epoch=2)
    store.save(make_state(12))
    with pytest.raises(UserError, match=r"epoch 3: .* epochs 1, 2 and steps 12"):
        store.find("3", World())
    with pytest.raises(UserError, match=r"No checkpoint at .*gone\.pt: .* epochs 1, 2"):
        store.find("gone.pt", World())


def test_damaged_epoch_is_not_replaced_by_another(store: CheckpointStore):
    store.save(make_state(5), epoch=1)
    store.save(make_state(9), epoch=2).write_bytes(b"")
    with pytest.raises(UserError, match="damaged") as raised:
        store.find("2", World())
    assert "holds epochs 1, 2" in str(raised.value) and "anew" not in str(raised.value)


@pytest.mark.parametrize("best", [2, 3])
def test_newest_and_best_epoch_are_verified_once_each(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, best: int
):
    verified, verify = list[str](), checkpoint.verify_file
    position = Position(epoch=3, global_step=3, best_epoch=best)
    store.save(make_state(2, position=replace(position, global_step=2)), epoch=2)
    store.save(make_state(3, position=position), epoch=3)
    monkeypatch.setattr(
        checkpoint, "verify_file", lambda path: (verified.append(path.name[7:17]), verify(path))
    )
    assert store.find("best", World()).checkpoint.epoch == best
    assert verified == ["epoch_0003", "epoch_0002"][: 4 - best]

    verified.clear()  # the folder of a run is its best epoch, which its caller verifies
    assert [each.epoch for each in select_path(store.folder)] == [best]
    assert verified == ["epoch_0003"]


@pytest.mark.parametrize("basename", ["run_step_2", "my_epoch_1"])
def test_name_of_a_run_may_look_like_a_step_or_an_epoch(tmp_path: Path, basename: str):
    store = CheckpointStore(CheckpointConfig(str(tmp_path), basename))
    path = store.save(make_state(1), epoch=1)
    assert [each.path for each in select_path(tmp_path)] == [path]


def test_full_disk_is_reported_and_loses_nothing(store: CheckpointStore):
    before = store.save(make_state(1))
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, unlimited[1]))
    try:
        with pytest.raises(NotSaved, match="Could not save .* File too large"):
            store.save(make_state(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert names(store) == [before.name]
    assert damage(before) is None


def test_only_named_files_are_pruned(store: CheckpointStore):
    mine = [store.save(make_state(step)).name for step in (1, 2, 3, 4)]
    mine += [store.save(make_state(10 * epoch), epoch=epoch).name for epoch in (1, 2, 3, 4)]
    foreign = store.save(make_state(1, environment={"other": 1})).name
    (store.folder / "notes.txt").touch()
    store.prune(mine, best_epoch=1)
    kept = [mine[2], mine[3], mine[4], mine[6], mine[7]]
    assert names(store) == sorted([*kept, foreign, "notes.txt"])


class Payload:
    """Touches a file as soon as it is unpickled by a loader that trusts it."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch '{self.canary}'",)


def test_checkpoint_cannot_run_code(tmp_path: Path):
    canary = tmp_path / "was-here"
    saved, pickled = tmp_path / "saved.pt", tmp_path / "pickled.pt"
    torch.save({"format": 2, "payload": Payload(canary)}, saved)
    pickled.write_bytes(pickle.dumps(Payload(canary)))
    for path in (saved, pickled):
        for mapped in (False, True):
            expected = f"{path} is not a checkpoint of translate_ddp"
            with pytest.raises(UserError, match=expected) as raised:
                load(path, mapped=mapped)
            assert "weights_only" not in str(raised.value) and "\x1b" not in str(raised.value)
    assert not canary.exists()


def test_a_folder_holds_one_run(store: CheckpointStore):
    path = store.save(make_state(1))
    config = CheckpointConfig(str(store.folder), model_basename="other")
    with pytest.raises(UserError, match=f"{path.name}, a checkpoint of another --model_basename"):
        CheckpointStore(config).archive([])
    assert path.exists()


def test_archives_are_new_folders(store: CheckpointStore):
    for name in ("earlier-002", "earlier-notes"):
        (store.folder / name).mkdir(parents=True)
    path = store.save(make_state(1))
    assert store.archive([]) == str(store.folder / "earlier-003")
    assert (store.folder / "earlier-003" / path.name).exists()
