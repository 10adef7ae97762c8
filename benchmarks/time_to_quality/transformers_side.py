"""Seq2SeqTrainer of `transformers` on a Pegasus of the same shape, as in `benchmarks.training`.

Its learning rate warms up and decays as ours does.
"""

import json
import os
from typing import Any

import torch
import torch.distributed as dist
import transformers  # pyright: ignore[reportMissingImports]

from benchmarks.time_to_quality.snapshots import SnapshotClock, read_contestant, to_ours
from benchmarks.trainers.pegasus import build_pegasus
from benchmarks.trainers.task import Task
from benchmarks.trainers.transformers_trainer import arguments, build_collator, read_pairs


def main() -> None:
    flags, task = read_contestant(__doc__)
    torch.set_num_threads(flags.threads)
    torch.manual_seed(0)
    model = build_pegasus(task.model, task.vocabulary, task.seq_len, use_cache=False)
    schedule = {
        "learning_rate": flags.learning_rate,
        "lr_scheduler_type": "inverse_sqrt",
        "warmup_steps": flags.warmup_steps,
    }
    trainer = transformers.Seq2SeqTrainer(
        model=model,
        args=arguments(task, flags, **schedule),
        train_dataset=read_pairs(task),
        data_collator=build_collator(task, model),
    )
    clock = SnapshotClock(flags)
    trainer.add_callback(Snapshots(clock, task))
    trainer.train()
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps({"steps": clock.steps}))
    if dist.is_initialized():
        dist.destroy_process_group()


class Snapshots(transformers.TrainerCallback):
    """Rank 0 takes snapshots; all stop at the same step."""

    def __init__(self, clock: SnapshotClock, task: Task) -> None:
        self.clock, self.task = clock, task

    def on_step_end(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Any, state: Any, control: Any, model: Any, **others: Any
    ) -> None:
        over = torch.zeros(1, device=args.device)
        if int(os.environ.get("RANK", 0)) == 0:
            plain = getattr(model, "module", model)
            over += self.clock.step(lambda: to_ours(plain.state_dict(), self.task))
        if dist.is_initialized():
            dist.all_reduce(over)
        if over:
            control.should_training_stop = True


if __name__ == "__main__":
    main()
