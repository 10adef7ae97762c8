"""Facts of a run and of its starts, for messages, the report and trackers."""

import platform
import re
import socket
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translate_ddp import __version__
from translate_ddp.data.batches import padding_share
from translate_ddp.data.plan import Lengths
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.presets import changed_settings
from translate_ddp.run_record import LaunchFacts
from translate_ddp.runtime.world import World
from translate_ddp.training.local_paths import PATHS, dataset_names, without_paths
from translate_ddp.training.resume import Settings
from translate_ddp.training.trainer import Trainer

BINS = 40  # of the histogram of lengths, at most
COUNTED_PAIRS = 1_000_000  # of larger corpora, every n-th pair is counted
MAX_RANK_LINES = 16  # with more ranks, one line per host


def describe_launch(config: Settings, trainer: Trainer) -> LaunchFacts | None:
    """The facts of this start of the run, on rank 0. Every rank must call it."""
    world, data, sampler = trainer.world, trainer.data, trainer.sampler
    ranks = describe_ranks(world.gather(describe_rank(world)))
    if not world.is_main:
        return None
    corpus = config["corpus"]
    return LaunchFacts(
        time=round(time.time(), 3),
        step=trainer.position.global_step,
        previous=trainer.logbook.last_time,
        version=__version__,
        torch=str(torch.__version__),
        python=platform.python_version(),
        lang_src=corpus["lang_src"],
        lang_tgt=corpus["lang_tgt"],
        datasets=[short_name(name) for name in dataset_names(config)],
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
        vocab_size=len(data.tokenizer),
        dropped=data.dropped,
        padding=padding_share(sampler, trainer.loader.max_tokens),
        **count_lengths(sampler.lengths),
    )


def short_name(dataset: str) -> str:
    """`multi30k/train` of a path: folders are named after a corpus more often than its files."""
    return Path(*Path(dataset).parts[-2:]).as_posix()


def count_steps(trainer: Trainer) -> int:
    """The steps of the whole run, unless --patience ends it before.

    Exact but for the epochs to come, which have about as many steps as the first of their stage.
    """
    position, config, mix = trainer.position, trainer.config, trainer.mix
    steps = position.global_step - position.step_in_epoch
    ends = [*mix.first_epochs[1:], config.num_epochs]
    plans = trainer.sampler.first_plans()
    for first, end, plan in zip(mix.first_epochs, ends, plans, strict=True):
        epochs = min(end, config.num_epochs) - max(first, position.epoch)
        steps += len(plan) * max(0, epochs)
    limit = config.max_steps or steps
    return max(position.global_step, min(steps, limit))


def count_lengths(lengths: Lengths) -> dict[str, Any]:
    """The histogram of sentence lengths in tokens, [EOS] included, as fields of `LaunchFacts`.

    It ends at the length that 99.5% of the sentences do not exceed; its last bin also has all
    longer ones. Of more than `COUNTED_PAIRS` pairs, the counts are estimates.
    """
    every = -(-len(lengths.source) // COUNTED_PAIRS)
    source, target = lengths.source[::every], lengths.target[::every]
    usual = max(int(np.quantile(side, 0.995)) for side in (source, target))
    width = 1 + usual // BINS
    edges = np.arange(0, usual + 1 + width, width)
    counts = (
        every * np.histogram(np.minimum(side, edges[-1] - 1), edges)[0] for side in (source, target)
    )
    names = ("length_edges", "source_lengths", "target_lengths")
    return dict(zip(names, (each.tolist() for each in (edges, *counts)), strict=True))


def describe_sizes(model: Mapping[str, Any]) -> str:
    """The sizes in the settings of a model, in words."""
    return (
        f"{model['num_encoder_layers']} encoder and {model['num_decoder_layers']} decoder "
        f"layers, width {model['d_model']}, feed-forward {model['d_ff']}, "
        f"{model['num_heads']} heads"
    )


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
