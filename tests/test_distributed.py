"""Ranks: what launchers say, and that gradients do not know how many computed them."""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from config import parse
from tests.helpers import processes
from train import build_trainer, prepare_data, unused_gpus
from translate_ddp.errors import UserError
from translate_ddp.runtime.device import choose_device
from translate_ddp.runtime.distributed import World, open_world
from translate_ddp.runtime.launcher import Launch, first_slurm_host, read_launch
from translate_ddp.runtime.rendezvous import claim_gpu
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.settings import DistributedConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.trainer import Run


def gradients(flags: list[str], world: World) -> list[dict[str, torch.Tensor]]:
    """The gradient of each step of the first epoch, with weights that never change."""
    config = parse(flags)
    data = prepare_data(config, world)
    store = CheckpointStore(config.checkpoint)
    logbook = Logbook(
        config.logbook, store.folder, run_id="0", about={}, position=None, active=False
    )
    folder = RunFolder(config.checkpoint.model_folder, "")
    trainer = build_trainer(config, data, Run("0", {}, {}), folder, store, logbook, world)
    found = []
    for step in trainer.loader:
        trainer.accumulate_gradients(step.passes, step.target_tokens)
        named = trainer.model.named_parameters()
        found.append({name: p.grad.clone() for name, p in named if p.grad is not None})
        trainer.optimizer.zero_grad()
    return found


def save_gradients(flags: list[str], folder: str) -> None:
    with open_world(DistributedConfig()) as world:
        torch.save(gradients(flags, world), Path(folder) / f"{world.rank}.pt")


@pytest.mark.parametrize("max_tokens", ["100", "50", "20"])
def test_two_ranks_make_the_gradients_of_one(tiny_run: list[str], tmp_path: Path, max_tokens: str):
    # Shares of a step differ in tokens from rank to rank; at 50 some differ in their number of
    # passes too, which hangs or falls apart unless the last pass alone is sent; at 20 all have
    # several.
    flags = [*tiny_run, "--dropout", "0", "--seq_len", "20", "--max_tokens", max_tokens]
    alone = gradients(flags, World())
    job = processes.start(save_gradients, tmp_path, 2, None, flags, str(tmp_path))
    job.succeed()
    for rank in range(2):
        together = torch.load(tmp_path / f"{rank}.pt")
        assert len(together) == len(alone) > 5
        for ours, theirs in zip(together, alone, strict=True):
            assert ours.keys() == theirs.keys()
            for name in ours:
                torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-6)


def exercise(folder: str) -> None:
    """Each rank writes what it got from each kind of agreement."""
    with open_world(DistributedConfig()) as world:
        slow = lambda: time.sleep(1.0) or {"by": world.rank}  # noqa: E731
        results: dict[str, Any] = {
            "sum": world.sum(torch.tensor([world.rank, 1.0])).tolist(),
            "any": world.any(world.rank == 1, False),
            "gather": world.gather(f"rank {world.rank} è qui" * world.rank),
            "broadcast": world.broadcast(b"\x00bytes" if world.rank == 1 else None, source=1),
            "on_main": world.on_main("being slow", slow),
            "on_each_node": world.on_each_node("looking", lambda: world.rank),
            "threads": torch.get_num_threads(),
        }
        try:
            world.on_main("failing", lambda: _refuse())
        except UserError as error:
            results["error"] = str(error)
        torch.save(results, Path(folder) / f"{world.rank}.pt")


def _refuse() -> None:
    raise UserError("not like this")


