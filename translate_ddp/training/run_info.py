"""What a run prints and records about itself at its start and at its end."""

import math
import platform
import re
import shlex
import shutil
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translate_ddp import __version__
from translate_ddp.console import counted, describe_seconds, number, size
from translate_ddp.data.batches import BatchLoader, padded_tokens, padding_share
from translate_ddp.data.rows import list_names
from translate_ddp.directions import side_name
from translate_ddp.modeling.kernels import DTYPES, choose_dtype, precision_warning
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.presets import changed_settings
from translate_ddp.run_record import REPORT_FILE, LaunchFacts
from translate_ddp.runtime.device import describe_device
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig, Settings, all_settings, by_name
from translate_ddp.training.identity import without_paths
from translate_ddp.training.optimizer import MAX_WARMUP, learning_rate, moments_of
from translate_ddp.training.trainer import Trainer

FEW_TOKENS = 10_000  # in a step; with fewer, a GPU mostly waits
PADDING_STEPS = 100  # steps from which the padding of merged buckets is estimated
MAX_RANK_LINES = 16  # with more ranks, one line per host
NO_STEP_LEFT = (
    "This run has finished: raise --num_epochs, --max_steps or --patience to train longer, or pass "
    "--preload '' for a new run."
)


# --- facts ---


def describe_launch(config: Settings, trainer: Trainer) -> LaunchFacts | None:
    """The facts of this start of the run, on rank 0. Every rank must call it."""
    world, data = trainer.world, trainer.data
    directions = data.facts.directions
    ranks = describe_ranks(world.gather(describe_rank(world)))
    if not world.is_main:
        return None
    forward = [pair for n, pair in enumerate(directions) if pair.reverse not in directions[:n]]
    corpus = config["corpus"]
    return LaunchFacts(
        time=round(time.time(), 3),
        step=trainer.position.global_step,
        previous=trainer.logbook.last_time,
        version=__version__,
        torch=str(torch.__version__),
        python=platform.python_version(),
        lang_src=side_name(pair.src for pair in forward),
        lang_tgt=side_name(pair.tgt for pair in forward),
        targets=list(dict.fromkeys(pair.tgt for pair in directions)),
        datasets=[short_name(name) for name in corpus["dataset"]],
        preset=config["run"]["preset"],
        changed=changed_settings(config),
        model=describe_sizes(config["model"]),
        parameters=count_parameters(trainer.model),
        precision=precision(trainer.model),
        device=world.device.type,
        ranks=ranks,
        world_size=world.size,
        nodes=len(world.node_leaders),
        threads=torch.get_num_threads(),
        num_epochs=trainer.config.num_epochs,
        total_steps=count_steps(trainer),
        best_metric=trainer.metric.name,
        train_pairs=len(data.train),
        validation_pairs=len(data.validation),
        vocab_size=len(data.facts.tokenizer),
        dropped=data.dropped,
        padding=padding_of(trainer.loader),
    )


def short_name(dataset: str) -> str:
    """`multi30k/train` of a path: folders are named after a corpus more often than its files."""
    return Path(*Path(dataset).parts[-2:]).as_posix()


def count_steps(trainer: Trainer) -> int:
    """The steps of the whole run, unless --patience ends it before.

    Exact for finished epochs. The others have about as many steps as the planned one.
    """
    position, config = trainer.position, trainer.config
    steps = position.global_step - position.step_in_epoch
    steps += len(trainer.sampler.plan) * max(0, config.num_epochs - position.epoch)
    limit = config.max_steps or steps
    return max(position.global_step, min(steps, limit))


def padding_of(loader: BatchLoader) -> float:
    """Fraction of padding among the positions of an epoch; of merged buckets, estimated."""
    sampler = loader.sampler
    if not loader.full_tokens:
        return padding_share(sampler)
    every = -(-len(sampler.plan) // PADDING_STEPS)
    steps = map(sampler.plan.buckets, range(0, len(sampler.plan), every))
    parts = [rows for step in steps for rows in loader.parts(step) if len(rows)]
    real = sampler.lengths.take(np.concatenate(parts))
    padded = sum(int(padded_tokens(rows, sampler.lengths).sum()) for rows in parts)
    return 1 - int(real.source.sum() + real.target.sum()) / padded


def describe_sizes(model: Mapping[str, Any]) -> str:
    """The sizes in the settings of a model, in words."""
    return (
        f"{model['num_encoder_layers']} encoder and {model['num_decoder_layers']} decoder "
        f"layers, width {model['d_model']}, feed-forward {model['d_ff']}, "
        f"{model['num_heads']} heads"
    )


def describe_rank(world: World) -> str:
    """`host: cuda:0 (NVIDIA H100, 80 GiB)` or `host: cpu, 2 thread(s)`."""
    threads = f", {torch.get_num_threads()} thread(s)" if world.device.type == "cpu" else ""
    return f"{socket.gethostname()}: {describe_device(world.device)}{threads}"


def describe_ranks(ranks: list[str]) -> list[str]:
    """A line for each rank; with many ranks, a line for each host and kind of device."""
    if len(ranks) <= MAX_RANK_LINES:
        return [f"rank {rank}  {text}" for rank, text in enumerate(ranks)]
    kinds = Counter(re.sub(r"cuda:\d+", "cuda", text) for text in ranks)
    return [f"{count} ranks  {kind}" for kind, count in kinds.items()]


def precision(model: Transformer) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype == model.dtype)


