"""A trainer outside of a run, for measuring its steps.

train.py builds it from the same parts as for a run. It does not save, validate or log.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from config import parse
from train import build_trainer, prepare_data
from translate_ddp.data.dataset import ParallelDataset, PreparedData, Ragged
from translate_ddp.data.tokenizer import SPECIAL_TOKENS, Tokenizer
from translate_ddp.runtime.distributed import open_world
from translate_ddp.runtime.launcher import read_launch
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.trainer import Run, Trainer


@contextmanager
def open_trainer(flags: Sequence[str], data: PreparedData | None = None) -> Iterator[Trainer]:
    """A new trainer with the configuration of these flags of train.py, before its warm-up pass.

    `data` replaces the corpus of the flags. That corpus is prepared in a temporary folder unless
    the flags contain `--model_folder`.
    """
    prints = read_launch(os.environ).rank == 0
    with tempfile.TemporaryDirectory() as folder:
        defaults = ["--wandb_mode", "disabled", "--model_folder", folder]
        config = parse([*defaults, *flags], prints=prints)
        with open_world(config.distributed) as world:
            data = data or prepare_data(config, world)
            store = CheckpointStore(config.checkpoint)
            logbook = Logbook(
                config.logbook, store.folder, run_id="", about={}, position=None, active=False
            )
            run_folder = RunFolder(folder, "")
            run = Run("benchmark", {}, {})
            yield build_trainer(config, data, run, run_folder, store, logbook, world)


def take_steps(trainer: Trainer) -> Iterator[np.ndarray]:
    """Take optimizer steps over many epochs; yields the rows of each step, over all ranks."""
    position, sampler = trainer.position, trainer.sampler
    while True:
        for passes in trainer.loader:
            trainer.step(passes, sampler.target_tokens(position.step))
            trainer.flags.of_previous_step()  # the only point where the host of a run waits
            rows = sampler.plan[position.step]
            position.step += 1
            position.global_step += 1
            yield rows
        position.epoch, position.step = position.epoch + 1, 0
        sampler.set_epoch(position.epoch)


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
