"""Collectives of World, and gradients that do not depend on the number of ranks."""

import copy
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from config import parse
from tests.helpers import processes
from tests.helpers.options import slow
from tests.helpers.runs import assert_same_tree
from translate_ddp.errors import UserError
from translate_ddp.runtime.world import World, open_world
from translate_ddp.settings import DistributedConfig
from translate_ddp.training.run import build_loader, build_model, build_step, prepare_data
from translate_ddp.training.run_info import unused_gpus


def gradients(flags: list[str], world: World) -> list[dict[str, torch.Tensor]]:
    """The gradient of each step of the first epoch, with constant weights."""
    config = parse(flags)
    data = prepare_data(config, Path(config.checkpoint.model_folder) / "data", world)
    model = build_model(config, data.facts, world)
    updater = build_step(config, model, world)
    found = []
    for step in build_loader(config, data, world, torch.float32):
        updater.compute_gradients(step)
        named = model.named_parameters()
        found.append({name: p.grad.clone() for name, p in named if p.grad is not None})
        updater.optimizer.zero_grad()
    return found


def save_gradients(flags: list[str], folder: str) -> None:
    with open_world(DistributedConfig()) as world:
        torch.save(gradients(flags, world), Path(folder) / f"{world.rank}.pt")


@pytest.mark.parametrize("more", ["100", *slow("50 --perturb")])
def test_two_ranks_give_the_gradients_of_one(tiny_run: list[str], tmp_path: Path, more: str):
    # The ranks' shards of a step differ in tokens. At 50 some also differ in their number of
    # passes, which hangs or gives wrong sums unless only the last pass synchronizes.
    flags = [*tiny_run, "--dropout", "0", "--seq_len", "20", "--max_tokens", *more.split()]
    expected = gradients(flags, World())
    processes.start(save_gradients, tmp_path, 2, None, flags, str(tmp_path)).succeed()
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        assert len(found) == len(expected) > 5
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.keys() == theirs.keys()
            for name in ours:
                torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-6)


def compress_gradients() -> None:
    """Compare the gradients of two micro-batches in DDP with the ranks' own modules."""
    with open_world(DistributedConfig()) as world:
        torch.manual_seed(world.rank)
        inputs = torch.randn(2, 16, 8)
        module = torch.nn.Linear(8, 4)
        replica = world.replicate(module, DistributedConfig(gradient_compression="bf16"))
        own = copy.deepcopy(module)
        with world.no_sync(replica):
            replica(inputs[0]).square().sum().backward()
        replica(inputs[1]).square().sum().backward()
        for each in inputs:
            own(each).square().sum().backward()
        found = [p.grad for p in module.parameters() if p.grad is not None]
        assert_same_tree(world.broadcast(found, 0), found)
        of_ranks = zip(
            *world.gather([p.grad for p in own.parameters() if p.grad is not None]), strict=True
        )
        halves = [torch.stack([g.bfloat16() / 2 for g in grads]) for grads in of_ranks]
        assert_same_tree(found, [parts.sum(dim=0).float() for parts in halves])


def test_compressed_gradients_are_sums_in_bf16_of_the_ranks_gradients(tmp_path: Path):
    processes.start(compress_gradients, tmp_path, 2).succeed()


def save_results(folder: str) -> None:
    """Each rank saves its results of all collectives."""
    with open_world(DistributedConfig()) as world:
        slow = lambda: time.sleep(1.0) or {"rank": world.rank}  # noqa: E731
        results: dict[str, Any] = {
            "sum": world.sum_(torch.tensor([world.rank, 1.0])).tolist(),
            "gather": world.gather(f"rank {world.rank} è qui" * world.rank),
            "broadcast": world.broadcast({"from": world.rank} if world.rank == 1 else None, 1),
            "broadcast_": world.broadcast_(torch.full((2,), world.rank), source=2).tolist(),
            "start_gather": world.start_gather(torch.full((1, 2), world.rank))().tolist(),
            "on_main": world.on_main("slow work", slow),
            "on_one": world.on_ranks([2], "work", lambda: world.rank),
            "on_each_rank": world.on_each_rank("work", lambda: world.rank),
            "node": (world.is_node_leader, world.node_index),
            "threads": torch.get_num_threads(),
        }
        try:
            world.on_main("failing", _fail)
        except UserError as error:
            results["error"] = str(error)
        torch.save(results, Path(folder) / f"{world.rank}.pt")


def _fail() -> None:
    raise UserError("wrong")


def test_collectives_of_three_ranks(tmp_path: Path):
    processes.start(save_results, tmp_path, 3, None, str(tmp_path)).succeed()
    for rank in range(3):
        results = torch.load(tmp_path / f"{rank}.pt")
        assert results["sum"] == [3.0, 3.0]
        assert results["gather"] == ["", "rank 1 è qui", "rank 2 è qui" * 2]
        assert results["broadcast"] == {"from": 1} and results["broadcast_"] == [2, 2]
        assert results["start_gather"] == [[0, 0], [1, 1], [2, 2]]
        assert results["on_main"] == {"rank": 0}
        assert results["on_one"] == [2]
        assert results["on_each_rank"] == [0, 1, 2]
        assert results["node"] == (rank == 0, 0)
        assert results["error"] == "wrong"
        assert results["threads"] == max(1, len(os.sched_getaffinity(0)) // 3)


def check_nodes() -> None:
    """Three ranks on two nodes, whose numbers are not in the order of ranks."""
    rank = int(os.environ["RANK"])
    os.environ["GROUP_RANK"] = "101"[rank]  # as of srun --distribution=cyclic
    with open_world(DistributedConfig()) as world:
        assert (world.node_leaders, world.node_index) == ((0, 1), rank % 2)
        assert world.is_node_leader == (rank < 2)
        assert world.on_ranks(world.node_leaders, "work", lambda: world.rank) == [0, 1]


def test_nodes_are_numbered_by_their_first_ranks(tmp_path: Path):
    processes.start(check_nodes, tmp_path, 3).succeed()


def test_single_process_needs_no_launcher_and_no_group():
    with open_world(DistributedConfig()) as world:
        assert (world.rank, world.size, world.backend) == (0, 1, "none")
        assert world.sum_(torch.tensor(5)).item() == 5
        assert world.gather("text") == [world.broadcast("text", 0)] == ["text"]
        assert world.on_main("work", lambda: 7) == 7
        assert world.on_ranks(world.disk_leaders, "work", lambda: 7) == [7]


def test_process_that_leaves_gpus_idle_prints_the_command_that_uses_them(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(sys, "argv", ["train.py", "--dataset", "my data/train", "--preset", "base"])
    gpu = torch.device("cuda", 0)
    line = unused_gpus(World(device=gpu))
    assert line is not None and "uses 1 of 4 GPUs" in line
    assert line.endswith(
        "torchrun --nproc_per_node=4 train.py --dataset 'my data/train' --preset base"
    )
    assert unused_gpus(World(size=4, device=gpu)) is None
    assert unused_gpus(World()) is None
