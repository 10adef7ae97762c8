"""Checkpoints that a thread writes while the training goes on."""

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests import faults
from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_tree, checkpoints, last_state
from translate_ddp.console import ProgressBar
from translate_ddp.data.batches import Step
from translate_ddp.runtime.peers import Termination
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore, CheckpointWriter, load
from translate_ddp.training.trainer import Trainer


def train_with_a_slow_disk(flags: list[str]) -> None:
    """Trains; a file is written only after step 5, and step 6 begins when it is there."""
    save, train_step, finish_save = CheckpointStore.save, Trainer._train_step, Trainer._finish_save
    may_write = threading.Event()

    def save_late(*arguments: Any, **options: Any) -> Path:
        assert may_write.wait(60), "the training waits for the disk"
        return save(*arguments, **options)

    def step_with_file(self: Trainer, step: Step, progress: ProgressBar) -> None:
        if self.position.global_step == 5 and self.world.is_main:
            may_write.set()
            processes.wait_until(lambda: self.checkpoints.is_written)
        train_step(self, step, progress)

    def note(self: Trainer, **options: Any) -> None:
        finish_save(self, **options)
        print(f"step {self.position.global_step}: saved {self.checkpoints.saved_step}")

    CheckpointStore.save = save_late
    Trainer._train_step, Trainer._finish_save = step_with_file, note
    processes.run_train(flags)


def test_file_written_later_has_the_state_of_its_step_and_all_ranks_learn_of_it_at_one_step(
    run: Run, tmp_path: Path
):
    straight = run.copy("straight")
    straight.start("--max_steps", "4", size=2).succeed()
    flags = [*run.flags, "--max_steps", "8"]
    job = processes.start(train_with_a_slow_disk, tmp_path, 2, None, flags)
    job.succeed()
    # Rank 0 raises the flag in step 6, and the others read it one step later.
    for output in job.outputs:
        text = output.read_text()
        known = [line for line in text.splitlines() if line.startswith("step ")]
        assert "step 7: saved 4" in known and "step 5: saved 4" not in known, text
    late, early = checkpoints(run.folder)[1], last_state(straight.folder)
    assert last_state(run.folder)["run"]["history"] == [late]
    state = load(run.folder / late).to_dict()
    for part in ("model", "optimizer", "position", "meters"):
        assert_same_tree(state[part], early[part])


def test_an_error_soon_after_a_save_does_not_lose_it(run: Run):
    fault = faults.several(faults.sleep(1, "syncing"), faults.error("batch", time=5))
    assert run.start(fault=fault).wait() == [1]
    assert run.saved_steps == [4]


def test_a_stop_whose_grace_period_has_passed_does_not_wait_for_a_save(tmp_path: Path):
    world, config = World(), CheckpointConfig(str(tmp_path))
    writer = CheckpointWriter(CheckpointStore(config), RunFolder(str(tmp_path), ""), world, print)
    writer._pending = Future()  # never written
    ((action, *_),) = world.supervisor._actions
    action(Termination("preempted", "", 75, rank=0))
    writer._pending.set_exception(OSError("waited for"))
    with pytest.raises(OSError, match="waited for"):
        action(Termination("failed", "", 1, rank=0))
