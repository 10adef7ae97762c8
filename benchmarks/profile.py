"""Where the time of a training step goes: `python -m benchmarks.profile [flags of train.py]`.

Every operator's own time belongs to one part of the step, told by its name, by that of the
operator it works for, and by its shapes: a dimension as large as the vocabulary is the
projection's. What no operator accounts for is the host's: Python, autograd's bookkeeping, views and
allocations. On a GPU the parts are the time of their kernels, and the host's is the time in which
the GPU had none, each step being waited for. So the shares add up to the step. Under torchrun it is
rank 0's step, and all-reduce is the time in which one was under way and nothing else.

The profiler takes time itself, of the host above all: the step's length is measured without it.
"""

import argparse
import os
import re
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.flops import StepFlop, step_flop
from benchmarks.machine import facts, matrix_peaks
from benchmarks.report import RESULTS, Row, pyplot, write_report
from benchmarks.workbench import open_trainer, take_steps, wait_for
from translate_ddp.data.batches import shard
from translate_ddp.errors import UserError, report_errors
from translate_ddp.runtime.launcher import read_launch
from translate_ddp.training.trainer import Trainer

WINDOW, DROPOUT = "benchmark window", "benchmark dropout"  # names of ranges in the profile
UNTIMED_STEPS = 3  # before anything is measured

PRODUCTS, ATTENTION, LOSS = "matrix products", "attention", "projection and loss"
DROPPING, NORMS, EMBEDDINGS = "dropout and residual sum", "normalisation", "embeddings"
OTHER, OPTIMIZER = "other elementwise and copies", "optimizer"
ALL_REDUCE, HOST = "all-reduce", "host"
PARTS = (PRODUCTS, LOSS, ATTENTION, DROPPING, NORMS, EMBEDDINGS, OTHER, OPTIMIZER, ALL_REDUCE, HOST)

COLLECTIVE = re.compile(r"gloo|nccl|c10d", re.IGNORECASE)
PRODUCT = re.compile(r"aten::(add|b|badd)?(mm|bmm)$")
# What only describes memory, or hands on to another operator: dispatch, so the host's.
DISPATCH = re.compile(
    r"aten::(view|_unsafe_view|reshape|t|transpose|permute|as_strided|expand|expand_as|unbind|chunk"
    r"|split|narrow|slice|select|unsqueeze|squeeze|detach|alias|flatten|unflatten|empty\w*|resize_"
    r"|to|linear|matmul|result_type|resolve_conj|lift_fresh|_local_scalar_dense|item)$"
)
# The first that fits the operator's name or one that it works for.
BY_NAME = (
    (OPTIMIZER, re.compile(r"_foreach_|_fused_adam|vector_norm|^Optimizer\.")),
    (DROPPING, re.compile(rf"dropout|bernoulli|random_|addcmul|{DROPOUT}", re.IGNORECASE)),
    (EMBEDDINGS, re.compile(r"embedding|aten::(sin|cos|arange)$", re.IGNORECASE)),
)
BY_NAME_NOT_OF_VOCABULARY = (
    (ATTENTION, re.compile(r"scaled_dot_product|flash|aten::(b|badd)mm$|softmax|masked_fill")),
    (PRODUCTS, re.compile(r"aten::(add)?mm$|mkldnn_linear")),
    (NORMS, re.compile(r"layer_?norm", re.IGNORECASE)),
)


@dataclass
class Part:
    """What a profiled step spent on one part, and what its matrix products computed."""

    seconds: float = 0.0
    product_seconds: float = 0.0
    product_flop: float = 0.0  # padding included


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=10, help="profiled; as many are timed before")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    settings, flags = parser.parse_known_args()
    prints = read_launch(os.environ).rank == 0
    with report_errors(prints), open_trainer(flags) as trainer:
        if "--compile" in flags:
            raise UserError("Compiled kernels have no names to tell them by: leave out --compile.")
        peaks = [matrix_peaks(trainer.world.device)] if prints else []
        trainer.warm_up()
        steps = take_steps(trainer)
        timed = time_steps(trainer, steps, settings.steps)
        profiled = [profile_step(trainer, steps) for _ in range(settings.steps)]
        if prints:
            peaks.append(matrix_peaks(trainer.world.device))
            best = {name: max(peak[name] for peak in peaks) for name in peaks[0]}
            report(trainer, timed, typical(profiled), best, settings.results)


