"""The pace of a training loop in this process: real target tokens per second after warm-up."""

import time

from benchmarks.machine import default_device, wait_for
from benchmarks.trainers.task import WARMUP_STEPS, print_result


class Clock:
    """Counts finished steps until the measured time has passed."""

    def __init__(self, seconds: float) -> None:
        self._wanted_seconds = seconds
        self._steps = -WARMUP_STEPS
        self._begin = self._now = 0.0
        self._target_tokens = self._real = 0
        self._positions = 0.0

    def is_over(self) -> bool:
        return self._steps > 0 and self._now - self._begin >= self._wanted_seconds

    def count(self, target_tokens: int, real: int, positions: float) -> None:
        """Count a finished step: its real target tokens; real tokens and positions, both sides."""
        wait_for(default_device())
        self._now = time.perf_counter()
        self._steps += 1
        if self._steps <= 0:
            self._begin = self._now
            return
        self._target_tokens += target_tokens
        self._real += real
        self._positions += positions

    def print_result(self) -> None:
        padding = 1 - self._real / self._positions
        print_result(self._target_tokens, self._now - self._begin, self._steps, padding)
