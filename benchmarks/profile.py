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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import Settings, Values, read_settings_and_flags
from benchmarks.flops import step_flop
from benchmarks.machine import facts, matrix_peaks
from benchmarks.report import Row, write_report
from benchmarks.step_parts import Part, profile_steps
from benchmarks.workbench import Training, open_training, precision, take_steps, time_steps
from translate_ddp.errors import UserError, report_errors
from translate_ddp.runtime.launch import is_first_process

UNTIMED_STEPS = 3


@dataclass(frozen=True)
class ProfileBenchmark(Settings):
    steps: int = 10
    """Number of profiled steps; as many are timed before without the profiler."""


def main() -> None:
    prints = is_first_process(os.environ)
    with report_errors(prints):
        settings, flags = read_settings_and_flags(ProfileBenchmark, __doc__)
        if "--compile" in flags:
            raise UserError("Operators of compiled kernels have no names: leave out --compile.")
        with open_training(flags) as training:
            peaks = [matrix_peaks(training.world.device)] if prints else []
            training.warm_up()
            steps = take_steps(training)
            time_steps(training, steps, UNTIMED_STEPS)
            timed = [
                measured(training, *step) for step in time_steps(training, steps, settings.steps)
            ]
            parts = profile_steps(training, steps, settings.steps)
            if prints:
                peaks.append(matrix_peaks(training.world.device))
                best = {name: max(peak[name] for peak in peaks) for name in peaks[0]}
                report(training, timed, parts, best, settings.results)


def measured(training: Training, seconds: float, rows: Any) -> dict[str, float]:
    """The seconds of a step, and the FLOP of its real tokens, divided by the number of ranks."""
    lengths, size = training.sampler.lengths, training.world.size
    flop = step_flop(training.model, lengths.source[rows], lengths.target[rows])
    copies = training.config.loss.copies
    of_rank = {name: copies * value / size for name, value in vars(flop).items()}
    return {"seconds": seconds, **of_rank, "FLOP/s": sum(of_rank.values()) / seconds}


def report(
    training: Training,
    timed: list[dict[str, float]],
    parts: Mapping[str, Part],
    peaks: Mapping[str, float],
    folder: Path,
) -> None:
    def median(name: str) -> float:
        return statistics.median(step[name] for step in timed)

    kind = precision(training)
    total = sum(part.seconds for part in parts.values())
    size, threads = training.world.size, torch.get_num_threads()
    gflop = ", ".join(f"{median(k) / 1e9:.1f} {k}" for k in ("linear", "projection", "attention"))
    notes = [
        f"{kind}, {size} x {threads} processes x threads, vocabulary "
        f"{len(training.data.tokenizer):,}; medians of {len(timed)} steps. A step takes "
        f"{1e3 * median('seconds'):.1f} ms without the profiler and {1e3 * total:.1f} ms with it. "
        f"Measured matrix peaks: {peaks['fp32']:.0f} GFLOP/s fp32, {peaks['bf16']:.0f} bf16.",
        f"Model FLOP utilisation: **{median('FLOP/s') / 1e9 / peaks[kind]:.1%}** of the {kind} "
        f"peak. GFLOP of the real tokens of a step, by `benchmarks/flops.py`: {gflop}.",
    ]
    write_report(
        "profile",
        "Where the time of a training step goes",
        [Row(name, part_values(part, total, peaks[kind])) for name, part in parts.items()],
        facts=facts(),
        raw={
            "peaks_gflops": peaks,
            "timed": timed,
            "parts": {name: vars(part) for name, part in parts.items()},
        },
        folder=folder,
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
