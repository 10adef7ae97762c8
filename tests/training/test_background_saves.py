"""Checkpoints that a thread writes while the training goes on."""

import threading
from pathlib import Path
from typing import Any

from tests import faults
from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_tree, checkpoints, last_state
from translate_ddp.console import Progress
from translate_ddp.data.batches import Step
from translate_ddp.training.checkpoint import CheckpointStore, load
from translate_ddp.training.trainer import Trainer


def train_with_a_slow_disk(flags: list[str]) -> None:
    """Trains; a file is written only after step 5, and step 6 begins when it is there."""
    save, train_step, finish_save = CheckpointStore.save, Trainer._train_step, Trainer._finish_save
    may_write = threading.Event()

    def save_late(*arguments: Any, **options: Any) -> Path:
        assert may_write.wait(60), "the training waits for the disk"
        return save(*arguments, **options)

    def step_with_file(self: Trainer, step: Step, progress: Progress) -> None:
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
