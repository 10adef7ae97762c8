"""Peers: heartbeats, stop requests and terminations in the store of the ranks."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from torch.distributed import DistStoreError, HashStore

from translate_ddp.runtime import peers as module
from translate_ddp.runtime.peers import Heartbeat, Peers, Termination, create_keys, slowest


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Peers]]:
    """Three ranks in one process."""
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.02)
    store = HashStore()
    create_keys(store, 3)
    ranks = [Peers(store, rank, 3) for rank in range(3)]
    yield ranks
    for rank in ranks:
        rank.close()


def beat(number: int, phases: int = 1, is_waiting: bool = False) -> Heartbeat:
    return Heartbeat(number, phases, is_waiting, "step 3, reading a batch")


def test_only_the_first_termination_is_accepted_and_all_ranks_read_it(peers: list[Peers]):
    first = Termination("failed", "Rank 1 hung: perché?", 75, rank=1, lost_ranks=[2])
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


def test_one_rank_surveys_for_all(peers: list[Peers]):
    assert [rank.claim_survey() for rank in peers] == [True, False, False]


def test_slowest_ranks_have_entered_fewest_phases_and_do_not_wait():
    heartbeats = {0: beat(9, 5, True), 1: beat(9, 5), 2: beat(9, 6), 3: beat(9, 5)}
    assert slowest(heartbeats) == [1, 3]


def test_a_rank_waits_for_the_exits_of_all_ranks_that_respond(peers: list[Peers]):
    with pytest.raises(DistStoreError):  # a timeout
        peers[0].wait_for_exits([2])
    peers[1].send_exit()
    peers[0].wait_for_exits([2])
    with pytest.raises(DistStoreError):
        peers[0].wait_for_exits([])


class HangingStore(HashStore):
    """Does not reply until `replies` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.replies = threading.Event()

    def multi_get(self, keys: list[str]) -> list[bytes]:
        self.replies.wait()
        return [b""] * len(keys)


def test_call_to_a_store_that_does_not_reply_returns_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "REPLY_SECONDS", 0.05)
    store: Any = HangingStore()
    rank = Peers(store, 0, 2)
    assert rank.try_call(rank.read_requests) is None
    assert rank.try_call(lambda: 7) is None  # without a second timeout
    store.replies.set()
    rank.close()


def test_many_ranks_send_fewer_heartbeats_and_wait_longer_for_replies():
    ranks = [Peers(HashStore(), 0, size) for size in (2, 2000)]
    assert [rank.heartbeat_seconds for rank in ranks] == [0.5, 4.0]
    assert [rank.reply_seconds for rank in ranks] == [5.0, 40.0]