def count_parameters(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def tracker_config(config: Settings, model: Transformer, world: World) -> dict[str, Any]:
    """The configuration for trackers: settings except paths, and the values of `auto`."""
    values = by_name(without_paths(config))
    known = all_settings()
    settings = {n: v for n, v in values.items() if not (n in known and known[n].path)}
    return settings | {
        "dataset": " ".join(values["dataset"]),
        "validation": values["validation"],
        "precision": precision(model),
        "device": world.device.type,
        "world_size": world.size,
        "nodes": len(world.node_leaders),
        "parameters": count_parameters(model),
    }


# --- the message at the start ---


def describe_start(config: Settings, trainer: Trainer, launch: LaunchFacts) -> list[str]:
    """Lines that describe model, data, steps and ranks, and warnings. Rank 0 only."""
    world, sampler, folder = trainer.world, trainer.sampler, trainer.checkpoints.store.folder
    train, optimizer, batches = config["train"], config["optimizer"], config["batches"]
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in launch.dropped.items())
    step = f"at most {batches['batch_tokens']:,} tokens"
    if batches["batch_size"]:
        step = f"{batches['batch_size'] * world.size} sentences"
    steps = len(sampler.plan)
    rate = describe_rate(optimizer, steps * train["num_epochs"], train["max_steps"])
    epochs = counted(train["num_epochs"], "epoch")
    if train["patience"]:
        epochs = f"at most {epochs} (patience {train['patience']})"
    disk, warnings = describe_disk(trainer)
    datasets = config["corpus"]["dataset"]
    rows = {
        "preset": launch.preset,
        "model": f"{launch.model}, dropout {config['model']['dropout']:g}",
        "": f"{launch.parameters:,} parameters, layers compute in {launch.precision}",
        "training": f"{epochs}, {optimizer['optimizer']}, {rate}, seed {train['seed']}",
        "steps": f"{step} per step over all ranks, {counted(steps, 'step')} per epoch, "
        f"{launch.padding:.1%} padding",
        "corpus": f"{' '.join(datasets)} {list_names(map(str, trainer.data.facts.directions))}: "
        f"{launch.train_pairs:,} training and "
        f"{counted(launch.validation_pairs, 'validation pair')}",
        **describe_mix(trainer, datasets),
        "dropped": dropped or "none",
        "vocabulary": f"{launch.vocab_size:,}",
        "ranks": f"{world.size}, backend {world.backend}",
    }
    lines = [f"{name:>12}  {value}" for name, value in rows.items()]
    lines += [f"{'':>12}  {line}" for line in launch.ranks]
    lines += [f"{'saves to':>12}  {folder}/: {disk}"]
    lines += [f"{'logs to':>12}  {trainer.logbook.status}"]
    if config["logbook"]["report"]:
        lines += [f"{'report':>12}  {folder / REPORT_FILE}, from the first validation on"]
    return lines + describe_warnings(config, trainer.model.dtype, world) + warnings


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
    step, config = trainer.position.global_step, trainer.optimizer_step.config
    if step == 0 or trainer.is_finished():
        return []
    trainer.sampler.set_epoch(trainer.position.epoch)  # for its number of steps

    def rate(ago: int) -> float:
        done = trainer.epochs_done - ago / len(trainer.sampler.plan)
        return learning_rate(step - ago, config, done / trainer.config.num_epochs)

    last, now = trainer.optimizer_step.optimizer.param_groups[0]["lr"], rate(0)
    if abs(rate(1) - last) < 0.1 * last:
        return []
    return [
        f"The learning rate was {last:.3g} at the last step, and is {now:.3g} at the next one. "
        f"Pass --lr {config.lr * last / now:.3g} to continue at about the old rate, or start a new "
        "run, with a schedule of its own, by --init_from and a lower --lr."
    ]


def describe_mix(trainer: Trainer, datasets: Sequence[str]) -> dict[str, str]:
    """The pairs of each dataset in an epoch, then of each direction; none if it has all of them."""
    mix, data, counts = trainer.sampler.mix, trainer.data, Counter[str]()
    directions = data.facts.directions
    if mix.draws_all_once:
        return {}
    for count, block in zip(mix.counts, data.blocks, strict=True):
        counts[datasets[block.dataset]] += count
        if len(directions) > 1:
            counts[str(directions[block.direction])] += count
    pairs = " + ".join(f"{counts[name]:,} of {name}" for name in datasets)
    others = [f"{counts[name]:,} {name}" for name in map(str, directions) if counts[name]]
    return {"epoch": pairs + f" ({', '.join(others)})" * bool(others) + " pairs"}


