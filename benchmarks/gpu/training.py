"""Training steps: their attention, with one micro-batch of several sizes, and of the presets."""

import collections
import os
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import islice, product

import numpy as np
import torch

from benchmarks.common import Values
from benchmarks.gpu.case import Case, Measurement, Setup, Unavailable
from benchmarks.gpu.steps import measure_steps, random_data
from benchmarks.machine import seconds_of
from benchmarks.random_pairs import EQUAL, LONG_TAIL, MULTI30K
from benchmarks.workbench import Training, open_training, take_step, take_steps
from translate_ddp.modeling import kernels
from translate_ddp.modeling.folded_attention import folded_masks, padding_mask
from translate_ddp.runtime.device import fix_cuda_kernels

LARGE = ("base", "big")
SWEEP = [("base", 1024 * size) for size in (8, 16, 32, 64)]
SWEEP += [("big", 1024 * size) for size in (8, 16)]


def attention(setup: Setup) -> Iterator[Case]:
    """Forward and backward of sentences of equal lengths, one by one (1), and so many folded."""
    fix_cuda_kernels()
    for length, count in product((16, 64), (1, 4, 8, 16)):
        run = partial(measure_attention, setup, length, count)
        yield Case(f"{length} tokens, {count}", run, 3)


def measure_attention(setup: Setup, length: int, count: int) -> Measurement:
    sentences = max(count, setup.tokens(24_000) // length // count * count)
    tokens_BM = torch.ones(sentences, length, dtype=torch.int64, device=setup.device)
    dtype = kernels.choose_dtype("auto", tokens_BM.device)
    masks = folded_masks(tokens_BM, tokens_BM, dtype, count)
    mask = padding_mask(tokens_BM, dtype) if count == 1 else masks.source
    shape = sentences // count, 8, count * length, 64
    q, k, v = torch.randn(3, *shape, dtype=dtype, device=setup.device, requires_grad=True)
    step = lambda: kernels.attention(q, k, v, mask, False, 0.1).sum().backward()  # noqa: E731
    return Measurement({"ms": 1e3 * seconds_of(step, tokens_BM.device)})


def sweep(setup: Setup) -> Iterator[Case]:
    """Where the time of a step begins to grow with its size, launches no longer take longest."""
    for preset, on_gpu in SWEEP:
        tokens = setup.tokens(on_gpu)
        flags = setup.flags(preset, batch_tokens=tokens, max_tokens=tokens)
        run = lambda flags=flags: measure_steps(setup, flags, EQUAL, one_micro_batch)  # noqa: E731
        yield Case(f"{preset}, {tokens:,} target positions", run, 8)


def one_micro_batch(training: Training) -> Iterator[np.ndarray]:
    """Take steps of one micro-batch each, with `batch_tokens` target positions, without end."""
    tokens = training.config.batches.batch_tokens
    step = training.loader.prepare([np.arange(tokens // EQUAL.longest)])
    shapes = [batch.target_BT.shape for batch in step.micro_batches]
    if shapes != [(tokens // EQUAL.longest, EQUAL.longest)]:
        raise torch.OutOfMemoryError(f"only for micro-batches of {shapes}")
    while True:
        take_step(training, step)
        yield step.rows


def training(setup: Setup) -> Iterator[Case]:
    """Each preset with its own tokens a step; the large ones with longer sentences, too."""
    long_tail = LONG_TAIL._replace(longest=60) if setup.cpu else LONG_TAIL
    cases = [(preset, MULTI30K) for preset in LARGE]
    for preset, lengths in cases + [(preset, long_tail) for preset in LARGE]:
        flags, sentences = setup.flags(preset), f"{lengths.mean:g} tokens a sentence"
        run = lambda flags=flags, lengths=lengths: measure_steps(setup, flags, lengths)  # noqa: E731
        yield Case(f"{preset}, {sentences}", run, 10)


STEPS = 10
UNTIMED_STEPS = 3  # some operations wait at their first call


def waits(setup: Setup) -> Iterator[Case]:
    yield Case(f"base, {STEPS} steps", lambda: count_waits(setup), 8)


def count_waits(setup: Setup) -> Measurement:
    if setup.cpu:
        raise Unavailable("needs a GPU")
    flags = setup.flags("base")
    with open_training(flags, random_data(setup, flags)) as training:
        training.warm_up()
        steps = take_steps(training)
        for _ in islice(steps, UNTIMED_STEPS):
            pass
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            caught.clear()  # the warning that it is a prototype
            try:
                for _ in islice(steps, STEPS):
                    pass
            finally:
                torch.cuda.set_sync_debug_mode("default")
            places = collections.Counter(place(warning) for warning in caught)
    values: Values = {"warnings": sum(places.values()), "expected": 0}
    values["where"] = "; ".join(f"{count} x {where}" for where, count in places.items()) or "-"
    note = (
        "By `torch.cuda.set_sync_debug_mode`, which does not detect every wait: not "
        "the one intended wait, for the flags of the previous step."
    )
    return Measurement(values, {"warnings": dict(places), "note": note})


def place(warning: warnings.WarningMessage) -> str:
    """The end of the file's path, the line and the message."""
    file = "/".join(warning.filename.split(os.sep)[-2:])
    message = str(warning.message).strip().partition("\n")[0]
    return f"{file}:{warning.lineno} {message}"
