"""The disk: its errors, the space that checkpoints take, and what is on it at each save."""

import os
import re
import shutil
import time
from collections import namedtuple
from pathlib import Path

import pytest
import torch

from tests import faults
from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.options import slow
from tests.helpers.runs import checkpoints, last_state, tensors
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig, TrainConfig
from translate_ddp.training.checkpoint import CheckpointStore, CheckpointWriter

SINGLE_FAILURES = [
    faults.full_disk("writing", time=150),
    faults.full_disk("metrics", time=2, until=3),
    *slow(
        faults.disk_error("eio", "renaming", time=2),
        # Never three in a row.
        faults.several(*(faults.full_disk("saving", time=time) for time in (2, 4, 6))),
        faults.disk_error("eio", "published", time=2),
        faults.disk_error("eio", "pruning"),
    ),
]


@pytest.mark.parametrize("fault", SINGLE_FAILURES)
def test_single_disk_failures_change_nothing(run: Run, fault: str):
    output = run.start(fault=fault).succeed()
    if "pruning" not in fault:  # one checkpoint too many is not reported
        assert ("No space left on device" in output) or ("Input/output error" in output)
    run.assert_uninterrupted()


@pytest.mark.slow
@pytest.mark.parametrize("save", [5, 11])  # of epoch 1, epoch 2
def test_a_failed_save_leaves_no_epoch_without_its_file(run: Run, save: int):
    run.start(fault=faults.full_disk("saving", time=save)).succeed()
    epochs = {name.split("_step")[0] for name in checkpoints(run.folder) if "epoch" in name}
    assert epochs == {"tmodel_epoch_0001", "tmodel_epoch_0002"}


@pytest.mark.slow
def test_three_failed_saves_in_a_row_end_the_run_with_the_error_of_the_disk(run: Run):
    output = run.start(size=2, fault=faults.full_disk("syncing", time=2, until=4)).fail()
    assert output.count("error: Could not save a checkpoint") == 1
    assert output.count("No space left on device") == 3 and "Traceback" not in output
    assert run.saved_steps == [4]
    assert run.status["state"] == "failed" and "No space left" in run.status["reason"]
    run.start(size=2).succeed()
    run.assert_uninterrupted(2)


def test_failed_last_save_is_an_error(run: Run):
    output = run.start("--max_steps", "8", fault=faults.full_disk("saving", time=2)).fail()
    assert "error: Could not save a checkpoint" in output and "Finished" not in output


Usage = namedtuple("Usage", "total used free")


def test_size_of_a_checkpoint_is_that_of_its_tensors(run: Run):
    output = run.start("--num_epochs", "1").succeed()
    assert "no space for all" not in output
    (printed,) = re.findall(r"checkpoints of ([\d,]+) kB, ", output)
    state = tensors(last_state(run.folder)).values()
    size = sum(t.numel() * t.element_size() for t in state if isinstance(t, torch.Tensor))
    assert 0.99 < int(printed) * 1e3 / size < 1.01


def train_with_little_space(flags: list[str]) -> None:
    shutil.disk_usage = lambda _: Usage(2_000_000, 1_000_000, 100_000)  # pyright: ignore
    processes.run_train(flags)


def test_missing_space_is_a_warning(run: Run, tmp_path: Path):
    flags = [*run.flags, "--num_epochs", "100", "--max_steps", "1", "--keep_last"]
    for keep_last, files in (("3", "at most 8"), ("0", "at least 100")):
        job = processes.start(train_with_little_space, tmp_path, 1, None, [*flags, keep_last])
        (warning,) = re.findall(r"^The disk of .*", job.succeed(), re.MULTILINE)
        assert f"{run.folder} has no space for all checkpoints: {files} checkpoints of" in warning
        assert "100 kB free" in warning and "--keep_last" in warning
        (run.folder / checkpoints(run.folder)[0]).unlink()


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
    output = run.start(fault=faults.nan("updated", time=8)).fail()
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
    minutes = TrainConfig.save_every_minutes
    assert not main.is_due(minutes)
    now += 1
    assert main.is_due(minutes) and not main.is_due(0.0) and not other.is_due(minutes)
