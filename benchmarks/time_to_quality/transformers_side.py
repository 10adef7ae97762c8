"""Seq2SeqTrainer of `transformers` on a Pegasus of the same shape, as in `benchmarks.training`.

Its learning rate warms up and decays as ours does.
"""

import json
import os
from typing import Any

import torch
import torch.distributed as dist
import transformers  # pyright: ignore[reportMissingImports]
from torch import Tensor

from benchmarks.time_to_quality.clock import SnapshotClock, read_contestant
from benchmarks.time_to_quality.conversion import Names, check_weights, to_ours
from benchmarks.time_to_quality.scoring import Weights
from benchmarks.trainers.pegasus import build_pegasus
from benchmarks.trainers.task import Task
from benchmarks.trainers.transformers_trainer import arguments, build_collator, read_pairs
from translate_ddp.apps.exporting.huggingface_export import NAMES
from translate_ddp.data.tokenizer import PAD

PEGASUS = Names(NAMES | {"embedding": "model.shared"}, keys="k_proj", values="v_proj")


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
        # The trainer has changed `model`, which now computes in bf16 whatever surrounds it.
        plain = build_pegasus(task.model, task.vocabulary, task.seq_len)
        plain.load_state_dict(model.state_dict())
        check_weights(converted(model, task), task, logits_of(plain))
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
            over += self.clock.step(lambda: converted(model, self.task))
        if dist.is_initialized():
            dist.all_reduce(over)
        if over:
            control.should_training_stop = True


def converted(model: Any, task: Task) -> Weights:
    return to_ours(getattr(model, "module", model).state_dict(), PEGASUS, task)


def logits_of(model: Any) -> Any:
    model.eval()

    def logits(source_BS: Tensor, target_BT: Tensor) -> Tensor:
        mask_BS = (source_BS != PAD).long()
        found = model(input_ids=source_BS, attention_mask=mask_BS, decoder_input_ids=target_BT)
        return found.logits

    return logits


if __name__ == "__main__":
    main()
