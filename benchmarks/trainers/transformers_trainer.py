"""Seq2SeqTrainer of `transformers` on a Pegasus of the same shape, set up as in its documentation.

Batches have about the same number of target tokens and are grouped by the length of the longer
side, which needs half the padding of the default, the source's length. The trainer takes runs of a
quarter of an epoch, at most 50 batches, from long sentences to short ones: the measured window
should contain a whole run.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers  # pyright: ignore[reportMissingImports]
from datasets import Dataset

from benchmarks.clock import Clock
from benchmarks.trainers.pegasus import build_pegasus
from benchmarks.trainers.task import Flags, Task, read_flags
from translate_ddp.data.dataset import load_prepared
from translate_ddp.data.tokenizer import EOS
from translate_ddp.data.tokenizer_models import open_json

IGNORED = -100  # a label that is padding


def main() -> None:
    flags, task = read_flags(__doc__)
    torch.set_num_threads(flags.threads)
    torch.manual_seed(0)
    model = build_pegasus(task.model, task.vocabulary, task.seq_len, use_cache=False)
    clock = Clock(flags.seconds)
    trainer = CountingTrainer(
        model=model,
        args=arguments(task, flags),
        train_dataset=read_pairs(task),
        data_collator=build_collator(task, model),
    )
    trainer.add_callback(Stopwatch(trainer, clock))
    trainer.train()
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps(clock.result()))
    if dist.is_initialized():
        dist.destroy_process_group()


def arguments(task: Task, flags: Flags) -> transformers.Seq2SeqTrainingArguments:
    return transformers.Seq2SeqTrainingArguments(
        output_dir=str(flags.work / "transformers"),
        per_device_train_batch_size=task.sentences // flags.processes,
        train_sampling_strategy="group_by_length",
        remove_unused_columns=False,  # it would remove the lengths before they are used
        max_steps=1_000_000,
        learning_rate=1e-3,
        warmup_steps=500,
        adam_beta2=0.98,
        label_smoothing_factor=task.label_smoothing,
        bf16=flags.precision == "bf16",
        use_cpu=not torch.cuda.is_available(),
        ddp_backend="gloo" if flags.processes > 1 and not torch.cuda.is_available() else None,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def read_pairs(task: Task) -> Dataset:
    pairs = load_prepared(Path(task.prepared)).train
    sources, targets = (
        [[*side[row].tolist(), EOS] for row in range(len(pairs))]
        for side in (pairs.source, pairs.target)
    )
    lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
    return Dataset.from_dict({"input_ids": sources, "labels": targets, "length": lengths})


def build_collator(
    task: Task, model: transformers.PegasusForConditionalGeneration
) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=open_json(load_prepared(Path(task.prepared)).facts.tokenizer.text),
        pad_token="[PAD]",
        unk_token="[UNK]",
        bos_token="[SOS]",
        eos_token="[EOS]",
    )
    collator = transformers.DataCollatorForSeq2Seq(
        tokenizer, model=model, label_pad_token_id=IGNORED
    )

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return collator([{name: row[name] for name in ("input_ids", "labels")} for row in rows])

    return collate


class CountingTrainer(transformers.Seq2SeqTrainer):
    """Keeps the counts of its last batch: target tokens, real tokens, positions."""

    def training_step(self, model: Any, inputs: dict[str, Any], *rest: Any, **named: Any) -> Any:
        target_tokens = int((inputs["labels"] != IGNORED).sum())
        real = target_tokens + int(inputs["attention_mask"].sum())
        self.counts = [target_tokens, real, inputs["labels"].numel() + inputs["input_ids"].numel()]
        return super().training_step(model, inputs, *rest, **named)


class Stopwatch(transformers.TrainerCallback):
    """Sums the counts of each step over all processes; all stop at the same step."""

    def __init__(self, trainer: CountingTrainer, clock: Clock) -> None:
        self.trainer, self.clock = trainer, clock

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        counts = torch.tensor([*self.trainer.counts, self.clock.is_over], device=args.device)
        if dist.is_initialized():
            dist.all_reduce(counts)
        target_tokens, real, positions, over = counts.tolist()
        if over:
            control.should_training_stop = True
        else:
            self.clock.count(target_tokens, real, positions)


if __name__ == "__main__":
    main()
