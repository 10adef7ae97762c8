"""Usual mistakes in the exercises of `lab/`. Each runs in a process of its own."""

import contextlib
import math
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lab.loop import Run
from tests.lab import solutions

order = solutions.indices_of_rank


def repeated(count: int, rank: int, size: int, epoch: int) -> list[int]:
    return (order(count, 0, 1, epoch) + order(count, 0, 1, epoch)[: -count % size])[rank::size]


def dropped(count: int, rank: int, size: int, epoch: int) -> list[int]:
    return order(count, 0, 1, epoch)[: count - count % size][rank::size]


def without_epoch(count: int, rank: int, size: int, epoch: int) -> list[int]:
    return list(range(rank, count, size))


def without_seed(count: int, rank: int, size: int, epoch: int) -> list[int]:
    return torch.randperm(count)[rank::size].tolist()


def seeded_by_rank(count: int, rank: int, size: int, epoch: int) -> list[int]:
    return order(count, rank, size, epoch * (rank + 1))


def in_chunks(count: int, rank: int, size: int, epoch: int) -> list[int]:
    length = math.ceil(count / size)
    return order(count, 0, 1, epoch)[rank * length :][:length]


def returns_nothing(*_: int) -> None:
    pass


def own_shuffled(count: int, rank: int, size: int, epoch: int) -> list[int]:
    own = order(count, rank, size, 0)
    return [own[index] for index in order(len(own), 0, 1, epoch)]


def wrapped(model: nn.Module) -> None:
    DistributedDataParallel(model)


def misses_a_collective(model: nn.Module) -> None:
    if dist.get_rank() != 0:
        dist.broadcast(next(model.parameters()), 0)


def mean_of_means(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    F.cross_entropy(model(inputs), targets).backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def sent_always(replica: Any, *others: Any) -> None:
    replica.no_sync = contextlib.nullcontext
    solutions.accumulate(replica, *others)


def mean_of_micro_batches(replica: DistributedDataParallel, parts: list[Any], _: int) -> None:
    for index, (inputs, targets) in enumerate(parts):
        with replica.no_sync() if index < len(parts) - 1 else contextlib.nullcontext():
            (F.cross_entropy(replica(inputs), targets) / len(parts)).backward()


def never_read(run: Run, path: Path, steps: int) -> None:
    solutions.train(run, path.with_name(f"{len(list(path.parent.iterdir()))}.pt"), steps)


def without_optimizer(run: Run, path: Path, steps: int) -> None:
    run.optimizer.load_state_dict = lambda state_dict: None
    solutions.train(run, path, steps)


def without_generator(run: Run, path: Path, steps: int) -> None:
    torch.manual_seed = lambda seed: torch.default_generator
    solutions.train(run, path, steps)


def in_place(run: Run, path: Path, steps: int) -> None:
    save, solutions.os.replace = torch.save, lambda *_: None

    def save_slowly(state: Any, _: Path) -> None:
        path.write_bytes(b"half")
        time.sleep(0.2)
        save(state, path)

    torch.save = save_slowly
    solutions.train(run, path, steps)