@dataclass(frozen=True)
class TimedStep:
    seconds: float
    flop: StepFlop  # what its real tokens ask of this rank


def time_steps(trainer: Trainer, steps: Iterator[np.ndarray], count: int) -> list[TimedStep]:
    """So many steps without the profiler, after some that are not timed."""
    lengths, world = trainer.sampler.lengths, trainer.world
    timed = []
    for _ in range(UNTIMED_STEPS + count):
        begun = time.perf_counter()
        rows = shard(next(steps), world.rank, world.size)
        wait_for(world.device)
        seconds = time.perf_counter() - begun
        flop = step_flop(trainer.model, lengths.source[rows], lengths.target[rows])
        timed.append(TimedStep(seconds, flop))
    return timed[UNTIMED_STEPS:]


def profile_step(trainer: Trainer, steps: Iterator[np.ndarray]) -> dict[str, Part]:
    device = trainer.world.device
    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if device.type == "cuda" else []
    with (
        _dropout_ranges(trainer.model),
        profile(activities=activities, record_shapes=True, with_flops=True) as recorded,
        record_function(WINDOW),
    ):
        next(steps)
        wait_for(device)
    return attribute(list(recorded.events() or []), len(trainer.data.tokenizer), device)


def typical(profiled: Sequence[dict[str, Part]]) -> dict[str, Part]:
    """Of each part the medians over all steps: a machine that others use stalls at times."""

    def median(name: str, key: str) -> float:
        return statistics.median(getattr(parts[name], key) for parts in profiled)

    return {name: Part(*(median(name, field.name) for field in fields(Part))) for name in PARTS}


