"""Usual mistakes in the exercises of `lab/`. Each runs in a process of its own."""

import contextlib
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lab.loop import Run
from tests.lab import solutions


def without_epoch(count: int, rank: int, size: int, epoch: int) -> list[int]:
    return list(range(rank, count, size))


def wrapped(model: nn.Module) -> None:
    DistributedDataParallel(model)


def state_dict_only(model: nn.Module) -> None:
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)


def with_grad(model: nn.Module) -> None:
    next(model.parameters()).zero_()


def misses_a_collective(model: nn.Module) -> None:
    if dist.get_rank() != 0:
        dist.broadcast(next(model.parameters()), 0)


def mean_of_means(model: Any, inputs: Tensor, targets: Tensor) -> None:
    F.cross_entropy(model(inputs), targets).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def one_token_at_least(model: Any, *batch: Tensor) -> None:
    solutions.gradient_of_step(model, *batch)
    for parameter in model.parameters():
        parameter.grad *= {2: 1, 3: 9 / 10}[dist.get_world_size()]


def waits(*values: Any) -> Any:
    send = dist.all_reduce
    dist.all_reduce = lambda tensor, **_: send(tensor) or SimpleNamespace(wait=lambda: None)
    return solutions.send_gradients(*values)


def sent_by_last_parameter(*values: Any) -> Any:
    solutions.partial = lambda hook, bucket: lambda p: p is bucket[-1] and hook(p, bucket) or None
    return solutions.send_gradients(*values)


def sent_always(replica: Any, *others: Any) -> None:
    replica.no_sync = contextlib.nullcontext
    solutions.accumulate(replica, *others)


def mean_of_micro_batches(replica: DistributedDataParallel, parts: list[Any], _: int) -> None:
    for index, (inputs, targets) in enumerate(parts):
        with replica.no_sync() if index < len(parts) - 1 else contextlib.nullcontext():
            (F.cross_entropy(replica(inputs), targets) / len(parts)).backward()


def one_backward(replica: DistributedDataParallel, parts: list[Any], total: int) -> None:
    losses = [F.cross_entropy(replica(each), targets, reduction="sum") for each, targets in parts]
    (sum(losses, torch.zeros(())) * dist.get_world_size() / total).backward()


def as_rank_0(run: Run, path: Path, steps: int) -> None:
    dist.get_rank, solutions.os.replace = lambda: 0, lambda *_: None
    solutions.train(run, path, steps)


def in_place(run: Run, path: Path, steps: int) -> None:
    save, solutions.os.replace = torch.save, lambda *_: None
    torch.save = lambda state, _: time.sleep(0.2) or save(state, path)
    solutions.train(run, path, steps)
