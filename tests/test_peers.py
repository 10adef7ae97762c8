"""Peers: heartbeats, stop requests and terminations in the store of the ranks."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from torch.distributed import HashStore

from translate_ddp.runtime import peers as module
from translate_ddp.runtime.peers import Heartbeat, Peers, Termination, slowest


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
