"""Efficiency of data-parallel training on many machines, calculated: nothing is measured.

Weak scaling: the share of a step that one GPU computes stays constant. The time of a step is
compute + exposed communication, from the model's parameters:

    compute     of a pass: FLOP of its real tokens (benchmarks/flops.py) / (peak x utilisation), or
                its kernel launches x the time of a launch, whichever is longer
    buckets     gradients in the order in which backward finishes them, cut where --bucket_cap_mb is
                reached; the embedding, shared by both inputs and the output, comes last and whole
    all-reduce  of a bucket of b bytes over n GPUs: 2 (n-1)/n b / rate + 2 log2(n) x latency.
                Within a node the rate is NVLink's. Over several nodes it is that of a node's
                network, which the rings of all its GPUs share; NVLink's share is then neglected.
    exposed     buckets are sent one after the other, each when it is ready, in proportion to its
                bytes in backward; backward is 2/3 of the compute of the step's last pass, earlier
                passes send nothing. What ends after backward is exposed: at least the last bucket.
    flags       one all-reduce of a few bytes after backward, exposed
    epoch       its steps, then a validation on rank 0 (launches of a greedy search, and scoring)
                and two saves of 12 bytes a parameter, for which all GPUs wait; a save every 15 min

Counted: parameters, FLOP, buckets, and launches (on a simulated GPU, as in
tests/runtime/test_gpu_path.py).
Everything else is assumed. Not included: AdamW and input (the same on any number of GPUs), Muon,
stragglers, uneven batches, SimCut (which doubles the work), and other traffic.
"""

import functools
import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.common import Settings, Values, read_settings
from benchmarks.flops import step_flop
from benchmarks.report import Row, write_report
from config import parse
from translate_ddp.errors import report_errors
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.training.step import NUM_FLAGS

PEAK = 989e12  # FLOP/s of an H100, bf16, dense
UTILISATION = {"small": 0.25, "base": 0.45, "big": 0.55}  # assumed, of the peak
PASS_LAUNCHES = {"small": 594, "base": 709, "big": 709}  # counted: forward and backward
TOKEN_LAUNCHES = {"small": 194, "base": 282, "big": 282}  # counted: a position of a greedy search
LAUNCH = 6e-6  # seconds of the host for each kernel
NVLINK = 450e9  # bytes per second of a GPU within its node, each way
LATENCY = 5e-6  # seconds of a hop
GPUS_PER_NODE = 8
LENGTH = 32  # tokens of each sentence, on both sides
GPUS = (8, 16, 64, 256, 1024)
PAIRS = 100_000_000  # of the corpus
VALIDATION_PAIRS = 3000
SCORING = 1.0  # seconds for all metrics of a validation
SAVE_RATE = 1e9  # bytes per second: digest, write, fsync
SAVE_EVERY = 900.0  # seconds
NETWORKS = (100, 200, 400)  # Gb/s of a node, each way


@dataclass(frozen=True)
class Setting:
    """One way to train one model: the input of the formulas."""

    preset: str
    tokens: int = 25_000  # target tokens of a GPU in one pass
    gpus: int = 64
    network_gbits: float = 200  # per second and node, each way
    passes: int = 1  # of a GPU in one step
    bucket_cap_mb: float = 25
    validating_gpus: int = 1


VARIANTS: dict[str, dict[str, Any]] = {
    **{f"{gpus:,} GPUs": {"gpus": gpus} for gpus in GPUS},
    "64 GPUs, 3,125 tokens a GPU": {"tokens": 3125},
    "1,024 GPUs, `--validate_on all`": {"gpus": 1024, "validating_gpus": 1024},
    "64 GPUs, `--bucket_cap_mb 5`": {"bucket_cap_mb": 5},
    "64 GPUs, `--bucket_cap_mb 100`": {"bucket_cap_mb": 100},
    "64 GPUs, 4 passes a step (4 x `--batch_tokens`)": {"passes": 4},
    "64 GPUs, 16 passes a step": {"passes": 16},
}
NOTE = (
    "Assumed, not measured: GPUs of 989 TFLOP/s of which small uses 25 %, base 45 % and big 55 %; "
    "nodes of 8 GPUs with 450 GB/s each between them; 5 µs a hop; 6 µs a kernel launch; 25,000 "
    "target tokens a GPU and pass, in sentences of 32 tokens on both sides; fp32 gradients in "
    "buckets of 25 MiB, one pass a step. A network's rate is that of a node. An epoch has 100 "
    "million pairs and ends with a validation of 3,000 on rank 0, 1 s of it for the scores, and "
    "two saves at 1 GB/s. The formulas, and what is counted: `benchmarks/scaling.py`."
)


