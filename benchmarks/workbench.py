"""Training outside of a run, for measuring its steps: built from the same parts as for train.py."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from config import parse
from translate_ddp.data.batches import BatchLoader, Step, StepSampler
from translate_ddp.data.dataset import ParallelDataset, PreparedData, Ragged
from translate_ddp.data.tokenizer import SPECIAL_TOKENS, Tokenizer
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World, open_world
from translate_ddp.runtime.launcher import read_launch
from translate_ddp.training.build import build_loader, build_model, build_updater, prepare_data
from translate_ddp.training.meters import StepMeters
from translate_ddp.training.updater import Updater


@dataclass
class Training:
    """What trains a model, without a run: it does not save, validate or log."""

    model: Transformer
    updater: Updater
    loader: BatchLoader
    data: PreparedData
    meters: StepMeters
    world: World

    @property
    def sampler(self) -> StepSampler:
        return self.loader.sampler

    def warm_up(self) -> None:
        self.updater.warm_up(self.loader.largest_step())


@contextmanager
def open_training(flags: Sequence[str], data: PreparedData | None = None) -> Iterator[Training]:
    """A new model with the configuration of these flags of train.py, before its warm-up pass.

    `data` replaces the corpus of the flags. That corpus is prepared in a temporary folder unless
    the flags contain `--model_folder`.
    """
    with tempfile.TemporaryDirectory() as folder:
        prints = read_launch(os.environ).rank == 0
        config = parse(["--model_folder", folder, *flags], prints=prints)
        with open_world(config.distributed) as world:
            prepared = Path(config.checkpoint.model_folder) / "data"
            data = data or prepare_data(config, prepared, world)
            model = build_model(config, data, world)
            yield Training(
                model,
                build_updater(config, model, world),
                build_loader(config, data, world),
                data,
                StepMeters(config.train.log_every, world),
                world,
            )


def take_steps(training: Training) -> Iterator[np.ndarray]:
    """Take optimizer steps over many epochs; yields the rows of each step, over all ranks."""
    position = training.updater.position
    while True:
        for step in training.loader:
            take_step(training, step)
            yield step.rows
        position.epoch, position.step_in_epoch = position.epoch + 1, 0
        training.sampler.set_epoch(position.epoch)


def take_step(training: Training, step: Step) -> None:
    """One step, with what a run does in each."""
    updater = training.updater
    result = updater.step(step)
    sums = {"loss": result.loss, **result.extras}
    place = updater.position.global_step - 1
    training.meters.add(place, sums, result.tokens, result.skipped)
    updater.flags.of_previous_step()  # the only point where the host of a run waits


class Vocabulary(Tokenizer):
    """A vocabulary that has a size and no tokens."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def random_pairs(count: int, length: int, vocabulary: int) -> PreparedData:
    """Pairs of random ids with `length` tokens on each side, including the end marker."""
    random = np.random.default_rng(0)
    shape = (count, length - 1)
    sides = [random.integers(len(SPECIAL_TOKENS), vocabulary, shape) for _ in range(2)]
    return training_data(ParallelDataset(*(Ragged.of(list(side)) for side in sides)), vocabulary)


def training_data(pairs: ParallelDataset, vocabulary: int) -> PreparedData:
    """These pairs as training data; the validation set is empty."""
    return PreparedData(
        train=pairs,
        validation=ParallelDataset(Ragged.of([]), Ragged.of([])),
        validation_sources=[],
        validation_references=[],
        tokenizer=Vocabulary(vocabulary),
        dropped={},
        fingerprint="",
    )
