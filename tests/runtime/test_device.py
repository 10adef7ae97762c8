"""The device and backend that a rank chooses."""

import pytest
import torch

from translate_ddp.errors import UserError
from translate_ddp.runtime.device import choose_device, visible_gpus
from translate_ddp.runtime.launch import Launch
from translate_ddp.settings import DistributedConfig


@pytest.mark.parametrize(
    ("rank", "local_rank", "reports"), [(0, 0, False), (1, 1, False), (8, 0, True)]
)
def test_node_without_gpus_reports_that_nccl_needs_them(
    monkeypatch: pytest.MonkeyPatch, rank: int, local_rank: int, reports: bool
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="NCCL needs GPUs") as raised:
        choose_device(Launch(rank, 16, local_rank, 8), DistributedConfig(backend="nccl"))
    assert raised.value.this_rank_only == reports  # rank 0 reports in any case


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


@pytest.mark.parametrize(
    ("variable", "names"), [("", ["0", "1"]), ("5,GPU-8932f937,7", ["5", "GPU-8932f937"])]
)
def test_visible_gpus_have_the_names_that_the_user_gave(
    monkeypatch: pytest.MonkeyPatch, variable: str, names: list[str]
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert visible_gpus() == names
