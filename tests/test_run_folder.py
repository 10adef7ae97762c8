"""The folder of a run: one run at a time, and a word on what became of it."""

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from translate_ddp.errors import UserError
from translate_ddp.runtime import run_folder as module
from translate_ddp.runtime.run_folder import RunFolder

CONTEXT = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.3)


def hold(path: str, held: Event) -> None:
    RunFolder(path, "theirs").lock()
    held.set()
    signal.pause()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[BaseProcess]:
    """Another process that has the folder."""
    held = CONTEXT.Event()
    process = CONTEXT.Process(target=hold, args=(str(tmp_path), held), daemon=True)
    process.start()
    assert held.wait(30)
    yield process
    process.kill()
    process.join()


def test_a_second_run_is_refused_and_told_whose_folder_it_is(
    holder: BaseProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(UserError, match=f"in use by process {holder.pid} on ") as refusal:
        RunFolder(str(tmp_path), "mine").lock()
    assert "choose another --model_folder" in str(refusal.value)
    assert "waiting for its end" in capsys.readouterr().out


def test_a_lock_does_not_outlive_its_process(holder: BaseProcess, tmp_path: Path):
    holder.kill()
    holder.join()
    mine = RunFolder(str(tmp_path), "mine")
    mine.lock()
    assert mine.is_mine()


def test_the_ranks_of_one_start_share_the_folder(holder: BaseProcess, tmp_path: Path):
    # Another node on a shared disk: the lock is in the hands of its own run.
    same = RunFolder(str(tmp_path), "theirs")
    same.lock()
    assert same.is_mine()


def test_who_lost_the_folder_writes_no_status(tmp_path: Path):
    # Network disks may not share locks between nodes; what the lock file says, they do.
    first = RunFolder(str(tmp_path), "first")
    first.lock()
    first.write_status("running")
    (tmp_path / ".lock").write_text(json.dumps({"token": "second"}))
    assert not first.is_mine()
    first.write_status("failed", "too late")
    assert json.loads((tmp_path / "STATUS.json").read_text())["state"] == "running"


def test_a_status_is_whole_and_plain(tmp_path: Path):
    mine = RunFolder(str(tmp_path), "mine")
    mine.lock()
    mine.write_status("preempted", "SIGUSR1", epoch=1, step=20, checkpoint="tmodel.pt")
    status = json.loads((tmp_path / "STATUS.json").read_text())
    assert status.pop("time").endswith("+00:00") and status.pop("pid") == os.getpid()
    assert status == {
        "state": "preempted",
        "reason": "SIGUSR1",
        "epoch": 1,
        "step": 20,
        "checkpoint": "tmodel.pt",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "STATUS.json"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write to .*file/model: Not a directory"):
        RunFolder(str(tmp_path / "file/model"), "mine").lock()


def test_a_lock_is_never_written_through_a_link(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/.lock").symlink_to(victim)
    with pytest.raises(UserError, match="Cannot write to"):
        RunFolder(str(tmp_path / "model"), "mine").lock()
    assert victim.read_text() == "precious"
