"""A trainer outside of a run: built by train.py from the product's own parts, stepped by hand.

It saves, validates and logs nothing; what is measured on it is the step of a real run.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

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
    """A new trainer as `train.py` with these flags has it, on this rank; not warmed up yet.

    `data` takes the place of the corpus that the flags name, which is prepared in a temporary
    folder unless they name a `--model_folder`.
    """
    prints = read_launch(os.environ).rank == 0
    with tempfile.TemporaryDirectory() as folder:
        defaults = ["--wandb_mode", "disabled", "--model_folder", folder]
        config = parse([*defaults, *flags], prints=prints)
        with open_world(config.distributed) as world:
            data = data or prepare_data(config, world)
            store = CheckpointStore(config.checkpoint)
            quiet = Logbook(
                config.logbook, store.folder, run_id="", about={}, position=None, active=False
            )
            nowhere = RunFolder(folder, "")
            run = Run("benchmark", {}, {})
            yield build_trainer(config, data, run, nowhere, store, quiet, world)


def take_steps(trainer: Trainer) -> Iterator[np.ndarray]:
    """Take optimizer steps, epoch after epoch; yields the rows of each, those of all ranks."""
    position, sampler = trainer.position, trainer.sampler
    while True:
        for step in trainer.loader:
            trainer.step(step.passes, step.target_tokens)
            trainer.flags.of_previous_step()  # the only wait of a run's host
            position.step += 1
            position.global_step += 1
            yield step.rows
        position.epoch, position.step = position.epoch + 1, 0
        sampler.set_epoch(position.epoch)


def wait_for(device: torch.device) -> None:
    """Return once all that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()


class Vocabulary(Tokenizer):
    """A vocabulary of a chosen size, without any text to it."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def random_pairs(count: int, length: int, vocabulary: int) -> PreparedData:
    """Pairs of random ids, both sides `length` tokens long with the end marker."""
    random = np.random.default_rng(0)
    shape = (count, length - 1)
    sides = [random.integers(len(SPECIAL_TOKENS), vocabulary, shape) for _ in range(2)]
    return training_data(ParallelDataset(*(Ragged.of(list(side)) for side in sides)), vocabulary)


def training_data(pairs: ParallelDataset, vocabulary: int) -> PreparedData:
    """These pairs to train on, and nothing to validate with."""
    return PreparedData(
        train=pairs,
        validation=ParallelDataset(Ragged.of([]), Ragged.of([])),
        validation_sources=[],
        validation_references=[],
        tokenizer=Vocabulary(vocabulary),
        dropped={},
        fingerprint="",
    )


def status_mib(name: str, path: Path = Path("/proc/self/status")) -> float:
    """A size that the kernel keeps of this process: VmRSS, or VmHWM, the most it ever was."""
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return int(lines[name].split()[0]) / 1024
