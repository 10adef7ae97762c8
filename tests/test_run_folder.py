"""The lock of the model folder, and STATUS.json."""

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
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.3)


def hold(path: str, held: Event) -> None:
    RunFolder(path, "theirs").lock()
    held.set()
    signal.pause()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[BaseProcess]:
    """Another process that holds the lock."""
    held = CONTEXT.Event()
    process = CONTEXT.Process(target=hold, args=(str(tmp_path), held), daemon=True)
    process.start()
    assert held.wait(30)
    yield process
    process.kill()
    process.join()


def test_second_run_gets_an_error_with_the_process_that_holds_the_lock(
    holder: BaseProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(UserError, match=f"in use by process {holder.pid} on ") as raised:
        RunFolder(str(tmp_path), "mine").lock()
    assert "choose another --model_folder" in str(raised.value)
    assert "waiting until it ends" in capsys.readouterr().out


def test_lock_is_released_with_its_process(holder: BaseProcess, tmp_path: Path):
    holder.kill()
    holder.join()
    mine = RunFolder(str(tmp_path), "mine")
    mine.lock()
    assert mine.is_mine()


def test_ranks_of_one_start_share_the_lock(holder: BaseProcess, tmp_path: Path):
    # As another node of the same run, on a shared disk.
    same = RunFolder(str(tmp_path), "theirs")
    same.lock()
    assert same.is_mine()


def test_run_whose_folder_was_taken_over_writes_no_status(tmp_path: Path):
    # Network disks may not share locks between nodes, but they share the content of the lock file.
    first = RunFolder(str(tmp_path), "first")
    first.lock()
    first.write_status("running")
    (tmp_path / ".lock").write_text(json.dumps({"token": "second"}))
    assert not first.is_mine()
    first.write_status("failed", "too late")
    assert json.loads((tmp_path / "STATUS.json").read_text())["state"] == "running"


def test_content_of_the_status_file(tmp_path: Path):
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


def test_folder_that_is_not_writable_is_an_error(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write to .*file/model: Not a directory"):
        RunFolder(str(tmp_path / "file/model"), "mine").lock()


def test_lock_is_never_written_through_a_symbolic_link(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/.lock").symlink_to(victim)
    with pytest.raises(UserError, match="Cannot write to"):
        RunFolder(str(tmp_path / "model"), "mine").lock()
    assert victim.read_text() == "precious"
