"""Files replaced as a whole, and the lock and the status of a model folder."""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import faults
from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.nodes import resume, wait_until_stopped
from tests.helpers.options import slow
from tests.helpers.states import make_state
from translate_ddp.errors import UserError
from translate_ddp.runtime import run_folder
from translate_ddp.runtime.files import try_lock, write_atomically
from translate_ddp.runtime.run_folder import RunFolder, RunStatus
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore, CheckpointWriter


def test_content_of_the_status_file(tmp_path: Path):
    mine = RunFolder(str(tmp_path), "mine")
    mine.lock(rank=0)
    details = {"epoch": 1, "step": 20, "checkpoint": "tmodel.pt"}
    mine.write_status("preempted", "SIGUSR1", **details)
    status = json.loads((tmp_path / "STATUS.json").read_text())
    assert status.pop("time").endswith("+00:00") and status.pop("pid") == os.getpid()
    assert status == {"state": "preempted", "reason": "SIGUSR1", **details}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".holder", ".lock", "STATUS.json"]


@pytest.mark.parametrize(
    ("before", "status", "kept"),
    [
        ("finished", "failed", True),
        ("preempted", "failed", True),
        ("failed", "failed", False),
        ("running", "failed", False),  # by a start that was killed
        ("finished", "preempted", False),  # Slurm then queues the job again
    ],
)
def test_error_before_the_training_keeps_the_status_of_an_ended_run(
    tmp_path: Path, before: RunStatus, status: RunStatus, kept: bool
):
    path = tmp_path / "STATUS.json"
    earlier, mine = RunFolder(str(tmp_path), "earlier"), RunFolder(str(tmp_path), "mine")
    earlier.has_begun = True
    earlier.write_status(before, "earlier")
    mine.write_status(status, "mine")
    assert json.loads(path.read_text())["reason"] == ("earlier" if kept else "mine")
    mine.has_begun = True
    mine.write_status("failed", "last")
    assert json.loads(path.read_text())["reason"] == "last"


def test_first_start_that_fails_has_a_status(run: Run):
    output = run.start("--dataset", "absent/corpus").fail()
    assert run.status["state"] == "failed" and run.status["reason"] in output


def test_folder_that_cannot_be_used_is_one_message(tmp_path: Path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "absent")
    for name, problem in (
        ("file/model", "cannot be written: Not a directory"),
        ("link", f"is a symbolic link to {tmp_path}/absent, which does not exist"),
    ):
        with pytest.raises(UserError, match=f"{name} {problem}"):
            RunFolder(str(tmp_path / name), "mine").lock(rank=0)


def test_lock_is_never_written_through_a_symbolic_link(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/.lock").symlink_to(victim)
    with pytest.raises(UserError, match=r"model/\.lock cannot be written"):
        RunFolder(str(tmp_path / "model"), "mine").lock(rank=0)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_file_is_replaced_or_unchanged_if_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "config.yaml"
    path.write_text("old")
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="No space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    for data in ("è\n", b"\x00\xff"):
        write_atomically(path, data)
        assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert list(tmp_path.iterdir()) == [path]


def test_two_containers_with_equal_names_and_ids_may_write_a_file_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, sync = tmp_path / "config.yaml", os.fsync

    def write_within(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        write_atomically(path, "second")  # by the other container
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", write_within)
    write_atomically(path, "first")
    assert path.read_text() == "first" and list(tmp_path.iterdir()) == [path]


def move(folder: Path) -> Path:
    return folder.rename(folder.with_name("moved"))


@pytest.mark.parametrize(
    "lose",
    [
        lambda folder: (folder / ".lock").unlink(),  # a second run could write to it
        *slow(lambda folder: shutil.copytree(move(folder), folder), shutil.rmtree),
    ],
    ids=["only its lock", "copied", "deleted"],
)
def test_a_run_whose_folder_is_gone_saves_everything_and_ends(
    run: Run, tmp_path: Path, lose: Callable[[Path], object]
):
    # After the saves of step 16 and of the first epoch.
    stop = faults.stop("batch", time=19)
    job = processes.train(run.flags, tmp_path, TRANSLATE_DDP_FAULT=stop)
    pid = job.ranks[0].pid
    wait_until_stopped(pid)
    lose(run.folder)
    resume(pid)
    output = job.fail()
    assert output.count(f"error: {run.folder} or its .lock was deleted or moved during") == 1
    assert run.status["state"] == "failed" and "deleted or moved" in run.status["reason"]
    assert "Resuming from " in run.start().succeed()
    run.assert_uninterrupted()


# --- the lock ---


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
def test_disk_without_locks_is_used_and_the_newest_token_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    replace_flock(monkeypatch, number)
    first, again, other = (RunFolder(str(tmp_path), token) for token in ("one", "one", "two"))
    assert first.lock(rank=0) == 0
    assert again.lock(rank=1) == 0  # another node of the same start
    assert other.lock(rank=2) == 2
    assert other.is_mine() and not first.is_mine()


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_lock_is_of_one_process_and_its_mode_is_that_of_the_umask(
    tmp_path: Path, umask: int, mode: int
):
    # A colleague of the same group may resume a run.
    path, before = tmp_path / ".lock", os.umask(umask)
    try:
        descriptor = try_lock(path)
    finally:
        os.umask(before)
    assert descriptor is not None and path.stat().st_mode & 0o777 == mode
    assert try_lock(path) is None
    os.close(descriptor)
    assert (again := try_lock(path)) is not None
    os.close(again)


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
    saver = CheckpointWriter(CheckpointStore(CheckpointConfig(str(tmp_path))), mine, World(), print)

    def state_while_another_run_starts():
        other.lock(rank=0)
        return make_state(7)

    saver.save(state_while_another_run_starts, 1, None)
    with pytest.raises(UserError, match="Another run has taken over .*: nothing was saved"):
        saver.finish()
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
