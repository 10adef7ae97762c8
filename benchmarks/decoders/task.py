"""The task and the clock of all decoders: token ids in, token ids out, on the same sentences.

The folder of a task holds the checkpoint's path and the sources as token ids. Loading, conversion,
tokenization and one warm-up call are not timed.
"""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, as_flags, python
from benchmarks.machine import default_device, wait_for
from benchmarks.report import short
from translate_ddp.data.inputs import read_given_pairs
from translate_ddp.errors import UserError
from translate_ddp.modeling.engine import length_limit
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig, CorpusConfig, ModelConfig
from translate_ddp.training.checkpoint import CheckpointStore, load
from translate_ddp.training.open_checkpoint import saved_model
from translate_ddp.training.state import RunState

WARM_UP = 64  # sentences

Ids = list[list[int]]
Decode = Callable[[Ids], Ids]


@dataclass(frozen=True)
class Task:
    """Sentences to translate, without end marker, by the model of a checkpoint file."""

    folder: Path
    checkpoint: str
    sources: Ids

    @classmethod
    def open(cls, folder: Path) -> "Task":
        return cls(folder, **json.loads((folder / "task.json").read_text(encoding="utf-8")))

    def save(self) -> None:
        content = {"checkpoint": self.checkpoint, "sources": self.sources}
        (self.folder / "task.json").write_text(json.dumps(content), encoding="utf-8")

    def trained(self) -> "Trained":
        return Trained(load(Path(self.checkpoint)))

    @property
    def limit(self) -> int:
        """Maximum length of the translation of the longest source."""
        return limit_of(self.sources)


class Trained:
    """A model in fp32 on the default device, with its tokenizer."""

    def __init__(self, state: RunState) -> None:
        self.config = state.run.config  # the configuration of its training
        self.shape = ModelConfig(**self.config["model"])
        self.tokenizer = state.facts.tokenizer
        self.device = default_device()
        self.model = saved_model(state).to(self.device).eval()
        self.vocabulary = len(self.model.embedding.weight)


@dataclass(frozen=True)
class Decoder:
    """The part of the command line that all decoders share."""

    work: Path
    """Folder of the task."""
    beam_width: int = 1
    """Hypotheses per sentence; 1 is greedy."""


def limit_of(sources: Ids) -> int:
    return max(length_limit(len(source)) for source in sources)


def in_batches(decode: Decode, size: int, by_length: bool) -> Decode:
    """`decode` in batches of `size` sentences; `by_length`: the longest sentences first."""

    def decode_all(sources: Ids) -> Ids:
        rows = list(range(len(sources)))
        if by_length:
            rows.sort(key=lambda row: len(sources[row]), reverse=True)
        outputs: Ids = [[] for _ in sources]
        for first in range(0, len(rows), size):
            batch = rows[first : first + size]
            for row, ids in zip(batch, decode([sources[row] for row in batch]), strict=True):
                outputs[row] = ids
        return outputs

    return decode_all


def timed(decode: Decode, sources: Ids) -> tuple[Ids, float]:
    """The translations and the seconds they took, after a warm-up call."""
    decode(sources[:WARM_UP])
    wait_for(default_device())
    begin = time.perf_counter()
    found = decode(sources)
    wait_for(default_device())
    seconds = time.perf_counter() - begin
    # Some decoders have one limit for many sentences: cut at the limit of each sentence.
    pairs = zip(sources, found, strict=True)
    return [ids[: length_limit(len(source))] for source, ids in pairs], seconds


def time_decoding(decoder: Decoder, sources: Ids, decode: Decode, arrangement: str) -> None:
    """Translate the sources; print the pace and the translations as a JSON line."""
    found, seconds = timed(decode, sources)
    tokens = sum(len(ids) + 1 for ids in found)  # with the end marker
    result = {
        "sentences_per_second": len(sources) / seconds,
        "tokens_per_second": tokens / seconds,
        "seconds": seconds,
        "arrangement": arrangement,
        "beam_width": decoder.beam_width,
        "ids": found,
    }
    print(json.dumps(result))


DEMO_STEPS = 300
PEERS = ("transformers", "ctranslate2")


def train_demo(folder: Path) -> str:
    """Train a model of the embedded corpus in the folder; a run that is there is resumed."""
    flags = {"model_folder": folder, "max_steps": DEMO_STEPS, "wandb_mode": "disabled"}
    command = [*python(), "train.py", *as_flags(flags)]
    if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        raise UserError("Training the demo failed: see the message above.")
    return str(folder)


def prepare_task(
    work: Path, model_folder: Path, source: str, reference: str, sentences: int
) -> tuple[Trained, Task, list[str]]:
    """The model, the task, which is saved in `work`, and the references, if there are any.

    The sentences are in the file `source`, or, if '', in the embedded demo.
    """
    found = CheckpointStore(CheckpointConfig(str(model_folder))).find("latest", World())
    path = found.path.absolute()
    trained = Trained(load(path))
    given = source or "demo:validation", reference or source, ("en", "it")
    sources, references = read_given_pairs(*given)
    task = Task(work, str(path), trained.tokenizer.encode(sources[:sentences]))
    task.save()
    return trained, task, references[:sentences] if reference or not source else []


def task_facts(trained: Trained, task: Task) -> dict[str, Any]:
    """The facts about model, sentences and peers for the report."""
    corpus = CorpusConfig.of(trained.config["corpus"])
    return {
        "corpus": f"{' '.join(map(short, corpus.dataset))} {'-'.join(corpus.languages)}",
        "parameters": f"{sum(p.numel() for p in trained.model.parameters()):,}",
        "sentences": len(task.sources),
        "source tokens": sum(map(len, task.sources)),
    } | {d.name: d.version for d in metadata.distributions() if d.name in PEERS}
