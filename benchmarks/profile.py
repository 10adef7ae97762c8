"""Where the time of a training step goes: `python -m benchmarks.profile [flags of train.py]`.

The own time of every operator belongs to one part of the step (benchmarks/step_parts.py). Time
of no operator is the host's: Python, autograd's bookkeeping, views and allocations. On a GPU the
time of a part is that of its kernels, and the host's is the time without a kernel; the benchmark
waits for the end of each step. So the shares add up to the step. Under torchrun it is the step of
rank 0, and all-reduce is the time during which nothing else ran.

The profiler itself takes time, mostly on the host: the length of a step is measured without it.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.common import Settings, Values, read_settings_and_flags
from benchmarks.machine import facts, matrix_peaks
from benchmarks.report import Row, write_report
from benchmarks.step_parts import Part, TimedStep, median_parts, profile_step, time_steps
from benchmarks.workbench import Training, open_training, take_steps
from translate_ddp.errors import UserError, report_errors
from translate_ddp.runtime.launcher import read_launch


@dataclass(frozen=True)
class ProfileBenchmark(Settings):
    steps: int = 10
    """Number of profiled steps; as many are timed before without the profiler."""

    def __post_init__(self) -> None:
        self.require_at_least(1, "steps")


def main() -> None:
    prints = read_launch(os.environ).rank == 0
    with report_errors(prints):
        settings, flags = read_settings_and_flags(ProfileBenchmark, __doc__)
        if "--compile" in flags:
            raise UserError("Operators of compiled kernels have no names: leave out --compile.")
        with open_training(flags) as training:
            peaks = [matrix_peaks(training.world.device)] if prints else []
            training.warm_up()
            steps = take_steps(training)
            timed = time_steps(training, steps, settings.steps)
            profiled = [profile_step(training, steps) for _ in range(settings.steps)]
            if prints:
                peaks.append(matrix_peaks(training.world.device))
                best = {name: max(peak[name] for peak in peaks) for name in peaks[0]}
                report(training, timed, median_parts(profiled), best, settings.results)


def report(
    training: Training,
    timed: Sequence[TimedStep],
    parts: Mapping[str, Part],
    peaks: Mapping[str, float],
    folder: Path,
) -> None:
    precision = "bf16" if training.model.dtype == torch.bfloat16 else "fp32"
    total = sum(part.seconds for part in parts.values())
    step_seconds = statistics.median(step.seconds for step in timed)
    pace = statistics.median(step.flop.total / step.seconds for step in timed)
    mean = {
        name: statistics.mean(getattr(step.flop, name) for step in timed) / 1e9
        for name in ("linear", "projection", "attention")
    }
    size, threads = training.world.size, torch.get_num_threads()
    notes = [
        f"{precision}, {size} process{'es' if size > 1 else ''} of {threads} thread(s), "
        f"vocabulary {len(training.data.tokenizer):,}; medians of {len(timed)} steps. A step "
        f"takes {1e3 * step_seconds:.1f} ms without the profiler and {1e3 * total:.1f} ms with it. "
        f"Measured matrix peaks: {peaks['fp32']:.0f} GFLOP/s fp32, {peaks['bf16']:.0f} bf16.",
        f"Model FLOP utilisation: **{pace / 1e9 / peaks[precision]:.1%}** of the {precision} peak, "
        f"by {sum(mean.values()):.1f} GFLOP a step: {mean['linear']:.1f} in linear layers, "
        f"{mean['projection']:.1f} in the projection, {mean['attention']:.1f} in attention. "
        "They count real tokens: 6 x weights of a matrix x the tokens it multiplies "
        "(source tokens for the encoder and for the keys and values of cross-attention, target "
        "tokens for the rest), and 12 x d_model x positions x positions for each attention.",
    ]
    write_report(
        "profile",
        "Where the time of a training step goes",
        [Row(name, part_values(part, total, peaks[precision])) for name, part in parts.items()],
        ["share %", "ms a step", "GFLOP/s of its products", "% of peak"],
        facts=facts(),
        raw={
            "peaks_gflops": peaks,
            "timed": [{"seconds": step.seconds, "flop": vars(step.flop)} for step in timed],
            "parts": {name: vars(part) for name, part in parts.items()},
        },
        folder=folder,
        first_column="part",
        notes=notes,
    )


def part_values(part: Part, total: float, peak: float) -> Values:
    values: Values = {"share %": 100 * part.seconds / total, "ms a step": 1e3 * part.seconds}
    if part.product_flop:
        pace = part.product_flop / part.product_seconds / 1e9
        values |= {"GFLOP/s of its products": pace, "% of peak": 100 * pace / peak}
    return values


if __name__ == "__main__":
    main()
