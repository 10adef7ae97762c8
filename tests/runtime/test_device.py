"""The device and backend that a rank chooses."""

import os
import sys
from pathlib import Path

import pytest
import torch

from tests.helpers import processes
from tests.helpers.faults import Run
from translate_ddp.errors import UserError
from translate_ddp.modeling.ctranslate2_engine import CTranslate2Engine
from translate_ddp.modeling.search_options import GREEDY
from translate_ddp.runtime import device as module
from translate_ddp.runtime.device import choose_device, peak_flop, visible_gpus
from translate_ddp.runtime.launch import Launch
from translate_ddp.settings import DistributedConfig
from translate_ddp.translator import Translator


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


def test_driver_too_old_for_torch_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\nGCC 12.3.0"
    (tmp_path / "version").write_text(version)
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(module, "DRIVER_FILE", tmp_path / "version")
    monkeypatch.setattr(module, "GPU_FILE", tmp_path / "nvidia0")
    launch, config = Launch(0, 1, 0, 1), DistributedConfig()
    for hidden in ("", "-1", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert choose_device(launch, config) == (torch.device("cpu"), "gloo")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(UserError, match=r"driver is 535.183.01, and torch .* for CUDA 13.0"):
        choose_device(launch, config)
    monkeypatch.setattr(module, "GPU_FILE", tmp_path / "none")
    assert choose_device(launch, config) == (torch.device("cpu"), "gloo")


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA L40S", 362),
        ("Tesla T4", 65),
        ("Tesla V100-SXM2-16GB", 125),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 0),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0),
        ("NVIDIA L40", 0),
    ],
)
def test_peak_is_of_exactly_this_model(monkeypatch: pytest.MonkeyPatch, name: str, tflops: float):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    assert peak_flop(torch.device("cuda")) == tflops * 1e12
    assert peak_flop(torch.device("cpu")) == 0


@pytest.mark.parametrize(
    ("variable", "names"), [("", ["0", "1"]), ("5,GPU-8932f937,7", ["5", "GPU-8932f937"])]
)
def test_visible_gpus_have_the_names_that_the_user_gave(
    monkeypatch: pytest.MonkeyPatch, variable: str, names: list[str]
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert visible_gpus() == names


def translate_in_a_fork(folder: str, opens: bool) -> None:
    translator = Translator.open(folder)
    torch.set_num_threads(2)

    def translated() -> list[str]:
        torch.ones(2**22).sum()  # in both threads, whatever the size of the model
        return (Translator.open(folder) if opens else translator).translate(["sun moon", "river"])

    expected = translated()
    if (child := os.fork()) == 0:
        os._exit(translated() != expected or torch.get_num_threads() > 1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@pytest.mark.parametrize("opens", [False, True])
def test_fork_of_process_with_a_model_translates_alike(finished: Run, tmp_path: Path, opens: bool):
    processes.start(translate_in_a_fork, tmp_path, 1, None, str(finished.folder), opens).succeed()


def test_exported_model_that_was_opened_before_a_fork_is_an_error():
    engine = object.__new__(CTranslate2Engine)
    engine.folder, engine._process = Path("exported"), os.getppid()
    for use in (lambda: engine.translate([[1]], GREEDY), lambda: engine.log_probs([[1]], [[2]])):
        with pytest.raises(UserError, match="exported was opened before a fork: open it"):
            use()
