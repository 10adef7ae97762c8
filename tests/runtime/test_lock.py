"""The lock of a model folder, on local disks, on shared disks and on disks without locks."""

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from tests.helpers.states import make_state
from translate_ddp.errors import UserError
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime import run_folder
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.runtime.world import World
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.saving import RunSaver


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock: it shows the sum, and sleeping adds to it."""
    passed: list[float] = [0.0]
    monkeypatch.setattr(run_folder.time, "sleep", passed.append)
    monkeypatch.setattr(run_folder.time, "monotonic", lambda: sum(passed))
    return passed


def replace_flock(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_token_is_in_a_closed_and_synced_file_when_the_lock_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Over NFS, another node sees what was written to a file once it is closed.
    calls: list[str] = []
    sync, rename = os.fsync, Path.rename

    def record_sync(descriptor: int) -> None:
        calls.append("fsync")
        sync(descriptor)

    def record_rename(path: Path, target: Path) -> Path:
        open_files = {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}
        calls.append(f"rename, open: {str(path) in open_files}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "rename", record_rename)
    assert RunFolder(str(tmp_path), "mine").lock(rank=8) == 8
    assert calls == ["fsync", "rename, open: False"]
    assert json.loads((tmp_path / ".holder").read_text())["token"] == "mine"
    assert (tmp_path / ".lock").read_bytes() == b""


def test_second_node_of_a_start_finds_the_lock_held_by_its_own_run(tmp_path: Path):
    first, second = (RunFolder(str(tmp_path), "mine") for _ in range(2))
    assert first.lock(rank=8) == 8
    assert second.lock(rank=16) == 8
    assert first.is_mine() and second.is_mine()


@pytest.mark.parametrize(
    ("kernel", "limit"), [(run_folder.kernel_id(), 30), ("of another machine", 120), (None, 120)]
)
def test_lock_of_a_dead_machine_is_waited_for_longer_than_that_of_a_dead_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: list[float],
    kernel: str | None,
    limit: int,
):
    holder = {"token": "other", "pid": 7, "host": "there", "kernel": kernel}
    (tmp_path / ".holder").write_text(json.dumps(holder))
    replace_flock(monkeypatch, errno.EWOULDBLOCK)
    with pytest.raises(UserError, match="is in use by process 7 on there: wait until it ends"):
        RunFolder(str(tmp_path), "mine").lock(rank=0)
    assert limit < sum(seconds) < limit + 1


def test_lock_that_is_released_while_it_is_waited_for_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: list[float]
):
    (tmp_path / ".holder").write_text(json.dumps({"token": "other", "kernel": "elsewhere"}))

    def flock(*_: object) -> None:
        if sum(seconds) < 95:  # the lease of an NFSv4 server
            raise BlockingIOError(errno.EWOULDBLOCK, "")

    monkeypatch.setattr(fcntl, "flock", flock)
    folder = RunFolder(str(tmp_path), "mine")
    assert folder.lock(rank=0) == 0 and folder.is_mine()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_disk_without_locks_is_used_with_one_warning_and_the_newest_token_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
):
    replace_flock(monkeypatch, number)
    first, again, other = (RunFolder(str(tmp_path), token) for token in ("one", "one", "two"))
    assert first.lock(rank=0) == 0
    assert again.lock(rank=1) == 0  # another node of the same start
    (warning,) = capsys.readouterr().out.splitlines()
    assert warning.startswith(f"warning: The disk of {tmp_path} has no locks")
    assert other.lock(rank=2) == 2
    assert other.is_mine() and not first.is_mine()


def test_error_of_a_lock_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    replace_flock(monkeypatch, errno.EIO)
    with pytest.raises(UserError, match="cannot be written: Input/output error"):
        RunFolder(str(tmp_path), "mine").lock(rank=0)


def test_run_that_is_replaced_while_it_saves_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    replace_flock(monkeypatch, errno.ENOLCK)
    mine, other = (RunFolder(str(tmp_path), token) for token in ("mine", "other"))
    mine.lock(rank=0)
    saver = RunSaver(CheckpointStore(CheckpointConfig(str(tmp_path))), mine, World(), print)

    def state_while_another_run_starts():
        other.lock(rank=0)
        return make_state(7)

    with pytest.raises(UserError, match="Another run has taken over .*: nothing was saved"):
        saver.save(state_while_another_run_starts, 1, None, is_last=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".holder", ".lock"]


def test_partial_files_of_killed_processes_are_deleted_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", die)
    monkeypatch.setattr(Path, "unlink", die)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "config.yaml", "partial")
    monkeypatch.undo()
    (partial,) = tmp_path.iterdir()
    kept = tmp_path / ".notes.0123"
    kept.touch()
    RunFolder(str(tmp_path), "mine").lock(rank=0)
    assert not partial.exists() and kept.exists()
