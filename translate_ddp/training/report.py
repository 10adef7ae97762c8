"""The messages at the start and the end of a run, and the configuration for trackers."""

import math
import re
import shlex
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from translate_ddp.data.mix import Mix
from translate_ddp.data.step_sampler import StepSampler
from translate_ddp.modeling.precision import precision_warning
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.quantities import describe_seconds, number
from translate_ddp.run_record import REPORT_FILE, LaunchFacts
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.distributed import World
from translate_ddp.training.disk_need import DiskNeed
from translate_ddp.training.due import has_no_patience
from translate_ddp.training.local_paths import PATHS, dataset_names, without_paths
from translate_ddp.training.resume import Settings
from translate_ddp.training.trainer import Trainer

NO_STEP_LEFT = (
    "This run has finished: raise --num_epochs, --max_steps or --patience to train longer, or pass "
    "--preload '' for a new run."
)
MAX_RANK_LINES = 16  # with more ranks, one line per host
STOPPED_UPLOAD_SECONDS = 5.0  # for trackers: the launcher ends a stopped process soon


def describe_run(config: Settings, trainer: Trainer, launch: LaunchFacts) -> list[str]:
    """Lines that describe model, data, steps and ranks. Rank 0 only."""
    world, sampler = trainer.world, trainer.sampler
    train, optimizer, batches = config["train"], config["optimizer"], config["batches"]
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in launch.dropped.items())
    size = f"at most {batches['batch_tokens']:,} tokens"
    if batches["batch_size"]:
        size = f"{batches['batch_size'] * world.size} sentences"
    epochs = f"{train['num_epochs']} epochs"
    if train["patience"]:
        epochs = f"at most {epochs} (patience {train['patience']})"
    rows = {
        "preset": launch.preset,
        "model": f"{launch.model}, dropout {config['model']['dropout']:g}",
        "": f"{launch.parameters:,} parameters, layers compute in {launch.precision}",
        "training": f"{epochs}, peak learning rate {optimizer['lr']:g} after "
        f"{optimizer['warmup_steps']:,} warm-up steps, seed {train['seed']}",
        "steps": f"{size} per step over all ranks, {describe_steps(sampler)}, "
        f"{launch.padding:.1%} padding",
        "corpus": f"{' '.join(dataset_names(config))} {launch.lang_src}-{launch.lang_tgt}: "
        f"{launch.train_pairs:,} training and {launch.validation_pairs:,} validation pairs",
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
    return lines + describe_warnings(train["precision"], world) + need.warnings()


def describe_sizes(model: Mapping[str, Any]) -> str:
    """The sizes in the settings of a model, in words."""
    return (
        f"{model['num_encoder_layers']} encoder and {model['num_decoder_layers']} decoder "
        f"layers, width {model['d_model']}, feed-forward {model['d_ff']}, "
        f"{model['num_heads']} heads"
    )


def describe_steps(sampler: StepSampler) -> str:
    """The steps per epoch, of each stage."""
    counts = [f"{len(plan):,}" for plan in sampler.first_plans()]
    if len(counts) == 1:
        return f"{counts[0]} steps per epoch"
    stages = zip(counts, sampler.mix.stages, strict=True)
    return (
        f"{', then '.join(f'{n} in {stage.epochs} epochs' for n, stage in stages)} steps per epoch"
    )


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


def describe_rank(world: World) -> str:
    """`host: cuda:0 (NVIDIA H100)` or `host: cpu, 2 thread(s)`."""
    device = f"{world.device}, {torch.get_num_threads()} thread(s)"
    if world.device.type == "cuda":
        device = f"{world.device} ({torch.cuda.get_device_name(world.device)})"
    return f"{socket.gethostname()}: {device}"


def describe_ranks(ranks: list[str]) -> list[str]:
    """A line for each rank; with many ranks, a line for each host and kind of device."""
    if len(ranks) <= MAX_RANK_LINES:
        return [f"rank {rank}  {text}" for rank, text in enumerate(ranks)]
    kinds = Counter(re.sub(r"cuda:\d+", "cuda", text) for text in ranks)
    return [f"{count} ranks  {kind}" for kind, count in kinds.items()]


def describe_warnings(precision: Any, world: World) -> list[str]:
    return [w for w in (precision_warning(precision, world.device), unused_gpus(world)) if w]


def unused_gpus(world: World) -> str | None:
    """A warning with the torchrun command, if a single process runs where there are more GPUs."""
    count = torch.cuda.device_count() if world.device.type == "cuda" else 0
    if world.size > 1 or count < 2:
        return None
    command = shlex.join(["torchrun", f"--nproc_per_node={count}", *sys.argv])
    return f"This process uses 1 of {count} GPUs. To use all of them: {command}"


def report_end(trainer: Trainer, is_finished: bool, started: float) -> None:
    """Write STATUS.json, print how the run ended, and close the logbook. Every rank must call it.

    `started` is the time of the start on the monotonic clock.
    """
    world, position = trainer.world, trainer.position
    world.watchdog.stage = "ending"
    # Other ranks may not have received the reason yet.
    reasons = [reason for reason in world.gather(world.watchdog.stop_reason or "") if reason]
    stop_reason = None if is_finished else reasons[0]
    if world.is_node_leader:
        trainer.saver.folder.write_status(
            "preempted" if stop_reason else "finished",
            stop_reason or early_end(trainer),
            epoch=position.current_epoch,
            step=trainer.saver.saved_step,
            checkpoint=trainer.saver.saved_name,
        )
    trainer.logbook.message(describe_end(trainer, stop_reason, started))
    trainer.logbook.close(STOPPED_UPLOAD_SECONDS if stop_reason else math.inf)


def describe_end(trainer: Trainer, stop_reason: str | None, started: float) -> str:
    """The last message: where and why the run ended, its duration, and the next command."""
    position, folder = trainer.position, trainer.saver.store.folder
    where = str(position)
    duration = describe_seconds(time.monotonic() - started)
    if stop_reason:
        saved = trainer.saver.saved_step == position.global_step
        outcome = "and saved" if saved else "not saved: loss or gradient was not finite"
        return (
            f"Stopped at {where}, on request ({stop_reason}), {outcome}, after {duration}. "
            "The same command resumes from the last checkpoint."
        )
    reason = f" ({early})" if (early := early_end(trainer)) else ""
    best = ""
    if position.best_epoch:
        score = number(position.best_score)
        best = f" Best finished epoch: {position.best_epoch}, {position.best_metric} {score}."
    options = "" if str(folder) == "weights" else f" --model_folder {shlex.quote(str(folder))}"
    basename = trainer.saver.store.basename
    if basename != CheckpointConfig.model_basename:
        options += f" --model_basename {shlex.quote(basename)}"
    return (
        f"Finished at {where}{reason}, after {duration}.{best}\n"
        f'Translate with: python -m translate_ddp translate{options} "..."'
    )


def early_end(trainer: Trainer) -> str:
    """Why the run has finished before its last epoch, or ""."""
    position = trainer.position
    if position.epoch >= trainer.config.num_epochs or not has_no_patience(
        trainer.config, trainer.metric, position, trainer.last_stage
    ):
        return ""
    return f"no better {position.best_metric} since epoch {position.best_epoch}"


def precision(model: Transformer) -> str:
    return "bf16" if model.dtype == torch.bfloat16 else "fp32"


def count_parameters(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def tracker_config(config: Settings, model: Transformer, world: World) -> dict[str, Any]:
    """The configuration for W&B and trackio: settings except paths, and the values of `auto`."""
    parts = without_paths(config)
    settings = {n: v for part in parts.values() for n, v in part.items() if n not in PATHS}
    return settings | {
        "dataset": " ".join(parts["corpus"]["dataset"]),
        "validation": parts["corpus"]["validation"],
        "precision": precision(model),
        "device": world.device.type,
        "world_size": world.size,
        "nodes": len(world.node_leaders),
        "parameters": count_parameters(model),
    }
