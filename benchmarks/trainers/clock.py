"""The pace of a loop that this process runs: real target tokens a second, after warm-up."""

import time

import torch

from benchmarks.trainers.task import WARMUP_STEPS, answer


class Clock:
    """Counts finished steps, and says when enough of them were measured."""

    def __init__(self, seconds: float) -> None:
        self._wanted_seconds = seconds
        self._steps = -WARMUP_STEPS
        self._begun = self._now = 0.0
        self._target_tokens = self._real = self._positions = 0

    def is_over(self) -> bool:
        return self._steps > 0 and self._now - self._begun >= self._wanted_seconds

    def count(self, target_tokens: int, real: int, positions: int) -> None:
        """A step has ended: its real target tokens, and of its `positions` on both sides those
        that are `real`.
        """
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._now = time.perf_counter()
        self._steps += 1
        if self._steps <= 0:
            self._begun = self._now
            return
        self._target_tokens += target_tokens
        self._real += real
        self._positions += positions

    def answer(self) -> None:
        padding = 1 - self._real / self._positions
        answer(self._target_tokens, self._now - self._begun, self._steps, padding)
