"""The store: the meeting of the ranks, heartbeats, stop requests and terminations."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from tests.helpers import processes
from translate_ddp.errors import UserError, report_errors
from translate_ddp.runtime import peers as module
from translate_ddp.runtime import rendezvous
from translate_ddp.runtime.distributed import open_world
from translate_ddp.runtime.peers import Heartbeat, Peers, Termination, slowest
from translate_ddp.runtime.rendezvous import claim_gpu
from translate_ddp.settings import DistributedConfig


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


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Peers]]:
    """Three ranks in one process."""
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.02)
    store = HashStore()
    ranks = [Peers(store, rank, 3) for rank in range(3)]
    yield ranks
    for rank in ranks:
        rank.close()


def beat(number: int, phases: int = 1, is_waiting: bool = False) -> Heartbeat:
    return Heartbeat(number, phases, is_waiting, "step 3, reading a batch")


def test_only_the_first_termination_is_accepted_and_all_ranks_read_it(peers: list[Peers]):
    first = Termination("failed", "Rank 1 hung: perché?", 75, rank=1)
    assert peers[0].termination() is None
    assert peers[1].claim(first)
    assert not peers[2].claim(Termination("preempted", "SIGTERM", 0, rank=2))
    assert [rank.termination() for rank in peers] == [first] * 3


def test_slowest_ranks_have_entered_fewest_phases_and_do_not_wait():
    heartbeats = {0: beat(9, 5, True), 1: beat(9, 5), 2: beat(9, 6), 3: beat(9, 5)}
    assert slowest(heartbeats) == [1, 3]


def test_exiting_ranks_are_counted(peers: list[Peers]):
    peers[1].count_exiting(1)
    peers[2].count_exiting(1)
    assert peers[0].count_exiting() == 2


class HangingStore(HashStore):
    """Does not reply until `replies` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.replies = threading.Event()

    def check(self, keys: list[str]) -> bool:
        self.replies.wait()
        return super().check(keys)


def test_call_to_a_store_that_does_not_reply_returns_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "REPLY_SECONDS", 0.05)
    store: Any = HangingStore()
    rank = Peers(store, 0, 2)
    assert rank.try_call(rank.stop_request) is None
    assert rank.try_call(lambda: 7) is None  # without a second timeout
    store.replies.set()
    rank.close()


def test_many_ranks_send_fewer_heartbeats():
    intervals = [Peers(HashStore(), 0, size).heartbeat_seconds for size in (2, 2000)]
    assert intervals == [0.5, 4.0]
