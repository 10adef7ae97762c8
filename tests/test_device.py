"""The variables of a launcher, and the device and backend that a rank chooses."""

import pytest
import torch

from translate_ddp.errors import UserError
from translate_ddp.runtime.device import choose_device
from translate_ddp.runtime.distributed import open_world
from translate_ddp.runtime.launcher import Launch, first_slurm_host, read_launch
from translate_ddp.settings import DistributedConfig


def test_nccl_without_gpus_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="NCCL needs GPUs"):
        open_world(DistributedConfig(backend="nccl")).__enter__()


@pytest.mark.parametrize(
    ("visible", "local_rank", "local_size", "device"),
    [
        (1, 0, 1, "cuda:0"),
        (1, 3, 8, "cuda:0"),  # srun --gpus-per-task=1, or a CUDA_VISIBLE_DEVICES for each process
        (8, 3, 8, "cuda:3"),
        (8, 0, 1, "cuda:0"),
    ],
)
def test_each_local_rank_uses_its_own_visible_gpu(
    monkeypatch: pytest.MonkeyPatch, visible: int, local_rank: int, local_size: int, device: str
):
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    launch = Launch(local_rank, local_size, local_rank, local_size)
    chosen, backend = choose_device(launch, DistributedConfig())
    assert [chosen] == current == [torch.device(device)]
    assert backend == "cpu:gloo,cuda:nccl"


def test_more_ranks_than_gpus_are_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match="3 processes .* 2 GPUs: pass --nproc_per_node=2"):
        choose_device(Launch(0, 3, 0, 3), DistributedConfig())


def test_variables_of_torchrun():
    variables = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert read_launch(variables) == Launch(rank=5, size=8, local_rank=1, local_size=4)
    restarts = {"TORCHELASTIC_RESTART_COUNT": "1", "SLURM_RESTART_COUNT": "2"}  # a requeued job
    assert read_launch(variables | restarts).restarts == 3
    assert read_launch(variables | {"TORCHELASTIC_RUN_ID": "none"}).under_torchrun


def test_variables_of_slurm_when_srun_starts_the_ranks():
    variables = {
        "SLURM_PROCID": "9",
        "SLURM_NTASKS": "11",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "2",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
    }
    assert read_launch(variables) == Launch(rank=9, size=11, local_rank=1, local_size=3)
    assert read_launch(variables | {"SLURM_NTASKS": "1"}) == Launch()  # an interactive shell


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("gpu[07-09,12],big1", "gpu07"), ("node3", "node3"), ("a1,a2", "a1"), ("n-[1,3]", "n-1")],
)
def test_first_host_of_a_slurm_node_list(nodelist: str, host: str):
    assert first_slurm_host(nodelist) == host


def test_empty_slurm_node_list_is_an_error():
    with pytest.raises(UserError, match="SLURM_STEP_NODELIST contains no host: ''"):
        first_slurm_host("")
