"""Training outside of a run, for measuring its steps: built from the same parts as for train.py.

A step includes all that the loop of a run does for it on every rank, log records too. Only what a
run does between steps is missing: validation, checkpoints and progress bar.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.clock import Clock
from benchmarks.common import Settings, as_flags
from benchmarks.report import short
from config import Config, parse
from translate_ddp.data.batches import BatchLoader, Step, padding_share
from translate_ddp.data.dataset import PreparedData, load_prepared
from translate_ddp.data.plan import StepSampler
from translate_ddp.data.preparation import prepare
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.launch import is_first_process
from translate_ddp.runtime.world import World, open_world
from translate_ddp.training import run_info
from translate_ddp.training.meters import StepMeters
from translate_ddp.training.run import build_loader, build_model, build_step, prepare_data
from translate_ddp.training.state import Position
from translate_ddp.training.step import OptimizerStep


@dataclass
class Training:
    """What trains a model, without a run: it does not save, validate or log."""

    config: Config
    model: Transformer
    optimizer_step: OptimizerStep
    loader: BatchLoader
    data: PreparedData
    meters: StepMeters
    world: World
    position: Position = field(default_factory=Position)

    @property
    def sampler(self) -> StepSampler:
        return self.loader.sampler

    def warm_up(self) -> None:
        self.optimizer_step.warm_up(self.loader)

    def log(self) -> None:
        """Compute the values of a log record."""
        totals = self.meters.totals()
        self.meters.take_skipped(0, len(self.meters.tokens))
        self.meters.means(totals)
        self.meters.clear()


@contextmanager
def open_training(
    flags: Sequence[str], data: PreparedData | None = None, joined: World | None = None
) -> Iterator[Training]:
    """A new model with the configuration of these flags of train.py, before its warm-up pass.

    `data` replaces the corpus of the flags. That corpus is prepared in a temporary folder unless
    the flags contain `--model_folder`. `joined` is a world that is open already: `World()` trains
    on the CPU.
    """
    with tempfile.TemporaryDirectory() as folder:
        prints = is_first_process(os.environ)
        # Perturbed steps have more tokens than `run_clock` counts, and need the corpus's tokenizer.
        config = parse(["--model_folder", folder, "--no_perturb", *flags], prints=prints)
        with nullcontext(joined) if joined else open_world(config.distributed) as world:
            prepared = Path(config.checkpoint.model_folder) / "data"
            data = data or prepare_data(config, prepared, world)
            model = build_model(config, data.facts, world)
            yield Training(
                config,
                model,
                build_step(config, model, world),
                build_loader(config, data, world, model.dtype),
                data,
                StepMeters(config.train.log_every, world),
                world,
            )


def precision(training: Training) -> str:
    return run_info.precision(training.model)


def take_steps(training: Training) -> Iterator[np.ndarray]:
    """Take optimizer steps over many epochs; yields the rows of each step, over all ranks."""
    position = training.position
    while True:
        for step in training.loader:
            take_step(training, step)
            yield step.rows
        position.epoch, position.step_in_epoch = position.epoch + 1, 0
        training.sampler.set_epoch(position.epoch)


def take_step(training: Training, step: Step) -> None:
    """One step, with what the loop of a run does for each."""
    optimizer_step, meters = training.optimizer_step, training.meters
    result = optimizer_step(step, training.position.global_step)
    sums = {"loss": result.loss, **result.extras}
    meters.add(training.position.global_step, sums, result.tokens, result.skipped)
    training.position.advance()
    if training.position.global_step % len(meters.tokens) == 0:
        training.log()
    # The only point where the host of a run waits in each step.
    optimizer_step.flags.of_previous_step()


def run_clock(training: Training, steps: Iterator[np.ndarray], clock: Clock) -> list[np.ndarray]:
    """Take steps until the clock of rank 0 is over; returns the rows of each."""
    world, lengths = training.world, training.sampler.lengths
    padding = padding_share(training.sampler)
    taken = []
    while not decided(world, clock.is_over):
        rows = next(steps)
        target_tokens = int(lengths.target[rows].sum())
        real = target_tokens + int(lengths.source[rows].sum())
        clock.count(target_tokens, real, real / (1 - padding))
        taken.append(rows)
    return taken


def decided(world: World, flag: bool) -> bool:
    """The flag of rank 0, on every rank: they all stop at the same step."""
    return bool(world.sum_(torch.tensor(int(world.is_main and flag))))


@dataclass(frozen=True)
class CorpusSettings(Settings):
    dataset: str = "demo"
    """As for train.py."""
    validation: str = ""
    """As for train.py."""
    lang_src: str = "en"
    """Source language."""
    lang_tgt: str = "it"
    """Target language."""
    preset: str = "auto"
    """Model and schedule, as for train.py."""

    def flags(self, **further: Any) -> list[str]:
        """Flags of train.py."""
        names = ("dataset", "validation", "lang_src", "lang_tgt", "preset")
        return as_flags({name: getattr(self, name) for name in names} | further)


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus, and the configuration it was prepared with."""

    config: Config
    folder: Path
    data: PreparedData

    @classmethod
    def prepare(cls, flags: list[str], folder: Path) -> "Corpus":
        config = parse(flags)
        prepared = prepare(config.corpus, config.tokenizer, config.batches.seq_len, folder)
        return cls(config, prepared, load_prepared(prepared))

    def facts(self) -> dict[str, str]:
        corpus, shape = self.config.corpus, self.config.model
        return {
            "corpus": f"{' '.join(map(short, corpus.dataset))} {'-'.join(corpus.languages)}, "
            f"{len(self.data.train):,} pairs, {len(self.data.validation):,} for validation",
            "vocabulary": f"{len(self.data.facts.tokenizer):,}",
            "model": f"{shape.num_encoder_layers}+{shape.num_decoder_layers} layers, "
            f"width {shape.d_model}, {shape.num_heads} heads, feed-forward {shape.d_ff}, "
            f"dropout {shape.dropout:g}",
            "batch tokens": f"{self.config.batches.batch_tokens:,}",
        }
