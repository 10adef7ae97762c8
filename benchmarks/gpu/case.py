"""Input and output of the parts: sizes for the device, time left, cases and results."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from benchmarks.common import Values, as_flags

CPU_SHAPE = {
    "d_model": 64,
    "num_heads": 4,
    "d_ff": 128,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "seq_len": 64,
}
CPU_TOKENS_DIVISOR = 40  # a step of 25,000 tokens has 625 on a CPU


@dataclass(frozen=True)
class Sizes:
    pairs: int = 400_000
    vocabulary: int = 32_000
    window_seconds: float = 5.0
    profiled_steps: int = 3
    sentences: int = 1_000  # to translate


CPU_SIZES = Sizes(4_000, 500, 0.4, 1, 200)


@dataclass(frozen=True)
class Setup:
    """Device, sizes and time limit of a part. Does not import torch."""

    cpu: bool
    deadline: float  # of time.monotonic, which is the same in all processes
    peaks: dict[str, float] = field(default_factory=dict)  # GFLOP/s by dtype, if already measured

    @property
    def device(self) -> str:
        return "cpu" if self.cpu else "cuda"

    @property
    def sizes(self) -> Sizes:
        return CPU_SIZES if self.cpu else Sizes()

    def tokens(self, on_gpu: int) -> int:
        return max(128, on_gpu // CPU_TOKENS_DIVISOR) if self.cpu else on_gpu

    def flags(self, preset: str, tokens: int) -> list[str]:
        """Flags of train.py for the preset's model and steps of so many tokens in one pass."""
        flags: dict[str, Any] = {"preset": preset} | (CPU_SHAPE if self.cpu else {})
        flags |= {"batch_tokens": self.tokens(tokens), "max_tokens": self.tokens(tokens)}
        return as_flags(flags)

    def left(self) -> float:
        """Seconds until the time limit of the part."""
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class Found:
    """Result of a measurement: a row of the table, and numbers for gpu.json only."""

    values: Values
    raw: dict[str, Any] = field(default_factory=dict)
    problem: str = ""  # why the measurement failed nevertheless


@dataclass(frozen=True)
class Case:
    """One measurement of a part."""

    name: str
    run: Callable[[], Found]
    seconds: float = 5.0  # must be left for it to start on a GPU


class Missing(Exception):
    """A library or file is missing."""


class NeedsGpu(Exception):
    """This measurement needs a GPU."""


def require(*modules: str) -> None:
    """Raises Missing if one of the libraries is not installed."""
    absent = [module for module in modules if find_spec(module) is None]
    if absent:
        raise Missing(", ".join(absent))