def step_seconds(setting: Setting) -> tuple[float, float, float]:
    """Seconds of compute, of all all-reduces, and of those that are exposed."""
    one_pass = pass_seconds(setting.preset, setting.tokens)
    buckets = bucket_bytes(meta_model(setting.preset), setting.bucket_cap_mb)
    taken = [all_reduce_seconds(size, setting) for size in buckets]
    backward = 2 / 3 * one_pass
    done = 0.0  # since the start of backward
    for ready, seconds in zip(np.cumsum(buckets) / sum(buckets) * backward, taken, strict=True):
        done = max(done, ready) + seconds
    flags = all_reduce_seconds(4 * NUM_FLAGS, setting)
    return setting.micro_batches * one_pass, sum(taken) + flags, done - backward + flags


def pass_seconds(preset: str, tokens: int) -> float:
    """Seconds of forward and backward: of the device, or of the host that launches its kernels."""
    lengths = np.full(tokens // LENGTH, LENGTH)
    flop = step_flop(meta_model(preset), lengths, lengths).total
    return max(flop / (PEAK * UTILISATION[preset]), PASS_LAUNCHES[preset] * LAUNCH)


def epoch_seconds(setting: Setting) -> tuple[float, float]:
    """Seconds of an epoch's steps, and of its validation and saves."""
    compute, _, exposed = step_seconds(setting)
    steps = PAIRS * LENGTH / (setting.tokens * setting.micro_batches * setting.gpus)
    training = steps * (compute + exposed)
    rows = math.ceil(VALIDATION_PAIRS / setting.validating_gpus)
    batches = math.ceil(rows * LENGTH / setting.tokens)
    decoding = batches * LENGTH * TOKEN_LAUNCHES[setting.preset] * LAUNCH
    parameters = sum(p.numel() for p in meta_model(setting.preset).parameters())
    saves = 2 + training // SAVE_EVERY
    return training, decoding + SCORING + saves * 12 * parameters / SAVE_RATE


def all_reduce_seconds(size: float, setting: Setting) -> float:
    within_node = setting.gpus <= GPUS_PER_NODE
    rate = NVLINK if within_node else setting.network_gbits * 1e9 / 8
    return ring_bytes(size, setting.gpus) / rate + 2 * math.log2(setting.gpus) * LATENCY


def ring_bytes(size: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring all-reduce of `size` bytes."""
    return 2 * (ranks - 1) / ranks * size


def bucket_bytes(model: Transformer, cap_mb: float) -> list[int]:
    """Sizes of DDP's buckets in the order in which they are sent; one is full at `cap_mb`."""
    buckets = [0]
    for parameter in in_backward_order(model):
        if buckets[-1] >= cap_mb * 2**20:
            buckets.append(0)
        buckets[-1] += 4 * parameter.numel()
    return buckets


def in_backward_order(model: Transformer) -> list[nn.Parameter]:
    """The parameters in the order in which backward finishes their gradients.

    It is the reverse of forward, which starts with the embedding and computes the keys and values
    of all cross-attentions before the first decoder layer.
    """

    def stage(name: str) -> int:
        if "cross_attention.key_value" in name:
            return 1
        return {"decoder": 0, "encoder": 2, "embedding": 3}[re.split("[._]", name)[0]]

    names = [name for name, _ in model.named_parameters()]
    return [model.get_parameter(name) for name in sorted(reversed(names), key=stage)]


@functools.cache
def meta_model(preset: str) -> Transformer:
    """The preset's model on the meta device, which has no memory for its weights."""
    config = parse(["--preset", preset])
    with torch.device("meta"):
        return Transformer(config.model, config.tokenizer.vocab_size)


def forecast(setting: Setting) -> Values:
    compute, all_reduce, _ = step_seconds(setting)
    buckets = bucket_bytes(meta_model(setting.preset), setting.bucket_cap_mb)
    values: Values = {
        "MB all-reduced": sum(buckets) / 1e6,
        "compute ms": 1e3 * compute,
        f"all-reduce ms at {setting.network_gbits:g} Gb/s": 1e3 * all_reduce,
    }
    for network in NETWORKS:
        share = step_share(replace(setting, network_gbits=network))
        values[f"efficiency % at {network} Gb/s"] = 100 * share
    training, rest = epoch_seconds(setting)
    values["training s an epoch"] = training
    values["validation and saves s"] = rest
    share = training / (training + rest) * step_share(setting)
    values[f"of an epoch % at {setting.network_gbits:g} Gb/s"] = 100 * share
    return values


def step_share(setting: Setting) -> float:
    """The part of a step that is not exposed communication."""
    compute, _, exposed = step_seconds(setting)
    return compute / (compute + exposed)


def main() -> None:
    with report_errors():
        settings = read_settings(Settings, __doc__)
        rows = [
            Row(f"{preset}, {name}", forecast(Setting(preset, **variant)))
            for preset in UTILISATION
            for name, variant in VARIANTS.items()
        ]
        title = "Many machines, calculated: efficiency of weak scaling"
        write_report("scaling", title, rows, folder=settings.results, notes=[NOTE])


if __name__ == "__main__":
    main()
