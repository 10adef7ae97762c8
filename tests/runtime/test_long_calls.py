"""Calls that take long: slow work is no hang, and work that stopped is one; abandoned threads."""

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests import faults
from tests.helpers.corpora import corpus_of, numbered_pairs, read_corpus, write_parallel
from tests.helpers.faults import Run
from tests.helpers.states import make_state
from translate_ddp.data.pair_store import BATCH_PAIRS
from translate_ddp.runtime import files
from translate_ddp.runtime.long_calls import PROGRESS, BackgroundThread, try_for
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore, verify_file

SHORT_TIMEOUT = ["--timeout_minutes", "0.05"]  # 3 s


def heartbeats_of(work: Callable[[], object]) -> int:
    before = PROGRESS.heartbeats
    work()
    return PROGRESS.heartbeats - before


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "IO_CHUNK_BYTES", 1000)
    monkeypatch.setattr(files, "SYNC_BYTES", 4000)


def test_file_is_written_with_a_heartbeat_for_each_chunk_and_synced_in_steps(
    tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
):
    written: list[int] = []
    path, sync = tmp_path / "new", files.os.fsync

    def record(descriptor: int) -> None:
        written.append(path.stat().st_size)
        sync(descriptor)

    monkeypatch.setattr(files.os, "fsync", record)
    content = bytes(range(256)) * 40  # 10,240

    def write() -> None:
        with files.SyncedFile(path) as file:
            assert file.write(content) == len(content)
            file.sync()

    assert heartbeats_of(write) == 11
    assert path.read_bytes() == content
    assert written == [4000, 8000, 10_240]
    with pytest.raises(FileExistsError):
        files.SyncedFile(path)


def test_saving_and_verifying_a_checkpoint_send_heartbeats(tmp_path: Path, small_chunks: None):
    store = CheckpointStore(CheckpointConfig(str(tmp_path)))
    state = make_state(1, model={"weights": torch.ones(10_000)})
    assert heartbeats_of(lambda: store.save(state)) > 40
    (checkpoint,) = store.list()
    assert heartbeats_of(lambda: verify_file(checkpoint.path)) == 1  # of 16 MiB
    content = checkpoint.path.read_bytes()
    chunks: list[bytes] = []
    count = heartbeats_of(lambda: chunks.extend(files.read_chunks(checkpoint.path, 1000)))
    assert b"".join(chunks) == content and count == math.ceil(len(content) / 1000)


def test_reading_and_cleaning_pairs_sends_heartbeats(tmp_path: Path):
    prefix = write_parallel(tmp_path / "train", numbered_pairs(25_000))
    assert heartbeats_of(lambda: read_corpus(corpus_of(prefix))) > 3 * 25_000 / BATCH_PAIRS


def test_hang_in_the_preparation_of_the_corpus_ends_the_run(run: Run):
    for path in (run.folder / "data").iterdir():
        path.rename(run.folder / path.name)
    job = run.start(*SHORT_TIMEOUT, size=2, fault=faults.hang("tokenizing", rank=0))
    assert job.wait() == [75, 75]
    message = "error: Rank 0 hung at preparing the corpus: no progress for 3 s"
    assert job.text().count("error: ") == 1 and message in job.text()
    assert run.status["state"] == "lost"


@pytest.mark.slow
def test_save_that_takes_longer_than_the_timeout_is_no_hang(run: Run):
    # A checkpoint of a tiny run has about 400 writes: they take 6 s.
    flags = ["--max_steps", "4", "--validate_every", "0"]
    output = run.start(
        *SHORT_TIMEOUT, *flags, fault=faults.sleep(0.015, "writing", until=1000)
    ).succeed()
    assert "Finished at epoch 1, step 4" in output


@pytest.fixture(params=["a thread", "no thread"])
def can_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a thread, which the limits of the system may not allow."""

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    if request.param == "no thread":
        monkeypatch.setattr(threading.Thread, "start", fail)


def test_calls_run_in_order_and_return_their_results(can_start: None):
    thread = BackgroundThread("test")
    done: list[int] = []
    futures = [thread.submit(lambda n=n: done.append(n) or n * n) for n in range(5)]
    assert thread.result(lambda: list(done), timeout=30) == [0, 1, 2, 3, 4]
    assert [future.result() for future in futures] == [0, 1, 4, 9, 16]


def test_call_that_takes_too_long_raises_a_timeout_error_with_text():
    thread = BackgroundThread("test")
    hung = threading.Event()
    with pytest.raises(TimeoutError, match=r"no result after 0\.05 s"):
        thread.result(hung.wait, timeout=0.05)
    with pytest.raises(TimeoutError, match=r"no result after 0\.05 s"):
        thread.result(lambda: None, timeout=0.05)  # the call before it still runs
    hung.set()
    assert thread.result(lambda: 7, timeout=30) == 7


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_errors_of_calls_reach_the_caller(can_start: None, error: BaseException):
    def fail() -> None:
        raise error

    thread = BackgroundThread("test")
    with pytest.raises(type(error)):
        thread.result(fail, timeout=30)
    assert thread.error is None
    assert thread.result(lambda: 7, timeout=30) == 7
    thread.close(timeout=30)
    assert (try_for(30, fail), try_for(30, lambda: 7)) == (None, 7)


def test_no_call_runs_after_an_error_if_the_thread_stops_after_errors(can_start: None):
    thread = BackgroundThread("test", stop_after_error=True)
    ran: list[str] = []
    failed = thread.submit(lambda: 1 // 0)
    later = thread.submit(lambda: ran.append("later"))
    assert isinstance(later.exception(timeout=30), ZeroDivisionError)
    assert failed.exception() is later.exception() is thread.error
    assert not ran


def test_close_ends_the_thread_and_abandons_a_hung_call():
    def is_running(name: str) -> bool:
        return any(thread.name == name for thread in threading.enumerate())

    idle = BackgroundThread("idle")
    idle.close(timeout=30)
    assert not is_running("idle")
    stuck, hung = BackgroundThread("stuck"), threading.Event()
    stuck.submit(hung.wait)
    stuck.close(timeout=0.05)
    assert is_running("stuck")
    hung.set()
    while is_running("stuck"):
        time.sleep(0.01)
