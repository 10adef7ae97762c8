"""What is on disk at each save, in which order, and when a save is due."""

import os
import time
from pathlib import Path

import pytest

from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import checkpoints
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore, CheckpointWriter


def train_and_record(flags: list[str], record: str) -> None:
    """Trains, and records what is synced and renamed, in this order."""
    fsync, rename = os.fsync, Path.rename

    def note(*words: str) -> None:
        with open(record, "a") as file:
            file.write(" ".join(words) + "\n")

    def record_fsync(descriptor: int) -> None:
        fsync(descriptor)
        note("synced", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    def record_rename(self: Path, target: Path) -> Path:
        note("renamed", self.name, target.name)
        return rename(self, target)

    os.fsync = record_fsync
    Path.rename = record_rename  # pyright: ignore[reportAttributeAccessIssue]
    processes.run_train(flags)


def test_checkpoint_is_renamed_after_its_content_and_its_metrics_are_synced(
    run: Run, tmp_path: Path
):
    record = tmp_path / "record"
    flags = [*run.flags, "--max_steps", "4"]
    processes.start(train_and_record, tmp_path, 1, None, flags, str(record)).succeed()
    (name,) = checkpoints(run.folder)
    calls = record.read_text().splitlines()
    renamed = calls.index(f"renamed .tmodel.partial {name}")
    assert calls[renamed - 2 : renamed + 2] == [
        "synced metrics.jsonl",
        "synced .tmodel.partial",
        f"renamed .tmodel.partial {name}",
        f"synced {run.folder.name}",
    ]


def test_weights_that_are_not_finite_are_not_saved(run: Run):
    output = run.start(fault="updated:8=nan").fail()
    assert output.count("error: The weights are not finite at step 8: it was not saved.") == 1
    assert run.saved_steps == [4]


def test_save_by_time_is_due_that_many_minutes_after_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    store = CheckpointStore(CheckpointConfig(str(tmp_path)))

    def saver(rank: int) -> CheckpointWriter:
        return CheckpointWriter(
            store, RunFolder(str(tmp_path), "mine"), World(rank=rank, size=2), print
        )

    main, other = saver(0), saver(1)
    now += 15 * 60 - 1
    assert not main.is_due(15.0)
    now += 1
    assert main.is_due(15.0) and not main.is_due(0.0) and not other.is_due(15.0)
