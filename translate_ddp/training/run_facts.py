"""Facts of a run, for messages, its page and trackers."""

import re
import socket
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch

from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World
from translate_ddp.training.local_paths import PATHS, without_paths
from translate_ddp.training.resume import Settings

MAX_RANK_LINES = 16  # with more ranks, one line per host


def describe_sizes(model: Mapping[str, Any]) -> str:
    """The sizes in the settings of a model, in words."""
    return (
        f"{model['num_encoder_layers']} encoder and {model['num_decoder_layers']} decoder "
        f"layers, width {model['d_model']}, feed-forward {model['d_ff']}, "
        f"{model['num_heads']} heads"
    )


def describe_rank(world: World) -> str:
    """`host: cuda:0 (NVIDIA H100)` or `host: cpu, 2 thread(s)`."""
    device = f"{world.device}, {torch.get_num_threads()} thread(s)"
    if world.device.type == "cuda":
        device = f"{world.device} ({torch.cuda.get_device_name(world.device)})"
    return f"{socket.gethostname()}: {device}"


def describe_ranks(ranks: list[str]) -> list[str]:
    """A line for each rank; with many ranks, a line for each host and kind of device."""
    if len(ranks) <= MAX_RANK_LINES:
        return [f"rank {rank}  {text}" for rank, text in enumerate(ranks)]
    kinds = Counter(re.sub(r"cuda:\d+", "cuda", text) for text in ranks)
    return [f"{count} ranks  {kind}" for kind, count in kinds.items()]


def precision(model: Transformer) -> str:
    return "bf16" if model.dtype == torch.bfloat16 else "fp32"


def count_parameters(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def tracker_config(config: Settings, model: Transformer, world: World) -> dict[str, Any]:
    """The configuration for W&B and trackio: settings except paths, and the values of `auto`."""
    parts = without_paths(config)
    settings = {n: v for part in parts.values() for n, v in part.items() if n not in PATHS}
    return settings | {
        "dataset": " ".join(parts["corpus"]["dataset"]),
        "validation": parts["corpus"]["validation"],
        "precision": precision(model),
        "device": world.device.type,
        "world_size": world.size,
        "nodes": len(world.node_leaders),
        "parameters": count_parameters(model),
    }
