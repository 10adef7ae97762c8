"""A process group that records each call, in place of NCCL, which a CPU lacks.

gloo does the work. What DDP calls in C++ is recorded too, and how often a group is made.
"""

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d

from tests.helpers import processes
from tests.helpers.little_memory import limit_memory
from translate_ddp.data.batches import FOLDED
from translate_ddp.modeling import transformer
from translate_ddp.modeling.folded_attention import Masks, folded_masks
from translate_ddp.training.trainer import Trainer

METHODS = """
    allreduce allreduce_coalesced allgather allgather_coalesced _allgather_base all_gather_single
    allgather_into_tensor_coalesced alltoall alltoall_base barrier monitored_barrier broadcast
    gather scatter reduce reduce_scatter reduce_scatter_tensor_coalesced _reduce_scatter_base send
    recv recv_anysource
""".split()
NAMES_OF_GLOO = {"all_gather_single": "_allgather_base"}  # where they differ
GROUPS = "new_group split_group new_subgroups new_subgroups_by_enumeration".split()


class Recorder(dist.ProcessGroup):
    """Calls the same method of gloo, and records its name, and the tensors' shapes and dtypes."""

    def __init__(self, gloo: Any, rank: int, size: int, calls: list[str]) -> None:
        super().__init__(rank, size)  # pyright: ignore[reportCallIssue]
        self.gloo, self.calls = gloo, calls

    def getBackendName(self) -> str:
        return "recorder"


def describe(value: Any) -> list[str]:
    """Shape, dtype and device of each tensor in nested lists."""
    if isinstance(value, Tensor):
        return [f"{list(value.shape)} {value.dtype} {value.device.type}"]
    return [text for each in value for text in describe(each)] if isinstance(value, list) else []


def _record(name: str) -> Any:
    def call(self: Recorder, *arguments: Any) -> Any:
        self.calls.append(" ".join([name, *describe(list(arguments))]))
        return getattr(self.gloo, NAMES_OF_GLOO.get(name, name))(*arguments)

    return call


for method in METHODS:
    setattr(Recorder, method, _record(method))


def train(flags: list[list[str]], folder: str) -> None:
    """`train.py` on one of two ranks of one of two nodes; the calls of the rank are in a file."""
    from translate_ddp.runtime import world

    rank = int(os.environ["RANK"])
    os.environ.update({"LOCAL_RANK": str(rank % 2), "GROUP_RANK": str(rank // 2)})
    calls: list[str] = []

    def create(store: Any, rank: int, size: int, timeout: Any) -> Recorder:
        calls.append("group")
        return Recorder(dist.ProcessGroupGloo(store, rank, size, timeout), rank, size, calls)

    def forbid(*_: Any, **__: Any) -> None:
        raise AssertionError("another group than the default one")

    dist.Backend.register_backend("recorder", create, devices=["cpu"])
    for name in GROUPS:
        setattr(dist, name, forbid)
        setattr(distributed_c10d, name, forbid)
    world.choose_device = lambda *_: (torch.device("cpu"), "recorder")
    try:
        processes.run_train(flags[rank // 2])
    finally:
        Path(folder, f"calls-{rank}.json").write_text(json.dumps(calls))


def train_as_on_gpu(flags: list[list[str]], folder: str) -> None:
    """As `train`: folded sentences, merged buckets, little memory on rank 1, a signal to rank 2."""
    train_step = Trainer._train_step

    def folded(source_BS: Tensor, target_BT: Tensor, dtype: torch.dtype) -> Masks:
        return folded_masks(source_BS, target_BT, dtype, math.gcd(len(source_BS), FOLDED))

    def step_with_signal(self: Trainer, *arguments: Any) -> None:
        train_step(self, *arguments)
        if os.environ["RANK"] == "2" and self.position.global_step == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    limit_memory(300, full_tokens=100)
    transformer.attention_masks, Trainer._train_step = folded, step_with_signal  # pyright: ignore
    train(flags, folder)
