"""Task and command line of all trainers. The last line they print is their result, as JSON.

Does not import torch: its memory would count for contestants that only start a program.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.common import read_settings
from translate_ddp.settings import ModelConfig

WARMUP_STEPS = 5  # before the clock starts


@dataclass(frozen=True)
class Task:
    """Corpus and model, equal for all; benchmarks.training saves it in its work folder."""

    device: str  # "cpu" or "cuda"
    prepared: str  # folder of the encoded corpus
    flags: list[str]  # of train.py, for this corpus and model
    pairs: int
    vocabulary: int
    sentences: int  # whose targets have about `batch_tokens` tokens together
    batch_tokens: int
    seq_len: int
    label_smoothing: float
    model: ModelConfig

    def save(self, work: Path) -> None:
        (work / "task.json").write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, work: Path) -> "Task":
        content = json.loads((work / "task.json").read_text(encoding="utf-8"))
        return cls(**content | {"model": ModelConfig(**content["model"])})


@dataclass(frozen=True)
class Flags:
    work: Path
    """Folder of the task."""
    seconds: float = 30.0
    """Measured time, after warm-up."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of matrix products."""
    processes: int = 1
    """Number of processes."""
    threads: int = len(os.sched_getaffinity(0))
    """Of each process."""


def read_flags(description: str | None) -> tuple[Flags, Task]:
    flags = read_settings(Flags, description)
    return flags, Task.load(flags.work)
