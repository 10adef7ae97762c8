"""How long a training will take on this machine, from a few steps of it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from translate_ddp.apps.inspecting.vocabulary import Vocabulary
from translate_ddp.data.batches import Step, padding_share
from translate_ddp.data.dataset import ParallelDataset, PreparedData
from translate_ddp.data.plan import Lengths
from translate_ddp.data.step_sampler import StepSampler
from translate_ddp.progress import Progress
from translate_ddp.runtime.device import choose_device, describe_device, fix_cuda_kernels
from translate_ddp.runtime.launch import ONE_PROCESS
from translate_ddp.runtime.world import World
from translate_ddp.settings import Config, MixConfig
from translate_ddp.training.build import build_loader, build_model, build_updater
from translate_ddp.training.updater import Updater

WARM_UP_STEPS = 5


@dataclass(frozen=True)
class Epoch:
    """An epoch of the training, extended from a sample to all pairs."""

    steps: int
    tokens: int  # of both sides, end markers included
    padding: float  # share of the computed positions


@dataclass(frozen=True)
class Pace:
    """Steps that were measured."""

    tokens_per_second: float  # of both sides, end markers included
    steps: int  # measured
    parameters: int
    device: str
    precision: str


def plan_first_epoch(dataset: ParallelDataset, pairs: int, config: Config) -> Epoch:
    """The first epoch of one process, as if the dataset were a sample of so many pairs."""
    lengths, factor = Lengths.of(dataset), pairs / len(dataset)
    sampler = StepSampler(lengths, config.batches, seed=config.train.seed, rank=0, world_size=1)
    tokens = len(dataset.source.tokens) + len(dataset.target.tokens) + 2 * len(dataset)
    device, _ = choose_device(ONE_PROCESS, config.distributed)
    padding = padding_share(sampler, config.pass_tokens(device.type))
    return Epoch(max(1, round(len(sampler.plan) * factor)), round(tokens * factor), padding)


def measure_pace(
    vocabulary: Vocabulary, config: Config, folder: Path, seconds: float, shown: bool
) -> Pace:
    """The pace of training steps of one process, measured for about so many seconds.

    A step has at most the tokens of one pass, so that it ends soon; the pace is per token.
    """
    fix_cuda_kernels()
    device, _ = choose_device(ONE_PROCESS, config.distributed)
    world, batches = World(device=device), config.batches
    size = min(batches.batch_tokens, config.pass_tokens(device.type))
    config = replace(
        config,
        mix=MixConfig(),  # the sample is one dataset
        batches=replace(batches, batch_tokens=size),
        checkpoint=replace(config.checkpoint, model_folder=str(folder)),
    )
    dataset = vocabulary.dataset
    sizes = [len(dataset)]
    data = PreparedData(dataset, dataset, [], [], vocabulary.tokenizer, {}, "", "", sizes, folder)
    model = build_model(config, data, world)
    updater = build_updater(config, model, world)
    timed = _time_steps(updater, _endless_steps(config, data, world), seconds, shown)
    lengths = Lengths.of(dataset)
    tokens = sum(int((lengths.source + lengths.target)[rows].sum()) for rows, _ in timed)
    return Pace(
        tokens / sum(taken for _, taken in timed),
        len(timed),
        sum(parameter.numel() for parameter in model.parameters()),
        _describe(device),
        "bf16" if model.dtype == torch.bfloat16 else "fp32",
    )


def _time_steps(
    updater: Updater, steps: Iterator[Step], seconds: float, shown: bool
) -> list[tuple[np.ndarray, float]]:
    """The rows and the seconds of each step after the warm-up. It ends after so many seconds."""
    timed: list[tuple[np.ndarray, float]] = []
    total = max(round(seconds), 1)
    began = time.monotonic()
    with Progress("Seconds of training steps", total, shown=shown, leave=False) as progress:
        for number, step in enumerate(steps):
            before = time.monotonic()
            updater.step(step).loss.item()  # waits for the device
            now = time.monotonic()
            progress.advance(min(int(now - began), total) - int(progress.n))
            # Large models take few steps within the time; at least one after the first is timed.
            in_warm_up = number < WARM_UP_STEPS and now - began < seconds / 2
            if number and not in_warm_up:
                timed.append((step.rows, now - before))
            if timed and now - began >= seconds:
                break
    return timed


def _endless_steps(config: Config, data: PreparedData, world: World) -> Iterator[Step]:
    loader, epoch = build_loader(config, data, world), 0
    while True:
        yield from loader
        epoch += 1
        loader.sampler.set_epoch(epoch)


def _describe(device: torch.device) -> str:
    if device.type == "cpu":
        return f"the CPU with {torch.get_num_threads()} threads"
    return describe_device(device)
