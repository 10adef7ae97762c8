"""One measurement of a curve: `python -m benchmarks.curve_point`, a process of its own.

Trains on random ids and prints the time of a step and the memory of rank 0 as a JSON line.
"""

import json
import statistics
from dataclasses import dataclass

import torch

from benchmarks.common import as_flags, read_settings
from benchmarks.machine import peak_mib, reset_peak
from benchmarks.random_pairs import random_pairs
from benchmarks.workbench import open_training, take_steps, time_steps
from translate_ddp.errors import report_errors

STEPS_AT_LEAST = 3
STEPS_PER_EPOCH = 4


@dataclass(frozen=True)
class Point:
    """The settings of the measured trainer; all but one of a curve's points are equal."""

    curve: str
    x: int
    precision: str
    length: int = 32  # of all sentences, on both sides
    d_model: int = 128
    vocabulary: int = 4096
    batch: int = 2048  # target tokens of a step
    max_tokens: int = 2048
    ranks: int = 1
    threads: int = 0  # of each rank; 0 divides the cores
    seconds: float = 3.0  # timed

    @property
    def name(self) -> str:
        x = f"{self.ranks} x {self.threads}" if self.curve == "ranks" else f"{self.x:,}"
        return f"{self.curve} {x}"

    def flags(self) -> list[str]:
        """Flags of train.py: 2+2 layers and heads of width 64, as is usual."""
        settings = {
            "d_model": self.d_model,
            "num_heads": self.d_model // 64,
            "d_ff": 4 * self.d_model,
            "dropout": 0.1,
            "seq_len": self.length,
            "batch_tokens": self.batch,
            "max_tokens": self.max_tokens,
            "precision": self.precision,
        }
        return as_flags(settings)


def main() -> None:
    with report_errors():
        measure(read_settings(Point, __doc__))


def measure(point: Point) -> None:
    """Train with the settings of this point and print time and memory of a step."""
    sentences = point.batch // point.length
    data = random_pairs(STEPS_PER_EPOCH * sentences, point.vocabulary, point.length)
    with open_training(point.flags(), data) as training:
        world = training.world
        if point.threads:
            torch.set_num_threads(point.threads)
        start_mib = reset_peak(world.device)
        training.warm_up()
        steps = take_steps(training)
        time_steps(training, steps, 1, point.seconds / 3)
        timed = [s for s, _ in time_steps(training, steps, STEPS_AT_LEAST, point.seconds)]
        result = {
            "step_seconds": statistics.median(timed),
            "fastest": min(timed),
            "slowest": max(timed),
            "steps": len(timed),
            "target_tokens": sentences * point.length,
            "start_mib": start_mib,
            "peak_mib": peak_mib(world.device),
        }
    if world.is_main:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
