"""A model that copies its source, trained by the project's trainer in seconds."""

import time
from dataclasses import dataclass
from itertools import islice

import torch

from benchmarks.common import Values
from benchmarks.gpu.case import Setup
from benchmarks.gpu.pairs import draw_copies
from benchmarks.workbench import open_training, take_steps
from config import parse
from translate_ddp.modeling.decoding import decode
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig

GPU_TOKENS = 12_500  # of a step
GPU_SECONDS, CPU_SECONDS = 40.0, 8.0  # at most
STEPS_BETWEEN_CHECKS = 50
CHECKED = 64  # held-out sentences
GOOD_SHARE = 0.98  # of them copied: training ends
SCHEDULE = ["--warmup_steps", "200", "--dropout", "0"]
HELD_OUT_SEED = 2


@dataclass(frozen=True)
class Copier:
    model: Transformer
    shape: ModelConfig
    words: int  # of the vocabulary that occur in the data
    values: Values


def train_to_copy(setup: Setup) -> Copier:
    """Train until nearly all held-out sentences are copied or the time limit is reached."""
    words = 50 if setup.cpu else 1_000
    flags = [*setup.flags("base", GPU_TOKENS), *SCHEDULE, "--lr", "5e-3" if setup.cpu else "1e-3"]
    data = draw_copies(setup.sizes.pairs, words, setup.sizes.vocabulary)
    held_out = draw_copies(CHECKED, words, setup.sizes.vocabulary, HELD_OUT_SEED).train.source
    sources = [row.tolist() for row in held_out]
    end = time.monotonic() + (CPU_SECONDS if setup.cpu else GPU_SECONDS)
    with open_training(flags, data) as training:
        begin, steps = time.perf_counter(), take_steps(training)
        copied = 0.0
        while copied < GOOD_SHARE and time.monotonic() < end:
            for _ in islice(steps, STEPS_BETWEEN_CHECKS):
                pass
            copied = share_copied(training.model, sources, training.world.device)
        values: Values = {
            "steps": training.updater.position.global_step,
            "seconds": time.perf_counter() - begin,
            "held-out sentences copied %": 100 * copied,
        }
        return Copier(training.model.eval(), parse(flags).model, words, values)


def share_copied(model: Transformer, sources: list[list[int]], device: torch.device) -> float:
    model.eval()
    found = decode(ready_to_decode(model).start, sources, device, max_tokens=4096)
    model.train()
    return sum(a.ids == b for a, b in zip(found, sources, strict=True)) / len(sources)
