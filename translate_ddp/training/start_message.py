"""The message at the start of a run: model, data, steps, ranks, disk and warnings."""

import math
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translate_ddp.data.mix import Mix
from translate_ddp.modeling.precision import choose_dtype, precision_warning
from translate_ddp.quantities import counted, size
from translate_ddp.run_record import REPORT_FILE, LaunchFacts
from translate_ddp.runtime.world import World
from translate_ddp.training.local_paths import dataset_names
from translate_ddp.training.optimizer import MAX_WARMUP, allocated_size, learning_rate
from translate_ddp.training.resume import Settings
from translate_ddp.training.trainer import Trainer


def describe_run(config: Settings, trainer: Trainer, launch: LaunchFacts) -> list[str]:
    """Lines that describe model, data, steps and ranks. Rank 0 only."""
    world, sampler = trainer.world, trainer.sampler
    train, optimizer, batches = config["train"], config["optimizer"], config["batches"]
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in launch.dropped.items())
    size = f"at most {batches['batch_tokens']:,} tokens"
    if batches["batch_size"]:
        size = f"{batches['batch_size'] * world.size} sentences"
    steps = [len(plan) for plan in sampler.first_plans()]  # of an epoch of each stage
    stages = zip(steps, sampler.mix.stages, strict=True)
    total = sum(count * stage.epochs for count, stage in stages)
    rate = describe_rate(optimizer, total, train["max_steps"])
    epochs = counted(train["num_epochs"], "epoch")
    if train["patience"]:
        epochs = f"at most {epochs} (patience {train['patience']})"
    rows = {
        "preset": launch.preset,
        "model": f"{launch.model}, dropout {config['model']['dropout']:g}",
        "": f"{launch.parameters:,} parameters, layers compute in {launch.precision}",
        "training": f"{epochs}, {optimizer['optimizer']}, {rate}, seed {train['seed']}",
        "steps": f"{size} per step over all ranks, {describe_steps(steps, sampler.mix)}, "
        f"{launch.padding:.1%} padding",
        "corpus": f"{' '.join(dataset_names(config))} {launch.lang_src}-{launch.lang_tgt}: "
        f"{launch.train_pairs:,} training and "
        f"{counted(launch.validation_pairs, 'validation pair')}",
        **describe_mix(sampler.mix, dataset_names(config)),
        "dropped": dropped or "none",
        "vocabulary": f"{launch.vocab_size:,}",
        "ranks": f"{world.size}, backend {world.backend}",
    }
    lines = [f"{name:>12}  {value}" for name, value in rows.items()]
    lines += [f"{'':>12}  {line}" for line in launch.ranks]
    need = DiskNeed.of(trainer)
    lines += [f"{'saves to':>12}  {trainer.saver.store.folder}/: {need}"]
    lines += [f"{'logs to':>12}  {trainer.logbook.status}"]
    if config["logbook"]["report"]:
        path = trainer.saver.store.folder / REPORT_FILE
        lines += [f"{'report':>12}  {path}, from the first validation on"]
    warnings = describe_warnings(train["precision"], trainer.model.dtype, world)
    return lines + warnings + need.warnings()


def describe_rate(optimizer: Mapping[str, Any], steps: int, max_steps: int) -> str:
    """The learning rate of a training that is planned for so many steps: its peak, and the decay.

    `max_steps` may end it before; 0: it does not.
    """
    rate, warmup, schedule = (optimizer[name] for name in ("lr", "warmup_steps", "schedule"))
    peak, top = rate, warmup
    if schedule == "linear":
        warmup = min(warmup, math.ceil(MAX_WARMUP * steps))
        # Where the line that rises from 0 meets the one that falls from `rate`.
        peak, top = (value / (1 + warmup / steps) for value in (rate, warmup))
    last = min(steps, max_steps or steps)
    if last < top:
        more = "raise --max_steps" if last < steps else "lower --batch_tokens"
        return (
            f"learning rate up to {rate * last / warmup:.2g} only, as all {last:,} steps are "
            f"within the {warmup:,} warm-up steps (lower --warmup_steps, or {more})"
        )
    return f"learning rate {rate:g}, peak {peak:.3g} at step {round(top):,}, {schedule} decay"


