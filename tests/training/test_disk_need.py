"""The disk space that the checkpoints of a run take, printed at its start."""

import re
import shutil
from collections import namedtuple
from pathlib import Path

import torch

from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import checkpoints, last_state, tensors

Usage = namedtuple("Usage", "total used free")


def test_size_of_a_checkpoint_is_that_of_its_tensors(run: Run):
    output = run.start("--num_epochs", "1").succeed()
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


def test_enough_space_is_no_warning(finished: Run):
    assert "no space for all" not in finished.start("--num_epochs", "3").succeed()
