"""Files replaced as a whole, and the lock and the status of a model folder."""

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import processes
from tests.helpers.faults import Run
from translate_ddp.errors import UserError
from translate_ddp.runtime.fault_injection import VARIABLE
from translate_ddp.runtime.files import explain_write_errors, write_atomically
from translate_ddp.runtime.run_folder import RunFolder, RunStatus


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


def test_mistyped_dataset_leaves_a_finished_run_finished(finished: Run):
    before = finished.status
    finished.start("--dataset", "absent/corpus").fail()
    assert finished.status == before


def test_first_start_that_fails_has_a_status(run: Run):
    output = run.start("--dataset", "absent/corpus").fail()
    assert run.status["state"] == "failed" and run.status["reason"] in output


def test_folder_that_is_not_writable_is_an_error(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file/model cannot be written: Not a directory"):
        RunFolder(str(tmp_path / "file/model"), "mine").lock(rank=0)


def test_lock_is_never_written_through_a_symbolic_link(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/.lock").symlink_to(victim)
    with pytest.raises(UserError, match="cannot be written"):
        RunFolder(str(tmp_path / "model"), "mine").lock(rank=0)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("data", ["perché\n", b"\x00\xff"])
def test_file_is_replaced_and_nothing_else_is_left(tmp_path: Path, data: str | bytes):
    path = tmp_path / "STATUS.json"
    path.write_text("old and longer than the new content")
    write_atomically(path, data)
    assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_file_is_unchanged_if_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "config.yaml"
    path.write_text("old")
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="No space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError("torn\nat byte 4"), "torn"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_message_of_a_failed_write_has_a_reason(error: OSError, reason: str):
    with pytest.raises(UserError) as raised, explain_write_errors("out", "Free some."):
        raise error
    assert str(raised.value) == f"out cannot be written: {reason}. Free some."


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
    ("lose", "size"),
    [
        (shutil.rmtree, 1),
        (shutil.rmtree, 2),
        (move, 1),
        (lambda folder: move(folder).with_name(folder.name).mkdir(), 1),
        (lambda folder: shutil.copytree(move(folder), folder), 1),
        (lambda folder: (folder / ".lock").unlink(), 1),  # a second run could write to it
    ],
    ids=["deleted", "deleted, two ranks", "moved", "made anew", "copied", "only its lock"],
)
def test_a_run_whose_folder_is_gone_saves_everything_and_ends(
    run: Run, tmp_path: Path, lose: Callable[[Path], object], size: int
):
    stop = {VARIABLE: "batch:19@0=stop"}  # after the saves of step 16 and of the first epoch
    job = processes.train(run.flags, tmp_path, size, **stop)
    state = Path(f"/proc/{job.ranks[0].pid}/stat")
    processes.wait_until(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T", job.text)
    lose(run.folder)
    job.signal(signal.SIGCONT)
    output = job.fail()
    assert output.count(f"error: {run.folder} or its .lock was deleted or moved during") == 1
    assert run.status["state"] == "failed" and "deleted or moved" in run.status["reason"]
    assert "Resuming from " in run.start(size=size).succeed()
    run.assert_uninterrupted(size)
