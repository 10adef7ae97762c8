"""What is measured between two records: the training loss, the steps skipped, the pace."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Window:
    """The training loss since the last record, exact whenever it is saved and restored.

    Each step's sum keeps a place of its own, and ranks are summed place by place: the result does
    not depend on how many steps were summed at once. Nothing here waits for the device.
    """

    losses: Tensor
    tokens: Tensor  # of the steps that count
    skipped: Tensor  # 1.0 for a step that was not counted yet among the skipped ones

    @classmethod
    def of(cls, steps: int, device: torch.device) -> "Window":
        losses = torch.zeros(steps, dtype=torch.float64, device=device)
        return cls(losses, torch.zeros(steps, dtype=torch.int64), torch.zeros_like(losses))

    def add(self, global_step: int, loss: Tensor, tokens: int, skipped: Tensor) -> None:
        place = global_step % len(self.losses)
        self.losses[place] = torch.where(skipped > 0, 0.0, loss)
        self.tokens[place] = tokens
        self.skipped[place] = skipped

    def take_skipped(self, first: int, end: int) -> list[bool]:
        """Whether each of these steps was skipped; asked once, for their tokens go."""
        flags = self.skipped.cpu() > 0
        self.tokens[flags] = 0
        self.skipped.zero_()
        return [bool(flags[step % len(flags)]) for step in range(first, end)]

    def mean_loss(self, losses: Tensor) -> float:
        """Of `losses` summed over ranks; NaN if every step was skipped."""
        tokens = int(self.tokens.sum())
        return float(losses.sum()) / tokens if tokens else float("nan")

    def clear(self) -> None:
        self.losses.zero_()
        self.tokens.zero_()


class Pace:
    """Target tokens a second since the last record; validation and saving do not count."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.tokens = 0
        self.started = time.perf_counter()

    @contextmanager
    def paused(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.started += time.perf_counter() - begun

    def tokens_per_second(self) -> float:
        return self.tokens / (time.perf_counter() - self.started)