@contextmanager
def _dropout_ranges(model: nn.Module) -> Iterator[None]:
    """Give the operators of dropout modules a name: masks are made of quite ordinary ones."""
    open_ranges: list[Any] = []

    def enter(*_: Any) -> None:
        open_ranges.append(record_function(DROPOUT))
        open_ranges[-1].__enter__()

    def leave(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    with ExitStack() as hooks:
        for module in model.modules():
            if "Dropout" in type(module).__name__:
                hooks.callback(module.register_forward_pre_hook(enter).remove)
                hooks.callback(module.register_forward_hook(leave).remove)
        yield


def attribute(events: list[Any], vocabulary: int, device: torch.device) -> dict[str, Part]:
    """Divide the profiled window among the parts."""
    window = next(e for e in events if e.name == WINDOW and e.device_type == DeviceType.CPU)
    on_gpu = device.type == "cuda"
    parts = {name: Part() for name in PARTS}
    for event in events:
        if event.device_type != DeviceType.CPU or not (on_gpu or event.thread == window.thread):
            continue  # on a GPU another thread runs backward
        name = part_of(event, vocabulary)
        if name is None or (on_gpu and name == ALL_REDUCE):
            continue
        own = (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1e6
        parts[name].seconds += own
        if PRODUCT.match(event.name):
            parts[name].product_seconds += own
            parts[name].product_flop += event.flops or 0
    parts[ALL_REDUCE].seconds += _alone_in_all_reduce(events, window, on_gpu)
    accounted = sum(part.seconds for part in parts.values())
    parts[HOST].seconds = window.time_range.elapsed_us() / 1e6 - accounted
    return parts


def part_of(event: Any, vocabulary: int) -> str | None:
    """The part that an operator's own time belongs to; None is the host."""
    names = list(_names(event))
    if COLLECTIVE.search(event.name):
        return ALL_REDUCE
    if not event.name.startswith("aten::") or DISPATCH.match(event.name):
        return None
    for part, pattern in BY_NAME:
        if any(map(pattern.search, names)):
            return part
    if any(vocabulary in _dimensions(shape) for shape in event.input_shapes or ()):
        return LOSS
    for part, pattern in BY_NAME_NOT_OF_VOCABULARY:
        if any(map(pattern.search, names)):
            return part
    return OTHER


def _names(event: Any) -> Iterator[str]:
    """Its own, then those of the operators that it works for."""
    while event is not None and event.name != WINDOW:
        yield event.name
        event = event.cpu_parent


def _dimensions(shape: Any) -> list[int]:
    return [size for size in shape if isinstance(size, int)]


def _alone_in_all_reduce(events: Iterable[Any], window: Any, on_gpu: bool) -> float:
    """Seconds of the window in which an all-reduce was under way, and no other work."""
    if on_gpu:
        kernels = [
            e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation
        ]
        collectives = [e for e in kernels if COLLECTIVE.search(e.name)]
        work = [e for e in kernels if not COLLECTIVE.search(e.name)]
    else:
        collectives = [e for e in events if e.thread != window.thread and COLLECTIVE.search(e.name)]
        work = window.cpu_children
    both = _covered([*collectives, *work], window)
    return (both - _covered(work, window)) / 1e6


def _covered(events: Iterable[Any], window: Any) -> float:
    """Microseconds of the window that at least one of the events takes."""
    total, reached = 0.0, window.time_range.start
    for start, end in sorted((e.time_range.start, e.time_range.end) for e in events):
        end = min(end, window.time_range.end)
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def report(
    trainer: Trainer,
    timed: Sequence[TimedStep],
    parts: dict[str, Part],
    peaks: dict[str, float],
    folder: Path,
) -> None:
    precision = "bf16" if trainer.model.dtype == torch.bfloat16 else "fp32"
    total = sum(part.seconds for part in parts.values())
    rows = [Row(name, part_values(part, total, peaks[precision])) for name, part in parts.items()]
    step_seconds = statistics.median(step.seconds for step in timed)
    pace = statistics.median(step.flop.total / step.seconds for step in timed)
    mean = {
        name: statistics.mean(getattr(step.flop, name) for step in timed) / 1e9
        for name in ("linear", "projection", "attention")
    }
    size, threads = trainer.world.size, torch.get_num_threads()
    notes = [
        f"{precision}, {size} process{'es' if size > 1 else ''} of {threads} thread(s), "
        f"vocabulary {len(trainer.data.tokenizer):,}; medians of {len(timed)} steps. A step "
        f"takes {1e3 * step_seconds:.1f} ms without the profiler and {1e3 * total:.1f} ms with it. "
        f"Matrix peaks measured here: {peaks['fp32']:.0f} GFLOP/s fp32, {peaks['bf16']:.0f} bf16.",
        f"Model FLOP utilisation: **{pace / 1e9 / peaks[precision]:.1%}** of the {precision} peak, "
        f"by {sum(mean.values()):.1f} GFLOP a step: {mean['linear']:.1f} in linear layers, "
        f"{mean['projection']:.1f} in the projection, {mean['attention']:.1f} in attention. "
        "They are those of real tokens: 6 x weights of a matrix x the tokens it multiplies "
        "(source tokens for the encoder and for the keys and values of cross-attention, target "
        "tokens for the rest), and 12 x d_model x positions x positions for each attention.",
    ]
    columns = ["share %", "ms a step", "GFLOP/s of its products", "% of peak"]
    title = "Where the time of a training step goes"
    raw = {
        "peaks_gflops": peaks,
        "timed": [{"seconds": step.seconds, "flop": vars(step.flop)} for step in timed],
        "parts": {name: vars(part) for name, part in parts.items()},
    }
    write_report("profile", title, rows, columns, "share %", facts(), raw, folder, "part", notes)
    draw_stack({row.label: float(row.values["share %"]) for row in rows}, title, folder)


def part_values(part: Part, total: float, peak: float) -> dict[str, str | float]:
    values: dict[str, str | float] = {
        "share %": 100 * part.seconds / total,
        "ms a step": 1e3 * part.seconds,
    }
    if part.product_flop:
        pace = part.product_flop / part.product_seconds / 1e9
        values |= {"GFLOP/s of its products": pace, "% of peak": 100 * pace / peak}
    return values


def draw_stack(shares: dict[str, float], title: str, folder: Path) -> None:
    """One bar of all parts, in place of the report's chart: they are shares of one whole."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(9, 2.8), layout="constrained")
    left = 0.0
    for index, (part, percent) in enumerate(shares.items()):
        axes.barh([""], [percent], left=left, color=f"C{index}", label=f"{part} {percent:.1f} %")
        left += percent
    axes.set(title=title, xlabel="share of the step, %", xlim=(0, 100))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    with plt.rc_context({"svg.hashsalt": "translate_ddp"}):
        figure.savefig(folder / "profile.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
