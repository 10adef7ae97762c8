"""The store of the ranks: they meet, exchange heartbeats, and agree on why the run ends."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from tests.helpers import processes
from tests.helpers.options import slow
from translate_ddp.errors import UserError, report_errors
from translate_ddp.runtime import peers as module
from translate_ddp.runtime.launch import Launch
from translate_ddp.runtime.peers import (
    Heartbeat,
    Peers,
    Rendezvous,
    Termination,
    address,
    check_same_device,
    claim_gpu,
    create_keys,
    slowest,
)
from translate_ddp.runtime.world import open_world
from translate_ddp.settings import DistributedConfig


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> list[Peers]:
    """Three ranks in one process."""
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.02)
    store = HashStore()
    create_keys(store, 3)
    return [Peers(store, rank, 3) for rank in range(3)]


def beat(number: int, phases: int = 1) -> Heartbeat:
    return Heartbeat(number, phases, 0.0, "step 3, reading a batch")


def test_only_the_first_termination_is_accepted_and_all_ranks_read_it(peers: list[Peers]):
    first = Termination("failed", "Rank 1 hung: perché?", 75, rank=1)
    assert peers[0].read_requests() == (None, "")
    assert peers[1].claim(first) == first
    assert peers[2].claim(Termination("preempted", "SIGTERM", 0, rank=2)) == first
    peers[0].request_stop("SIGUSR1")
    assert [rank.read_requests() for rank in peers] == [(first, "SIGUSR1")] * 3


def test_survey_finds_ranks_that_send_no_heartbeats_and_does_not_wait_for_them(peers: list[Peers]):
    # Rank 1 has died after a heartbeat, rank 2 before its first one.
    peers[1].send_heartbeat(beat(1))
    heartbeats, lost_ranks = peers[0].survey(lambda: beat(7))
    assert heartbeats == {0: beat(7), 1: beat(1)} and lost_ranks == [1, 2]


def test_slowest_ranks_have_entered_fewest_phases():
    assert slowest({0: beat(9, 6), 1: beat(9, 5), 2: beat(9, 7), 3: beat(9, 5)}) == [1, 3]


class HangingStore(HashStore):
    """Does not reply until `replies` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.replies = threading.Event()

    def multi_get(self, keys: list[str]) -> list[bytes]:
        self.replies.wait()
        return [b""] * len(keys)


def test_call_to_a_store_that_does_not_reply_returns_none(monkeypatch: pytest.MonkeyPatch):
    for name in ("REPLY_SECONDS", "HEARTBEAT_SECONDS"):
        monkeypatch.setattr(module, name, 0.005)
    store: Any = HangingStore()
    rank = Peers(store, 0, 2)
    assert rank.try_call(rank.read_requests) is None
    assert rank.try_call(lambda: 7) is None  # without a second timeout
    store.replies.set()


def test_ranks_of_each_start_share_a_new_name_in_the_same_store():
    # torchrun keeps its store over restarts.
    store, names = HashStore(), []
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            meetings = [Rendezvous(Launch(rank, 3), 60.0) for rank in range(3)]
            (name,) = set(pool.map(lambda meeting: meeting.agree_on_name(store), meetings))
            names.append(name)
    assert len(set(names)) == 3


def test_ranks_of_srun_meet_on_the_first_host_at_a_port_from_the_number_of_the_job():
    slurm = {"SLURM_STEP_NODELIST": "gpu[07-08]", "SLURM_JOB_ID": "1234567"}
    assert address(slurm) == ("gpu07", 24567)
    assert address(slurm | {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}) == ("node0", 29500)


def open_and_close_a_world() -> None:
    with report_errors(), open_world(DistributedConfig(timeout_minutes=0.001)):
        pass


def join_in_a_hurry() -> None:
    module.MIN_RENDEZVOUS_SECONDS, module.NOTICE_SECONDS = 1.5, 0.6
    module.KEY_WAIT_SECONDS = 0.2
    open_and_close_a_world()


def test_port_in_use_is_reported_with_its_address(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        variables = {"MASTER_PORT": port, "WORLD_SIZE": "2"}
        job = processes.start(open_and_close_a_world, tmp_path, 1, variables)
        assert f"cannot connect to 127.0.0.1:{port}" in job.fail()


@pytest.mark.parametrize(
    ("variables", "awaited", "problem"),
    [
        ({"WORLD_SIZE": "3"}, "Rank 0 waits at {place} for ranks 1, 2.", "Ranks 1, 2 of 3 ranks"),
        *slow(
            (
                {"RANK": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "no-host.invalid"},
                "Rank 1 waits at {place} for rank 0 (",
                "Rank 0 of 2 ranks did not come to {place} within 1.5 s (",
            ),
            (
                {"RANK": "1", "LOCAL_RANK": "0"},
                "Rank 1 waits at {place} for rank 0 (Connection refused).",
                "Rank 0 of 2 ranks did not come to {place} within 1.5 s (Connection refused):",
            ),
        ),
    ],
)
def test_rank_that_waits_prints_for_whom_and_where_and_ends_at_the_timeout(
    tmp_path: Path, variables: dict[str, str], awaited: str, problem: str
):
    variables = {"WORLD_SIZE": "2", "MASTER_PORT": str(processes.free_port())} | variables
    job = processes.start(join_in_a_hurry, tmp_path, 1, variables)
    output = job.fail()
    place = f"{variables.get('MASTER_ADDR', '127.0.0.1')}:{variables['MASTER_PORT']}"
    notice, error = output.strip().splitlines()
    assert notice.startswith(awaited.format(place=place)), output
    assert error.startswith(f"error: {problem.format(place=place)}"), output


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
