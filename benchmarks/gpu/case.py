"""Input and output of the parts: sizes for the device, time left, cases and measurements."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from benchmarks.common import Values, as_flags

CPU_SHAPE = {"d_model": 64, "num_heads": 4, "d_ff": 128, "seq_len": 64}
CPU_SHAPE |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
CPU_TOKENS_DIVISOR = 40  # a step of 25,000 tokens has 625 on a CPU
STEP_TOKENS = 25_000  # the target tokens of a step of base and big

PartName = Literal["facts", "training", "sweep", "peer", "decoding", "waits", "compiled"]
# In the order in which they run: short and informative parts first. The title in the report, the
# seconds that must be left for the part to start, and those after which it is stopped.
PARTS: dict[PartName, tuple[str, float, float]] = {
    "facts": ("The device", 5, 60),
    "training": ("Training steps", 20, 120),
    "sweep": ("Tokens a step", 15, 90),
    "peer": ("Training beside transformers", 20, 90),
    "decoding": ("Decoding beside transformers", 30, 150),
    "waits": ("Host waits in a training step", 10, 60),
    "compiled": ("Compiled training steps", 60, 300),
}
Status = Literal["done", "failed", "missing", "needs a GPU", "out of memory", "skipped"]


@dataclass(frozen=True)
class Sizes:
    pairs: int = 400_000
    vocabulary: int = 32_000
    window_seconds: float = 5.0
    sentences: int = 1_000  # to translate


CPU_SIZES = Sizes(4_000, 500, 0.4, 200)


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
        return max(128, on_gpu // CPU_TOKENS_DIVISOR) if self.cpu else on_gpu

    def flags(self, preset: str, tokens: int = STEP_TOKENS) -> list[str]:
        """Flags of train.py for the preset and steps, and micro-batches, of so many tokens."""
        flags: dict[str, Any] = {"preset": preset} | (CPU_SHAPE if self.cpu else {})
        flags |= {"batch_tokens": self.tokens(tokens), "max_tokens": self.tokens(tokens)}
        return as_flags(flags)

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
