"""What a start of a run is: model, data, steps, ranks and settings, for messages and the report."""

import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translate_ddp import __version__
from translate_ddp.data.batches import padding_share
from translate_ddp.data.plan import Lengths
from translate_ddp.presets import changed_settings
from translate_ddp.run_record import LaunchFacts
from translate_ddp.training.local_paths import dataset_names
from translate_ddp.training.resume import Settings
from translate_ddp.training.run_facts import (
    count_parameters,
    describe_rank,
    describe_ranks,
    describe_sizes,
    precision,
)
from translate_ddp.training.trainer import Trainer

BINS = 40  # of the histogram of lengths, at most
COUNTED_PAIRS = 1_000_000  # of larger corpora, every n-th pair is counted


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
