"""Solutions of the exercises of `lab/`."""

import contextlib
import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lab.loop import Run


def indices_of_rank(count: int, rank: int, size: int, epoch: int) -> list[int]:
    same_on_all_ranks = torch.Generator().manual_seed(epoch)
    return torch.randperm(count, generator=same_on_all_ranks)[rank::size].tolist()


def copy_from_rank_0(model: nn.Module) -> None:
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        dist.broadcast(tensor.data, 0)


def gradient_of_step(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    F.cross_entropy(model(inputs), targets, reduction="sum").backward()
    tokens = torch.tensor(float(len(targets)))
    dist.all_reduce(tokens)
    for parameter in model.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad /= tokens


def send_gradients(parameters: list[nn.Parameter], bucket_bytes: int) -> Callable[[], None]:
    sending: list[tuple[list[nn.Parameter], Tensor, Any]] = []

    def send_if_ready(_: Tensor, bucket: list[nn.Parameter]) -> None:
        gradients = [p.grad.flatten() for p in bucket if p.grad is not None]
        if len(gradients) == len(bucket):
            flat = torch.cat(gradients)
            sending.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    buckets: list[list[nn.Parameter]] = [[]]
    for parameter in reversed(parameters):
        if buckets[-1] and sum(p.nbytes for p in [*buckets[-1], parameter]) > bucket_bytes:
            buckets.append([])
        buckets[-1].append(parameter)
        parameter.register_post_accumulate_grad_hook(partial(send_if_ready, bucket=buckets[-1]))

    def finish() -> None:
        for bucket, flat, work in sending:
            work.wait()
            parts = (flat / dist.get_world_size()).split([p.numel() for p in bucket])
            for parameter, part in zip(bucket, parts, strict=True):
                parameter.grad = part.view_as(parameter)
        sending.clear()

    return finish


def accumulate(
    replica: DistributedDataParallel,
    micro_batches: list[tuple[Tensor, Tensor]],
    tokens_of_step: int,
) -> None:
    scale = dist.get_world_size() / tokens_of_step
    for index, (inputs, targets) in enumerate(micro_batches):
        with replica.no_sync() if index < len(micro_batches) - 1 else contextlib.nullcontext():
            loss = F.cross_entropy(replica(inputs), targets, reduction="sum")
            (loss * scale).backward()


def train(run: Run, path: Path, steps: int) -> None:
    first = 0
    if path.exists():
        state = torch.load(path)
        run.model.load_state_dict(state["model"])
        run.optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    for number in range(first, steps):
        torch.manual_seed(1000 * number + dist.get_rank())  # instead of saving generators
        run.step(number)
        if dist.get_rank() == 0:
            state = {"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}
            temporary = path.with_suffix(".tmp")
            torch.save(state | {"step": number + 1}, temporary)
            os.replace(temporary, path)
