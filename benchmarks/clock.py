"""The pace of a training loop in this process: real target tokens per second after warm-up."""

import time
from typing import Any

import torch

from benchmarks.machine import default_device, wait_for
from benchmarks.trainers.task import WARMUP_STEPS


class Clock:
    """Counts steps over so many seconds; waits for the device at both ends of this window only."""

    def __init__(
        self, seconds: float, device: torch.device | None = None, warmup_steps: int = WARMUP_STEPS
    ) -> None:
        self.is_over = False
        self._seconds, self._device = seconds, device or default_device()
        self._steps = -warmup_steps
        self._begin = self._end = 0.0
        self._target_tokens, self._real, self._positions = 0, 0, 0.0

    def count(self, target_tokens: int, real: int, positions: float) -> None:
        """Count a finished step: its real target tokens; real tokens and positions, both sides."""
        self._steps += 1
        if self._steps > 0:
            self._target_tokens += target_tokens
            self._real += real
            self._positions += positions
            self.is_over = time.perf_counter() - self._begin >= self._seconds
        if self._steps == 0 or self.is_over:
            wait_for(self._device)
            self._begin, self._end = self._begin or time.perf_counter(), time.perf_counter()

    def result(self) -> dict[str, Any]:
        seconds = self._end - self._begin
        return {
            "target_tokens_per_second": self._target_tokens / seconds,
            "steps": self._steps,
            "seconds": seconds,
            "padding_share": 1 - self._real / self._positions,
        }
