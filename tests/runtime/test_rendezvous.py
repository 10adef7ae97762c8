"""Rendezvous: the ranks of one start meet in a store."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.distributed import HashStore

from tests.helpers import processes
from translate_ddp.errors import UserError, report_errors
from translate_ddp.run_settings import DistributedConfig
from translate_ddp.runtime import rendezvous
from translate_ddp.runtime.launch import Launch
from translate_ddp.runtime.peers import check_same_device, claim_gpu
from translate_ddp.runtime.world import open_world


def test_ranks_of_each_start_share_a_new_name_in_the_same_store():
    # torchrun keeps its store over restarts.
    store = HashStore()
    names = []
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            ranks = [pool.submit(rendezvous._agree_on_name, store, rank, 3) for rank in range(3)]
            (name,) = {rank.result() for rank in ranks}
            names.append(name)
    assert len(set(names)) == 3


def test_ranks_of_srun_meet_on_the_first_host_at_a_port_from_the_number_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
):
    slurm = {"SLURM_STEP_NODELIST": "gpu[07-08]", "SLURM_JOB_ID": "1234567"}
    variables: dict[str, str] = dict(slurm)
    monkeypatch.setattr(os, "environ", variables)
    rendezvous._set_variables(Launch(rank=3, size=4))
    found = {name: variables[name] for name in variables.keys() - slurm.keys()}
    place = {"MASTER_ADDR": "gpu07", "MASTER_PORT": "24567"}
    assert found == place | {"RANK": "3", "WORLD_SIZE": "4"}


def open_and_close_a_world() -> None:
    with report_errors(), open_world(DistributedConfig()):
        pass


def test_port_in_use_is_reported_with_its_address(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        variables = {"MASTER_PORT": port, "WORLD_SIZE": "2"}
        job = processes.start(open_and_close_a_world, tmp_path, 1, variables)
        assert f"cannot connect to 127.0.0.1:{port}" in job.fail()


@pytest.mark.parametrize(
    ("device", "backend"),
    [("cpu", "gloo"), ("cuda", "gloo"), ("cpu", "cpu:gloo,cuda:nccl")],
)
def test_ranks_with_another_device_or_backend_are_an_error(device: str, backend: str):
    store, nccl = HashStore(), "cpu:gloo,cuda:nccl"
    for rank in (0, 1):
        check_same_device(store, rank, torch.device("cuda", rank), nccl)
    problem = f"Rank 2 uses {device} with {backend}, another rank cuda with {nccl}: run nvidia-smi"
    with pytest.raises(UserError, match=problem):
        check_same_device(store, 2, torch.device(device), backend)


def test_two_ranks_on_one_gpu_are_an_error(monkeypatch: pytest.MonkeyPatch):
    uuids = {0: "GPU-a", 1: "GPU-b", 2: "GPU-a"}
    store = HashStore()

    def claim(rank: int) -> None:
        properties = SimpleNamespace(uuid=uuids[rank])
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        claim_gpu(store, rank, torch.device("cuda", 0))

    claim(0)
    claim(1)
    with pytest.raises(UserError, match="Ranks 0 and 2 would share one GPU"):
        claim(2)
