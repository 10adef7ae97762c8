"""Heartbeats of long work: slow work is no hang, and work that stopped is one."""

import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.helpers import processes
from tests.helpers.corpora import corpus_of, numbered_pairs, read_corpus, write_parallel
from tests.helpers.faults import Run
from tests.helpers.states import make_state
from translate_ddp.data.pair_store import BATCH_PAIRS
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime import files, heartbeat
from translate_ddp.runtime.long_calls import Use, heartbeats_to, is_working, library_call
from translate_ddp.runtime.supervisor import open_watchdog
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.checkpoint_file import damage

SHORT_TIMEOUT = ["--timeout_minutes", "0.05"]  # 3 s


def heartbeats_of(work: Callable[[], object]) -> int:
    beats: list[float] = []
    with heartbeats_to(lambda: beats.append(0)):
        work()
    return len(beats)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(files, "SYNC_BYTES", 4000)


def test_heartbeats_reach_the_receivers_of_the_context_only():
    outer: list[int] = []
    with heartbeats_to(lambda: outer.append(1)):
        assert heartbeats_of(heartbeat.heartbeat) == 1
        heartbeat.heartbeat()
    heartbeat.heartbeat()
    assert outer == [1, 1]


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
    assert heartbeats_of(lambda: damage(checkpoint.path)) == 1  # of 16 MiB
    content = checkpoint.path.read_bytes()
    chunks: list[bytes] = []
    count = heartbeats_of(lambda: chunks.extend(files.read_chunks(checkpoint.path, 1000)))
    assert b"".join(chunks) == content and count == math.ceil(len(content) / 1000)


def test_reading_and_cleaning_pairs_sends_heartbeats(tmp_path: Path):
    prefix = write_parallel(tmp_path / "train", numbered_pairs(25_000))
    assert heartbeats_of(lambda: read_corpus(corpus_of(prefix))) > 3 * 25_000 / BATCH_PAIRS


def test_use_of_a_processor_or_a_disk_is_work():
    before = Use(clock=10.0, processor=3.0, disk=500)
    assert is_working(before, Use(11.0, 3.2, 500))
    assert is_working(before, Use(11.0, 3.0, 501))
    assert not is_working(before, Use(11.0, 3.0, 500))
    assert not is_working(before, Use(11.0, 3.01, 500))  # of the watchdog


def work_in_a_library(kind: str, folder: str) -> None:
    heartbeat.SAMPLE_SECONDS = 0.1
    with open_watchdog() as watchdog:
        watchdog.timeout_seconds = 0.8
        watchdog.enter_phase("training a tokenizer")
        until = time.monotonic() + 2
        with library_call():
            while kind == "computes" and time.monotonic() < until:
                pass
            while kind == "reads" and time.monotonic() < until:
                time.sleep(0.02)
                Path(folder, "corpus").read_bytes()
        print("done", flush=True)
        with library_call():
            time.sleep(3600)


@pytest.mark.parametrize("kind", ["computes", "reads"])
def test_library_that_works_is_no_hang_and_one_that_waits_is(tmp_path: Path, kind: str):
    (tmp_path / "corpus").write_bytes(b"text")
    job = processes.start(work_in_a_library, tmp_path, 1, None, kind, str(tmp_path))
    assert job.wait() == [75]
    message = "done\nerror: Rank 0 hung at training a tokenizer: no progress for 0.8 s. "
    assert job.text().startswith(message), job.text()


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("point", ["tokenizing", "preparing"])
def test_hang_in_the_preparation_of_the_corpus_ends_the_run(run: Run, point: str, size: int):
    for path in (run.folder / "data").iterdir():
        path.rename(run.folder / path.name)
    job = run.start(*SHORT_TIMEOUT, size=size, fault=f"{point}@0=hang")
    assert job.wait() == [75] * size
    message = "error: Rank 0 hung at preparing the corpus: no progress for 3 s"
    assert job.text().count("error: ") == 1 and message in job.text()
    assert run.status["state"] == "failed"


def test_save_that_takes_longer_than_the_timeout_is_no_hang(run: Run):
    # A checkpoint of a tiny run has about 400 writes: they take 6 s.
    flags = ["--max_steps", "4", "--validate_every", "0"]
    output = run.start(*SHORT_TIMEOUT, *flags, fault="writing:1-1000=sleep:0.015").succeed()
    assert "Finished at epoch 1, step 4" in output


def test_save_that_waits_forever_is_a_hang(run: Run):
    job = run.start(*SHORT_TIMEOUT, fault="writing:20=hang")
    assert job.wait() == [75]
    message = "error: Rank 0 hung at step 4, saving a checkpoint: no progress for 3 s"
    assert message in job.text()