def test_ranks_agree(tmp_path: Path):
    processes.start(exercise, tmp_path, 3, None, str(tmp_path)).succeed()
    for rank in range(3):
        got = torch.load(tmp_path / f"{rank}.pt")
        assert got["sum"] == [3.0, 3.0]
        assert got["any"] == (True, False)
        assert got["gather"] == ["", "rank 1 è qui", "rank 2 è qui" * 2]
        assert got["broadcast"] == b"\x00bytes"
        assert got["on_main"] == {"by": 0}
        assert got["on_each_node"] == [0]
        assert got["error"] == "not like this"
        assert got["threads"] == max(1, len(os.sched_getaffinity(0)) // 3)


def crash_on_main() -> None:
    with open_world(DistributedConfig()) as world:
        world.on_main("crashing", lambda: 1 // 0)


def test_a_crash_of_rank_0_ends_the_ranks_that_wait_for_it(tmp_path: Path):
    job = processes.start(crash_on_main, tmp_path, 2)
    assert job.wait() == [1, 1]
    said = job.text()
    assert said.count("error: Rank 0 failed at crashing: ZeroDivisionError") == 1
    assert said.count("Traceback") == 1
    assert "rank 1 stood here" in said and "on_main" in said


def test_one_process_needs_no_launcher_and_no_group():
    with open_world(DistributedConfig()) as world:
        assert (world.rank, world.size, world.store) == (0, 1, None)
        assert world.sum(torch.tensor(5)).item() == 5
        assert world.gather("alone") == ["alone"]
        assert world.on_main("working", lambda: 7) == 7


def test_torchruns_variables_are_read():
    said = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert read_launch(said) == Launch(rank=5, size=8, local_rank=1, local_size=4)
    again = {"TORCHELASTIC_RESTART_COUNT": "1", "SLURM_RESTART_COUNT": "2"}  # a job queued again
    assert read_launch(said | again).restarts == 3
    assert read_launch(said | {"TORCHELASTIC_RUN_ID": "none"}).under_torchrun


def test_slurms_variables_are_read_when_srun_starts_the_ranks():
    said = {
        "SLURM_PROCID": "9",
        "SLURM_NTASKS": "11",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "2",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
    }
    assert read_launch(said) == Launch(rank=9, size=11, local_rank=1, local_size=3)
    assert read_launch(said | {"SLURM_NTASKS": "1"}) == Launch()  # an interactive shell


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("gpu[07-09,12],big1", "gpu07"), ("node3", "node3"), ("a1,a2", "a1"), ("n-[1,3]", "n-1")],
)
def test_the_first_host_of_a_slurm_list(nodelist: str, host: str):
    assert first_slurm_host(nodelist) == host


def test_nccl_without_gpus_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with (
        pytest.raises(UserError, match="NCCL needs GPUs"),
        open_world(DistributedConfig(backend="nccl")),
    ):
        pass


@pytest.mark.parametrize(
    ("visible", "local_rank", "local_size", "device"),
    [
        (1, 0, 1, "cuda:0"),
        (1, 3, 8, "cuda:0"),  # srun --gpus-per-task=1, or a CUDA_VISIBLE_DEVICES for each process
        (8, 3, 8, "cuda:3"),
        (8, 0, 1, "cuda:0"),
    ],
)
def test_a_process_takes_its_own_gpu_of_those_it_sees(
    monkeypatch: pytest.MonkeyPatch, visible: int, local_rank: int, local_size: int, device: str
):
    taken: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    launched = Launch(local_rank, local_size, local_rank, local_size)
    chosen, backend = choose_device(launched, DistributedConfig())
    assert [chosen] == taken == [torch.device(device)]
    assert backend == "cpu:gloo,cuda:nccl"


def test_more_ranks_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match="3 processes .* 2 GPUs: pass --nproc_per_node=2"):
        choose_device(Launch(0, 3, 0, 3), DistributedConfig())


def test_two_ranks_on_one_gpu_are_refused_before_nccl_meets_them(monkeypatch: pytest.MonkeyPatch):
    uuids = {0: "GPU-a", 1: "GPU-b", 2: "GPU-a"}
    store = torch.distributed.HashStore()

    def claim(rank: int) -> None:
        properties = SimpleNamespace(uuid=uuids[rank])
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        claim_gpu(store, rank, torch.device("cuda", 0))

    claim(0)
    claim(1)
    with pytest.raises(UserError, match="Ranks 0 and 2 would share one GPU"):
        claim(2)


def test_a_process_that_leaves_gpus_idle_prints_the_command_that_uses_them(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(sys, "argv", ["train.py", "--dataset", "my data/train", "--preset", "base"])
    gpu = torch.device("cuda", 0)
    said = unused_gpus(World(device=gpu))
    assert said is not None and "uses 1 of 4 GPUs" in said
    assert said.endswith(
        "torchrun --nproc_per_node=4 train.py --dataset 'my data/train' --preset base"
    )
    assert unused_gpus(World(size=4, device=gpu)) is None
    assert unused_gpus(World()) is None


def test_a_port_in_use_is_named(tmp_path: Path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        job = processes.start(exercise_told, tmp_path, 1, {"MASTER_PORT": port, "WORLD_SIZE": "2"})
        assert f"cannot connect to 127.0.0.1:{port}" in job.fail()


def exercise_told() -> None:
    from translate_ddp.errors import report_errors

    with report_errors(), open_world(DistributedConfig()):
        pass
