"""The time of a data-parallel training step, from formulas. They are in the help of the command."""

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from benchmarks.flops import step_flop
from config import parse
from translate_ddp.modeling.transformer import Transformer

GPUS_PER_NODE = 8


@dataclass(frozen=True)
class Setting:
    """One way to train one model: the input of the formulas."""

    preset: str
    sustained_tflops: float  # of a GPU
    nvlink_gbytes: float  # per second and GPU, each way
    latency_us: float  # of a hop
    length: int  # of all sentences, on both sides
    tokens: int  # target tokens of a GPU in one pass
    passes: int = 1  # of a GPU in one step
    gpus: int = 64
    network_gbits: float = 200  # per second and node, each way
    bucket_cap_mb: float = 25
    gradient_bytes: int = 4  # per parameter: 4 is fp32, 2 is bf16
    overlaps: bool = True  # False: all gradients are ready at the end of backward

    @property
    def name(self) -> str:
        return f"{self.preset}, {self.tokens:,} tokens a GPU, {self.gpus:,} GPUs"


@dataclass(frozen=True)
class Forecast:
    compute_seconds: float
    all_reduce_seconds: float  # of all buckets, overlapped or not
    exposed_seconds: float

    @property
    def efficiency(self) -> float:
        """Pace of one GPU among many, divided by its pace alone."""
        return self.compute_seconds / (self.compute_seconds + self.exposed_seconds)


def forecast(setting: Setting) -> Forecast:
    """The calculated time of a step."""
    model = meta_model(setting.preset)
    compute = setting.passes * pass_flop(model, setting) / (setting.sustained_tflops * 1e12)
    backward = 2 / 3 * compute / setting.passes
    buckets = bucket_bytes(model, setting.bucket_cap_mb, setting.gradient_bytes)
    ready = np.cumsum(buckets) / sum(buckets) if setting.overlaps else np.ones(len(buckets))
    taken = [all_reduce_seconds(size, setting) for size in buckets]
    done = 0.0  # since the start of backward
    for begin, seconds in zip(ready * backward, taken, strict=True):
        done = max(done, begin) + seconds
    return Forecast(compute, sum(taken), done - backward)


def pass_flop(model: Transformer, setting: Setting) -> float:
    lengths = np.full(setting.tokens // setting.length, setting.length)
    return step_flop(model, lengths, lengths).total


def all_reduce_seconds(size: float, setting: Setting) -> float:
    within_node = setting.gpus <= GPUS_PER_NODE
    rate = setting.nvlink_gbytes * 1e9 if within_node else setting.network_gbits * 1e9 / 8
    latency = 2 * math.log2(setting.gpus) * setting.latency_us / 1e6
    return ring_bytes(size, setting.gpus) / rate + latency


def ring_bytes(size: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring all-reduce of `size` bytes."""
    return 2 * (ranks - 1) / ranks * size


def bucket_bytes(model: Transformer, cap_mb: float, gradient_bytes: int) -> list[int]:
    """Sizes of DDP's buckets in the order in which they are sent.

    DDP closes a bucket when its fp32 size reaches the cap; `gradient_bytes` per parameter are sent.
    """
    buckets, size = [], 0
    for parameter in in_backward_order(model):
        size += 4 * parameter.numel()
        if size >= cap_mb * 2**20:
            buckets.append(size)
            size = 0
    buckets += [size] if size else []
    return [bucket * gradient_bytes // 4 for bucket in buckets]


def in_backward_order(model: Transformer) -> list[nn.Parameter]:
    """The parameters in the order in which backward finishes their gradients.

    It is the reverse of forward, which starts with the embedding and computes the keys and values
    of all cross-attentions before the first decoder layer.
    """

    def stage(name: str) -> int:
        if "cross_attention.key_value" in name:
            return 1
        return {"decoder": 0, "encoder": 2, "embedding": 3}[
            name.partition(".")[0].partition("_")[0]
        ]

    names = [name for name, _ in model.named_parameters()]
    return [model.get_parameter(name) for name in sorted(reversed(names), key=stage)]


@functools.cache
def meta_model(preset: str) -> Transformer:
    """The preset's model on the meta device, which has no memory for its weights."""
    config = parse(["--preset", preset])
    with torch.device("meta"):
        return Transformer(config.model, config.tokenizer.vocab_size)
