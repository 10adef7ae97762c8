"""Input and output of the parts: sizes for the device, time left, cases and measurements."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from benchmarks.common import Values, as_flags
from benchmarks.random_pairs import EQUAL
from translate_ddp.presets import PRESETS

CPU_SHAPE = {"d_model": 64, "num_heads": 4, "d_ff": 128, "seq_len": 64}
CPU_SHAPE |= {"num_encoder_layers": 1, "num_decoder_layers": 1, "vocab_size": 500}
CPU_TOKENS_DIVISOR = 40  # a step of 25,000 tokens has 625 on a CPU

# fmt: off
PartName = Literal[
    "facts", "attention", "traces", "training", "sweep", "correctness", "decoding", "peer", "waits",
    "ranks",
]
# fmt: on
# In the order in which they run: short and informative parts first. The title in the report, the
# seconds that must be left for the part to start, and those after which it is stopped.
PARTS: dict[PartName, tuple[str, float, float]] = {
    "facts": ("The device", 5, 30),
    "attention": ("Attention of short sentences, folded", 10, 45),
    "traces": ("Where the time of a step goes", 15, 60),
    "training": ("Training steps of the presets", 20, 90),
    "sweep": ("One micro-batch a step", 15, 60),
    "correctness": ("Losses beside the losses of a CPU", 10, 60),
    "decoding": ("Decoding beside transformers and CTranslate2", 30, 90),
    "peer": ("Training beside transformers", 20, 60),
    "waits": ("Host waits in a training step", 10, 30),
    "ranks": ("Several GPUs", 40, 330),
}
Status = Literal["done", "failed", "missing", "needs a GPU", "out of memory", "skipped"]


@dataclass(frozen=True)
class Sizes:
    pairs: int = 400_000
    window_seconds: float = 4.0
    sentences: int = 1_000  # to translate


CPU_SIZES = Sizes(4_000, 0.2, 64)


@dataclass(frozen=True)
class Setup:
    """Device, time limit and results folder of a part. Does not import torch."""

    cpu: bool
    deadline: float  # of time.monotonic, which is the same in all processes
    folder: Path

    @property
    def device(self) -> str:
        return "cpu" if self.cpu else "cuda"

    @property
    def sizes(self) -> Sizes:
        return CPU_SIZES if self.cpu else Sizes()

    def tokens(self, on_gpu: int) -> int:
        """These tokens, on a CPU fewer; a multiple of the length of equal sentences."""
        tokens = max(128, on_gpu // CPU_TOKENS_DIVISOR) if self.cpu else on_gpu
        return tokens - tokens % EQUAL.longest

    def flags(self, preset: str, **further: Any) -> list[str]:
        """Flags of train.py for the preset, with `further` settings."""
        flags: dict[str, Any] = {"preset": preset}
        if self.cpu:
            tokens = self.tokens(PRESETS[preset]["batch_tokens"])
            flags |= CPU_SHAPE | {"batch_tokens": tokens}
        return as_flags(flags | further)

    def left(self) -> float:
        """Seconds until the time limit of the part."""
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class Measurement:
    """A row of a part's table and numbers for gpu.json only, or the reason why they are missing."""

    values: Values = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    status: Status = "done"
    part: str = ""
    name: str = ""
    seconds: float = 0.0  # including preparation

    @property
    def outcome(self) -> str:
        return f"{self.status}: {self.problem}" if self.problem else self.status


@dataclass(frozen=True)
class Case:
    """One measurement of a part."""

    name: str
    run: Callable[[], Measurement]
    seconds: float = 5.0  # must be left for it to start on a GPU


class Unavailable(Exception):
    """A measurement that is not possible here; not a failure."""

    def __init__(self, status: Status, problem: str = "") -> None:
        super().__init__(problem)
        self.status: Status = status


def require(*modules: str) -> None:
    """Raises Unavailable if one of the libraries is not installed."""
    absent = [module for module in modules if find_spec(module) is None]
    if absent:
        raise Unavailable("missing", ", ".join(absent))
