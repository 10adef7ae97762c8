"""Snapshots of a contestant's weights by training time, and their validation BLEU.

The clock starts at the end of the first step. What a snapshot takes is not counted. All snapshots
are scored by one greedy decoder and one scorer.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from benchmarks.common import read_settings
from benchmarks.machine import default_device, wait_for
from benchmarks.trainers.task import Flags, Task
from benchmarks.workbench import Corpus
from translate_ddp.apps.exporting.huggingface_export import NAMES
from translate_ddp.modeling.engine import TorchEngine, ready_to_decode
from translate_ddp.modeling.kernels import choose_dtype
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import GREEDY
from translate_ddp.training.metrics import score_texts

Weights = dict[str, Tensor]  # by the names of our Transformer
PEGASUS = NAMES | {"embedding": "model.shared"}  # part of our name -> part of theirs


@dataclass(frozen=True)
class Contestant(Flags):
    """Command line of a contestant; `seconds` is its whole training time."""

    learning_rate: float = 1e-3
    """Peak learning rate."""
    warmup_steps: int = 500
    """Linear warm-up steps; inverse square root decay follows."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """Of ours; transformers has AdamW."""
    every: float = 60.0
    """Seconds of training between snapshots."""
    snapshots: Path = Path("snapshots")
    """Folder that receives them."""


class SnapshotClock:
    """Training time of this process; it takes a snapshot every so many seconds and at the end."""

    def __init__(self, flags: Contestant) -> None:
        self.flags = flags
        self.steps = 0
        self._begin = self._excluded = 0.0
        self._due = flags.every

    def step(self, weights: Callable[[], Weights]) -> bool:
        """Count a finished step, take a snapshot if it is time; returns whether time is over."""
        self.steps += 1
        if self.steps == 1:
            wait_for(default_device())
            self._begin = time.perf_counter()
        over = self._seconds() >= self.flags.seconds
        if over or self._seconds() >= self._due:
            wait_for(default_device())
            paused, seconds = time.perf_counter(), self._seconds()
            self._due += self.flags.every
            snapshot = {name: tensor.detach().float().cpu() for name, tensor in weights().items()}
            path = self.flags.snapshots / f"{seconds:09.2f}-{self.steps:08d}.pt"
            torch.save(snapshot, path)
            self._excluded += time.perf_counter() - paused
        return over

    def _seconds(self) -> float:
        return time.perf_counter() - self._begin - self._excluded


def read_contestant(description: str | None) -> tuple[Contestant, Task]:
    flags = read_settings(Contestant, description)
    flags.snapshots.mkdir(parents=True, exist_ok=True)
    return flags, Task.load(flags.work)


def to_ours(theirs: Mapping[str, Tensor], task: Task) -> Weights:
    """The weights of a Pegasus by our names: our model computes the same logits.

    Its keys and values have biases, ours do not. A bias of the keys adds the same to all scores
    of a query, so it has no effect. A bias of the values adds a constant to the context, since
    attention weights sum to 1: it becomes part of the bias of the output projection.
    """
    found = {}
    for name in Transformer(task.model, task.vocabulary).state_dict():
        if "key_value" in name:
            parts = (name.replace("key_value", part) for part in ("k_proj", "v_proj"))
            found[name] = torch.cat([theirs[their_name(part)] for part in parts])
        elif name.endswith("attention.out.bias"):
            projection = theirs[their_name(name.replace("bias", "weight"))]
            value_bias = theirs[their_name(name.replace("out", "v_proj"))]
            found[name] = theirs[their_name(name)] + projection @ value_bias
        else:
            found[name] = theirs[their_name(name)]
    return found


def their_name(name: str) -> str:
    for ours, theirs in PEGASUS.items():
        name = name.replace(ours, theirs)
    return name


def score_snapshots(folder: Path, corpus: Corpus) -> list[dict[str, Any]]:
    """Minutes, steps and BLEU of each snapshot, in order."""
    curve = []
    for path in sorted(folder.glob("*.pt")):
        seconds, steps = path.stem.split("-")
        weights, minutes = torch.load(path, weights_only=True), float(seconds) / 60
        score = validation_bleu(weights, corpus)
        curve.append({"minutes": round(minutes, 3), "steps": int(steps), "bleu": score})
        print(f"{folder.name}: {minutes:.1f} minutes, BLEU {score:.2f}", flush=True)
    return curve


def validation_bleu(weights: Weights, corpus: Corpus) -> float:
    """BLEU of greedy search, as in a validation of train.py."""
    data, device = corpus.data, default_device()
    dtype = choose_dtype("auto", device)
    model = Transformer(corpus.config.model, len(data.facts.tokenizer), dtype=dtype)
    model.load_state_dict(weights)
    engine = TorchEngine(ready_to_decode(model.to(device, dtype)).eval(), device)
    pairs = data.validation
    found = engine.translate([pairs.source[row] for row in range(len(pairs))], GREEDY)
    predictions = data.facts.tokenizer.decode([best.ids for (best,) in found])
    texts = (data.validation_sources, predictions, data.validation_references)
    return score_texts(*texts, corpus.config.corpus.lang_tgt[0])["BLEU"]