def describe_rate_change(trainer: Trainer) -> list[str]:
    """A message if changed settings change the learning rate of a resumed run by over a tenth."""
    step, config, mix = trainer.position.global_step, trainer.updater.config, trainer.mix
    if step == 0 or trainer.is_finished():
        return []
    trainer.sampler.set_epoch(trainer.position.epoch)  # for its number of steps

    def rate(ago: int) -> float:
        done = trainer.epochs_done - ago / len(trainer.sampler.plan)
        return learning_rate(step - ago, config, mix.finished_part(done, trainer.config.num_epochs))

    last, now = trainer.updater.optimizer.param_groups[0]["lr"], rate(0)
    if abs(rate(1) - last) < 0.1 * last:
        return []
    return [
        f"The learning rate was {last:.3g} at the last step, and is {now:.3g} at the next one. "
        f"Pass --lr {config.lr * last / now:.3g} to continue at about the old rate, or start a new "
        "run, with a schedule of its own, by --init_from and a lower --lr."
    ]


def describe_steps(counts: Sequence[int], mix: Mix) -> str:
    """The steps per epoch, of each stage."""
    if len(counts) == 1:
        return f"{counted(counts[0], 'step')} per epoch"
    stages = zip(counts, mix.stages, strict=True)
    parts = (f"{count:,} in {counted(stage.epochs, 'epoch')}" for count, stage in stages)
    return f"{', then '.join(parts)} steps per epoch"


def describe_mix(mix: Mix, names: list[str]) -> dict[str, str]:
    """The pairs of each dataset in an epoch of each stage; none if an epoch has all of them."""
    if all(map(mix.draws_all_once, mix.first_epochs)):
        return {}
    stages = []
    for first in mix.first_epochs:
        # The directions of a dataset, if it has two, lie apart.
        counts = np.reshape(mix.counts(first), (-1, len(names))).sum(axis=0)
        stages.append(" + ".join(f"{n:,} of {name}" for n, name in zip(counts, names, strict=True)))
    return {"epoch": f"{', then '.join(stages)} pairs"}


def describe_warnings(precision: Any, dtype: torch.dtype, world: World) -> list[str]:
    found = [precision_warning(precision, world.device), unused_gpus(world)]
    if choose_dtype(precision, world.device) != dtype:
        found.append("Another rank has no bf16, so all of them compute in fp32.")
    return [warning for warning in found if warning]


def unused_gpus(world: World) -> str | None:
    """A warning with the torchrun command, if a single process runs where there are more GPUs."""
    count = torch.cuda.device_count() if world.device.type == "cuda" else 0
    if world.size > 1 or count < 2:
        return None
    command = shlex.join(["torchrun", f"--nproc_per_node={count}", *sys.argv])
    return f"This process uses 1 of {count} GPUs. To use all of them: {command}"


@dataclass(frozen=True)
class DiskNeed:
    """What a run writes beside the prepared corpus."""

    folder: Path
    files: int
    deletes_old: bool
    file_bytes: int
    free_bytes: int  # with what earlier checkpoints of the folder take

    @classmethod
    def of(cls, trainer: Trainer) -> "DiskNeed":
        store, epochs = trainer.saver.store, trainer.config.num_epochs
        size = sum(p.numel() * p.element_size() for p in trainer.model.parameters())
        files = store.count_files(epochs, len(trainer.position.kept_epochs))
        free = shutil.disk_usage(store.folder).free
        for checkpoint in store.list():
            with suppress(FileNotFoundError):  # a stale listing of a network disk
                free += checkpoint.path.stat().st_size
        size += allocated_size(trainer.updater.optimizer)
        return cls(store.folder, files, store.keep_last > 0, size, free)

    @property
    def total_bytes(self) -> int:
        return self.files * self.file_bytes

    def __str__(self) -> str:
        return (
            f"{'at most' if self.deletes_old else 'at least'} {self.files} checkpoints of "
            f"{size(self.file_bytes)}, {size(self.total_bytes)} of {size(self.free_bytes)} free"
        )

    def warnings(self) -> list[str]:
        if self.total_bytes <= self.free_bytes:
            return []
        return [
            f"The disk of {self.folder} has no space for all checkpoints: {self}. Free some, lower "
            "--keep_last, or choose another --model_folder."
        ]
