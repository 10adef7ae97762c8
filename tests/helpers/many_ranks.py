"""Requests and descriptors of the control plane, counted with many ranks in one process.

The store is a real TCPStore, and each rank is what it is in a run (two connections, a supervisor
thread, a thread for requests), but a thread stands for its main thread, and there are no process
groups. The ranks meet, exchange heartbeats, lose one rank at once, and end. Time is not measured.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch.distributed as dist

from translate_ddp.runtime import peers, supervisor
from translate_ddp.runtime.launch import Launch
from translate_ddp.runtime.peers import Peers, Rendezvous
from translate_ddp.runtime.supervisor import Supervisor
from translate_ddp.runtime.world import raise_descriptor_limit

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 600.0
TIMEOUT = timedelta(seconds=TIMEOUT_SECONDS)
# What ranks exchange all the time; the rest of the requests at the end belongs to the verdict.
BEAT = {"set heartbeat", "multi_get termination"}


class CountingStore(dist.Store):
    """Passes requests on to a store, and counts them by method and first part of the key."""

    def __init__(self, store: dist.Store) -> None:
        super().__init__()
        self._store = store
        self.counts: Counter[str] = Counter()

    def _call(self, method: str, key: str | Sequence[str], *values: Any) -> Any:
        first = key if isinstance(key, str) else key[0]
        parts = [part for part in first.split("/") if not part.isdigit() and len(part) < 32]
        self.counts[f"{method} {parts[-1] if parts else 'name'}"] += 1
        return getattr(self._store, method)(key, *values)

    def set(self, key: str, value: str) -> None:
        self._call("set", key, value)

    def get(self, key: str) -> bytes:
        return self._call("get", key)

    def check(self, keys: list[str]) -> bool:
        return self._call("check", keys)

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        return self._call("compare_set", key, expected_value, desired_value)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return self._call("multi_get", keys)

    def multi_set(self, keys: list[str], values: list[str]) -> None:
        self._call("multi_set", keys, values)

    def wait(self, keys: list[str], timeout: timedelta = TIMEOUT) -> None:
        self._call("wait", keys, timeout)


def wait_without_signals(timeout: float) -> list[Any]:
    """Stands for the function of `receive_signals`: no signal arrives."""
    time.sleep(timeout)
    return []


@dataclass
class Rank:
    """A rank without a process."""

    number: int
    supervisor: Supervisor
    peers: Peers
    first: CountingStore  # on which ranks meet
    store: CountingStore  # of the supervisor
    heartbeat: Counter[str] = field(default_factory=Counter)  # requests of one
    verdict: Counter[str] = field(default_factory=Counter)  # requests when the run ends

    def beat(self) -> None:
        before = self.store.counts.copy()
        self.supervisor.exchange_once(self.peers)
        self.heartbeat = self.store.counts - before


@dataclass
class Simulation:
    ranks: list[Rank]
    descriptors: int  # of the ranks and of the server, for all connections
    messages: list[str]  # printed by all ranks at the end
    codes: list[int]  # with which they exited


def simulate(size: int) -> Simulation:
    """Let `size` ranks meet, exchange a heartbeat each, and lose the rank in the middle."""
    raise_descriptor_limit()
    server = dist.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    before = open_sockets()
    with ThreadPoolExecutor(size) as pool:
        # On a slow machine, ranks would print notices, and make more requests.
        with (
            patch.object(peers, "CONFIRMATION_SECONDS", TIMEOUT_SECONDS),
            patch.object(peers, "KEY_WAIT_SECONDS", TIMEOUT_SECONDS),
            patch.object(peers, "REPLY_SECONDS", TIMEOUT_SECONDS),
        ):
            ranks = list(pool.map(lambda rank: join(server.port, rank, size), range(size)))
        list(pool.map(Rank.beat, ranks))
        descriptors = len(open_sockets() - before)
    messages, codes = lose(ranks, size // 2)
    return Simulation(ranks, descriptors, messages, codes)


def open_sockets() -> set[str]:
    """As `socket:[12345]`. Sockets of an earlier test may be closed meanwhile."""
    found = set[str]()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            found.add(str(link.readlink()))
    return {name for name in found if name.startswith("socket:")}


def join(port: int, rank: int, size: int) -> Rank:
    """As `meet`, with stores that count."""
    launch = Launch(rank, size)
    first = CountingStore(dist.TCPStore(HOST, port, is_master=False))
    name = Rendezvous(launch, TIMEOUT_SECONDS).agree_on_name(first)
    second = dist.TCPStore(HOST, port, is_master=False)
    store = CountingStore(dist.PrefixStore(f"{name}/peers", second))
    return Rank(rank, Supervisor(launch), Peers(store, rank, size), first, store)


def lose(ranks: Sequence[Rank], lost: int) -> tuple[list[str], list[int]]:
    """End all ranks but one as after its death, in which a collective fails on all others."""
    remaining = [rank for rank in ranks if rank.number != lost]
    before = [rank.store.counts.copy() for rank in remaining]
    seconds = ranks[0].peers.heartbeat_seconds
    with ended_processes(seconds) as (messages, codes):
        for rank in remaining:
            rank.supervisor.connect(rank.peers)
            for work in (watch, lose_peer):
                threading.Thread(target=work, args=(rank.supervisor,), daemon=True).start()
        while len(codes) < len(remaining):
            time.sleep(seconds)
        for rank in remaining:
            rank.supervisor.close()
    for rank, counts in zip(remaining, before, strict=True):
        requests = rank.store.counts - counts
        rank.verdict = Counter({k: n for k, n in requests.items() if k not in BEAT})
    return messages, codes


def watch(found: Supervisor) -> None:
    """The second thread of a rank; the third one exchanges heartbeats."""
    with suppress(SystemExit):
        found.run(wait_without_signals)


def lose_peer(found: Supervisor) -> None:
    """The main thread of a rank, in a collective that fails."""
    with suppress(SystemExit):
        found.fail(RuntimeError("Connection closed by peer"))


@contextmanager
def ended_processes(seconds: float) -> Iterator[tuple[list[str], list[int]]]:
    """Within it, the end of a process only ends the thread; returns the messages and exit codes.

    Each rank checks its state every `seconds`, not more often than it sends heartbeats.
    """
    messages: list[str] = []
    codes: list[int] = []

    def end_thread(code: int) -> None:
        codes.append(code)
        raise SystemExit

    with (
        patch.object(supervisor, "write_stderr", messages.append),
        patch.object(supervisor.os, "_exit", end_thread),
        patch.object(supervisor, "CHECK_SECONDS", seconds),
    ):
        yield messages, codes
