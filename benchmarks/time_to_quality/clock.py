"""The clock of a contestant: snapshots of its weights by training time.

It starts at the end of the first step. What a snapshot takes is not counted.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from benchmarks.common import read_settings
from benchmarks.machine import default_device, wait_for
from benchmarks.trainers.task import Flags, Task


@dataclass(frozen=True)
class Contestant(Flags):
    """Command line of a contestant; `seconds` is its whole training time."""

    learning_rate: float = 1e-3
    """Peak learning rate."""
    warmup_steps: int = 500
    """Linear warm-up steps; inverse square root decay follows."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """Of ours; the others have Adam."""
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

    def step(self, weights: Callable[[], dict[str, torch.Tensor]]) -> bool:
        """Count a finished step, take a snapshot if one is due; returns whether time is over.

        `weights` gives them by the names of our Transformer.
        """
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


def list_snapshots(folder: Path) -> list[tuple[float, int, Path]]:
    """Seconds, steps and file of each snapshot, in order."""
    paths = sorted(folder.glob("*.pt"))
    return [(float(p.stem.split("-")[0]), int(p.stem.split("-")[1]), p) for p in paths]
