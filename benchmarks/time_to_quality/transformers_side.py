"""Seq2SeqTrainer of `transformers` on a Pegasus of the same shape, as in `benchmarks.training`.

Its learning rate warms up and decays as ours does.
"""

import json
import os
from typing import Any

import torch
import torch.distributed as dist
import transformers  # pyright: ignore[reportMissingImports]

from benchmarks.decoders.pegasus import renamed
from benchmarks.time_to_quality.clock import SnapshotClock, Weights, read_contestant
from benchmarks.trainers.pegasus import build_pegasus
from benchmarks.trainers.task import Task
from benchmarks.trainers.transformers_trainer import arguments, build_collator, read_pairs
from translate_ddp.modeling.transformer import Transformer


def main() -> None:
    flags, task = read_contestant(__doc__)
    torch.set_num_threads(flags.threads)
    torch.manual_seed(0)
    own = {"dropout": task.model.dropout, "use_cache": False}
    model = build_pegasus(task.model, task.vocabulary, task.seq_len, **own)
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
        self.clock = clock
        self.template = Transformer(task.model, task.vocabulary).state_dict()

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any, **others: Any) -> None:
        over = torch.zeros(1, device=args.device)
        if int(os.environ.get("RANK", 0)) == 0:
            plain = getattr(model, "module", model)
            over += self.clock.step(lambda: from_pegasus(plain.state_dict(), self.template))
        if dist.is_initialized():
            dist.all_reduce(over)
        if over:
            control.should_training_stop = True


def from_pegasus(theirs: Weights, template: Weights) -> Weights:
    """Weights of a Pegasus with the names and shapes of `template`, our state dict."""
    found = {}
    for name, tensor in template.items():
        parts = [theirs[their_name] for their_name, _ in renamed({name: tensor})]
        found[name] = torch.cat(parts) if "key_value" in name else parts[0]
    return found


if __name__ == "__main__":
    main()
