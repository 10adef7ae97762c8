"""What every decoder is given and how it is timed: ids in, ids out, on the same sentences.

A task is a folder: the checkpoint's path, the sources as token ids, and what the decoders write.
Outside the clock are loading, conversion, tokenization and one warm-up call.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import tyro

from translate_ddp.commands.translate import build_model
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.modeling.decoding import length_limit
from translate_ddp.settings import ModelConfig
from translate_ddp.training.checkpoint import State, load

WARM_UP = 64  # sentences

Ids = list[list[int]]


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
        return Trained(load(Path(self.checkpoint).read_bytes(), self.checkpoint))

    @property
    def limit(self) -> int:
        """How long the translation of the longest source may become."""
        return limit_of(self.sources)


class Trained:
    """A model in fp32 on the device that this machine has, with its tokenizer."""

    def __init__(self, state: State) -> None:
        self.about: dict[str, Any] = state["run"]["about"]  # the configuration of its training
        self.shape = ModelConfig(**self.about["model"])
        self.tokenizer = Tokenizer(state["tokenizer"])
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = build_model(state, len(self.tokenizer)).to(self.device).eval()


@dataclass(frozen=True)
class Decoder:
    """What the command lines of all decoders have in common."""

    work: Path
    """Folder of the task."""
    write_to: str
    """Name of the file in it that receives the translations as ids."""
    beam_width: int = 1
    """Hypotheses kept a sentence; 1 is greedy."""


Flags = TypeVar("Flags", bound=Decoder)


def limit_of(sources: Ids) -> int:
    return max(length_limit(len(source)) for source in sources)


def batches(rows: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (rows[first : first + size] for first in range(0, len(rows), size))


def read_flags(decoder: type[Flags], about: str | None) -> Flags:
    return tyro.cli(decoder, description=about, use_underscores=True)


def time_decoding(
    decoder: Decoder, sources: Ids, decode: Callable[[Ids], Ids], arrangement: str
) -> None:
    """Translate the sources once, write what came out, and print the pace as one JSON line."""
    decode(sources[:WARM_UP])
    begun = time.perf_counter()
    found = decode(sources)
    seconds = time.perf_counter() - begun
    # Some know one limit for many sentences only; what they wrote beyond a sentence's own is cut.
    pairs = zip(sources, found, strict=True)
    kept = [ids[: length_limit(len(source))] for source, ids in pairs]
    (decoder.work / decoder.write_to).write_text(json.dumps(kept), encoding="utf-8")
    tokens = sum(len(ids) + 1 for ids in found)  # with the end marker
    result = {
        "sentences_per_second": len(sources) / seconds,
        "tokens_per_second": tokens / seconds,
        "seconds": seconds,
        "arrangement": arrangement,
        "translations": decoder.write_to,
    }
    print(json.dumps(result))