def describe_disk(trainer: Trainer) -> tuple[str, list[str]]:
    """The checkpoints that a run writes beside the prepared corpus, and a warning if they do not
    fit on the disk.
    """
    store = trainer.checkpoints.store
    files = store.count_files(trainer.config.num_epochs)
    weights = sum(p.numel() * p.element_size() for p in trainer.model.parameters())
    each = weights + sum(moment.nbytes for moment in moments_of(trainer.optimizer_step.optimizer))
    free = shutil.disk_usage(store.folder).free
    for checkpoint in store.list():  # which the new ones replace
        with suppress(FileNotFoundError):  # a stale listing of a network disk
            free += checkpoint.path.stat().st_size
    text = (
        f"{'at most' if store.keep_last else 'at least'} {files} checkpoints of "
        f"{size(each)}, {size(files * each)} of {size(free)} free"
    )
    if files * each <= free:
        return text, []
    return text, [
        f"The disk of {store.folder} has no space for all checkpoints: {text}. Free space, lower "
        "--keep_last, or choose another --model_folder."
    ]


def describe_warnings(config: Settings, dtype: torch.dtype, world: World) -> list[str]:
    precision = config["train"]["precision"]
    found = [precision_warning(precision, world.device), unused_gpus(world)]
    found += [few_tokens(config["batches"], world), unused_limit(config["batches"])]
    if choose_dtype(precision, world.device) != dtype:
        found.append("Not all ranks have bf16, so all of them compute in fp32.")
    return [warning for warning in found if warning]


def unused_gpus(world: World) -> str | None:
    """A warning with the torchrun command, if a single process runs where there are more GPUs."""
    count = torch.cuda.device_count() if world.device.type == "cuda" else 0
    if world.size > 1 or count < 2:
        return None
    command = shlex.join(["torchrun", f"--nproc_per_node={count}", *sys.argv])
    return f"This process uses 1 of {count} GPUs. To use all of them: {command}"


def few_tokens(batches: Mapping[str, Any], world: World) -> str | None:
    """Advice on --batch_tokens, if there are several GPUs and a step gives each of them few."""
    each = batches["batch_tokens"] // world.size
    is_enough = each >= FEW_TOKENS or world.size == 1 or batches["batch_size"]
    if is_enough or world.device.type != "cuda":
        return None
    return (
        f"A step has {each:,} tokens for each of {world.size} GPUs, which then mostly wait. Larger "
        f"steps train faster: --batch_tokens {25_000 * world.size}, with base or big --lr 1e-3."
    )


def unused_limit(batches: Mapping[str, Any]) -> str | None:
    """A message if max_tokens is set and limits nothing, as where fairseq's flag was meant."""
    limit, step = batches["max_tokens"], batches["batch_tokens"]
    if not limit or limit < step or batches["batch_size"]:
        return None
    return (
        f"--max_tokens {limit} has no effect: a step has at most {step:,} tokens over all ranks "
        "(--batch_tokens). fairseq's --max-tokens counts one GPU: multiply it by the number "
        "of GPUs, and pass the product as --batch_tokens."
    )


# --- the message at the end ---


def describe_end(trainer: Trainer, stop_reason: str | None, started: float) -> str:
    """The last message: where and why the run ended, its duration, and the next command."""
    position, store = trainer.position, trainer.checkpoints.store
    duration = describe_seconds(time.monotonic() - started)
    if stop_reason:
        saved = trainer.checkpoints.saved_step == position.global_step
        outcome = "and saved" if saved else "not saved: loss or gradient was not finite"
        return (
            f"Stopped at {position}, on request ({stop_reason}), {outcome}, after {duration}. "
            "The same command resumes from the last checkpoint."
        )
    reason = f" ({early})" if (early := early_end(trainer)) else ""
    best = ""
    if position.best_epoch:
        score = number(position.best_score)
        best = f" Best finished epoch: {position.best_epoch}, {position.best_metric} {score}."
    options = ""
    if str(store.folder) != CheckpointConfig.model_folder:
        options += f" --model_folder {shlex.quote(str(store.folder))}"
    if store.basename != CheckpointConfig.model_basename:
        options += f" --model_basename {shlex.quote(store.basename)}"
    if trainer.data.facts.usual_direction is None:
        source, target = trainer.data.facts.directions[0]
        options += f" --from {source} --to {target}"
    return (
        f"Finished at {position}{reason}, after {duration}.{best}\n"
        f'Translate with: translate-ddp translate{options} "..."'
    )


def early_end(trainer: Trainer) -> str:
    """Why the run has finished before its last epoch, or ""."""
    position = trainer.position
    if position.epoch >= trainer.config.num_epochs or not trainer.has_no_patience(position):
        return ""
    return f"no better {position.best_metric} since epoch {position.best_epoch}"
