"""What every part is given: the device, the sizes that suit it, and the time that is left."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

CPU_SHAPE = {
    "d_model": 64,
    "num_heads": 4,
    "d_ff": 128,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "seq_len": 64,
}
CPU_TOKENS_DIVISOR = 40  # a step of 25,000 tokens has 625 of them on a CPU


@dataclass(frozen=True)
class Lab:
    """Where a part runs and until when. It does without torch."""

    cpu: bool
    deadline: float  # of time.monotonic, which all processes of a machine share
    peaks: dict[str, float] = field(default_factory=dict)  # GFLOP/s by type, if measured before

    @property
    def device(self) -> str:
        return "cpu" if self.cpu else "cuda"

    @property
    def pairs(self) -> int:
        return 4_000 if self.cpu else 400_000

    @property
    def vocabulary(self) -> int:
        return 500 if self.cpu else 32_000

    @property
    def window_seconds(self) -> float:
        return 0.4 if self.cpu else 5.0

    @property
    def profiled_steps(self) -> int:
        return 1 if self.cpu else 3

    @property
    def sentences(self) -> int:
        return 200 if self.cpu else 1_000

    def tokens(self, on_gpu: int) -> int:
        return max(128, on_gpu // CPU_TOKENS_DIVISOR) if self.cpu else on_gpu

    def flags(self, preset: str, tokens: int) -> list[str]:
        """Flags of train.py for steps of so many tokens in one pass, by the preset's model."""
        sizes: dict[str, Any] = {"preset": preset} | (CPU_SHAPE if self.cpu else {})
        sizes |= {"batch_tokens": self.tokens(tokens), "max_tokens": self.tokens(tokens)}
        return [word for name, value in sizes.items() for word in (f"--{name}", str(value))]

    def left(self) -> float:
        """Seconds until this part is stopped."""
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class Found:
    """What a measurement found: a row of the table, and numbers that only gpu.json holds."""

    values: dict[str, str | float]
    raw: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One measurement of a part."""

    name: str
    run: Callable[[], Found]
    seconds: float = 5.0  # that must be left for it to start on a GPU


class Failed(Exception):
    """A measurement that failed and nevertheless found something."""

    def __init__(self, problem: str, found: Found) -> None:
        super().__init__(problem)
        self.found = found


class Missing(Exception):
    """A library or file is not there."""


class NeedsGpu(Exception):
    """There is nothing to measure without a GPU."""


def require(*modules: str) -> None:
    """Raises Missing if one of the libraries is not installed."""
    absent = [module for module in modules if find_spec(module) is None]
    if absent:
        raise Missing(", ".join(absent))
