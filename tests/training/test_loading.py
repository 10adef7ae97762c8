"""Batches prepared in advance by a thread, as for a GPU: equal batches, and no thread left."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.helpers import processes
from tests.helpers.runs import assert_same_run, last_state
from translate_ddp.data import batches
from translate_ddp.data.batches import prefetch


def prefetching_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("prefetch")]


def test_prefetch_thread_ends_with_the_iteration():
    done = prefetch(iter(range(5)), 2)
    assert list(done) == list(range(5)) and not prefetching_threads()
    left = prefetch(iter(range(10**9)), 2)
    assert next(left) == 0 and prefetching_threads()
    left.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not prefetching_threads()


def test_prefetch_raises_errors_of_its_thread():
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    ahead = prefetch(items(), 3)
    assert next(ahead) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)
    assert not prefetching_threads()


def train_with_prefetching(flags: list[str]) -> None:
    batches.PREFETCHED_STEPS["cpu"] = 8
    torch.cuda.set_device = lambda device: None
    processes.run_train(flags)


@pytest.mark.slow
def test_prefetching_run_stops_and_resumes_exactly(tiny_run: list[str], tmp_path: Path):
    plain, prefetching = ([*tiny_run, "--model_folder", str(tmp_path / x)] for x in ("a", "b"))
    processes.train(plain, tmp_path, 2).succeed()
    endless = [*prefetching, "--num_epochs", "9999"]
    job = processes.start(train_with_prefetching, tmp_path, 2, None, endless)
    job.signal_when(lambda: list((tmp_path / "b").glob("tmodel_step*")), signal.SIGTERM, rank=1)
    assert "on request (SIGTERM), and saved" in job.succeed()
    epochs = str(max(2, last_state(tmp_path / "b")["position"]["epoch"] + 1))
    if epochs != "2":  # the signal arrived after more than two epochs
        processes.train([*plain, "--num_epochs", epochs], tmp_path, 2).succeed()
    prefetching += ["--num_epochs", epochs]
    processes.start(train_with_prefetching, tmp_path, 2, None, prefetching).succeed()
    assert_same_run(tmp_path / "a", tmp_path / "b")
