"""The time of each part of a profiled training step.

The own time of every operator belongs to one part, chosen by its name, by the names of the
operators that call it, and by its shapes: an operator with a dimension as large as the vocabulary
belongs to the projection. The remaining time is the host's.
"""

import re
import statistics
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.machine import wait_for
from benchmarks.workbench import Training

WINDOW, DROPOUT = "benchmark window", "benchmark dropout"  # names of ranges in the profile

PRODUCTS, ATTENTION, LOSS = "matrix products", "attention", "projection and loss"
DROPPING, NORMS, EMBEDDINGS = "dropout and residual sum", "normalisation", "embeddings"
OTHER, OPTIMIZER = "other elementwise and copies", "optimizer"
ALL_REDUCE, HOST = "all-reduce", "host"
PARTS = (PRODUCTS, LOSS, ATTENTION, DROPPING, NORMS, EMBEDDINGS, OTHER, OPTIMIZER, ALL_REDUCE, HOST)

COLLECTIVE = re.compile(r"gloo|nccl|c10d", re.IGNORECASE)
PRODUCT = re.compile(r"aten::(add|b|badd)?(mm|bmm)$")
# Operators that only describe memory or dispatch to another operator: their own time is the host's.
DISPATCH = re.compile(
    r"aten::(view|_unsafe_view|reshape|t|transpose|permute|as_strided|expand|expand_as|unbind|chunk"
    r"|split|narrow|slice|select|unsqueeze|squeeze|detach|alias|flatten|unflatten|empty\w*|resize_"
    r"|to|linear|matmul|result_type|resolve_conj|lift_fresh|_local_scalar_dense|item)$"
)
# The first pattern that matches the operator's name or that of a caller decides.
BY_NAME = (
    (OPTIMIZER, re.compile(r"_foreach_|_fused_adam|vector_norm|^Optimizer\.")),
    (DROPPING, re.compile(rf"dropout|bernoulli|random_|addcmul|{DROPOUT}", re.IGNORECASE)),
    (EMBEDDINGS, re.compile(r"embedding|aten::(sin|cos|arange)$", re.IGNORECASE)),
)
BY_NAME_WITHOUT_VOCABULARY = (
    (ATTENTION, re.compile(r"scaled_dot_product|flash|aten::(b|badd)mm$|softmax|masked_fill")),
    (PRODUCTS, re.compile(r"aten::(add)?mm$|mkldnn_linear")),
    (NORMS, re.compile(r"layer_?norm", re.IGNORECASE)),
)


@dataclass
class Part:
    """Time of one part of a step, and the FLOP of its matrix products."""

    seconds: float = 0.0
    product_seconds: float = 0.0
    product_flop: float = 0.0  # padding included


def profile_step(training: Training, steps: Iterator[np.ndarray]) -> dict[str, Part]:
    """The parts of one profiled step."""
    device = training.world.device
    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if device.type == "cuda" else []
    with (
        _dropout_ranges(training.model),
        profile(activities=activities, record_shapes=True, with_flops=True) as recorded,
        record_function(WINDOW),
    ):
        next(steps)
        wait_for(device)
    return attribute(list(recorded.events() or []), len(training.data.tokenizer), device)


def profile_steps(training: Training, steps: Iterator[np.ndarray], count: int) -> dict[str, Part]:
    """The medians of each part over `count` steps: single steps of a shared machine stall."""
    profiled = [profile_step(training, steps) for _ in range(count)]

    def median(name: str, key: str) -> float:
        return statistics.median(getattr(parts[name], key) for parts in profiled)

    return {name: Part(*(median(name, field.name) for field in fields(Part))) for name in PARTS}


@contextmanager
def _dropout_ranges(model: nn.Module) -> Iterator[None]:
    """Mark dropout modules in the profile: their masks are made by ordinary operators."""
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
    """Divide the time of the profiled window among the parts."""
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
    parts[ALL_REDUCE].seconds += _exposed_all_reduce(events, window, on_gpu)
    accounted = sum(part.seconds for part in parts.values())
    parts[HOST].seconds = window.time_range.elapsed_us() / 1e6 - accounted
    return parts


def part_of(event: Any, vocabulary: int) -> str | None:
    """The part of an operator's own time; None is the host."""
    names = list(_names(event))
    if COLLECTIVE.search(event.name):
        return ALL_REDUCE
    if not event.name.startswith("aten::") or DISPATCH.match(event.name):
        return None
    has_vocabulary = any(vocabulary in shape for shape in event.input_shapes or ())
    patterns = BY_NAME if has_vocabulary else (*BY_NAME, *BY_NAME_WITHOUT_VOCABULARY)
    matching = (part for part, pattern in patterns if any(map(pattern.search, names)))
    return next(matching, LOSS if has_vocabulary else OTHER)


def _names(event: Any) -> Iterator[str]:
    """The operator's name, then those of its callers."""
    while event is not None and event.name != WINDOW:
        yield event.name
        event = event.cpu_parent


def _exposed_all_reduce(events: Iterable[Any], window: Any, on_gpu: bool) -> float:
    """Seconds of the window during which an all-reduce ran and nothing else."""
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
    """Microseconds of the window during which at least one of the events ran."""
    total, reached = 0.0, window.time_range.start
    for start, end in sorted((e.time_range.start, e.time_range.end) for e in events):
        end = min(end, window.time_range.end)
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
