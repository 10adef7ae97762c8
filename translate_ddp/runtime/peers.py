"""Heartbeats, stop requests and the reason for a termination, shared by ranks through a store.

A store may never reply over a cut link. So all requests run on a background thread, and a caller
that cannot wait gets None after a timeout.
"""

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import TypeVar

from torch.distributed import Store

from translate_ddp.runtime.background import BackgroundThread
from translate_ddp.runtime.run_folder import RunStatus

T = TypeVar("T")

HEARTBEAT_SECONDS = 0.5  # between the heartbeats of a rank, with few ranks
HEARTBEATS_PER_SECOND = 500  # that the store receives at most, with many ranks
REPLY_SECONDS = 5.0  # timeout for a reply of the store when the run ends


@dataclass(frozen=True)
class Termination:
    """Why a run ends early. The first one that a rank claims in the store is the one reported."""

    status: RunStatus
    message: str
    exit_code: int  # of every rank
    rank: int  # that claims it


@dataclass(frozen=True)
class Heartbeat:
    """The progress of a rank; every rank enters the same phases in the same order."""

    number: int  # another one in each heartbeat of a rank
    phases: int  # entered so far
    is_waiting: bool  # for the work of another rank
    where: str


def slowest(heartbeats: dict[int, Heartbeat]) -> list[int]:
    """The ranks that the others wait for."""
    progress = {rank: (beat.phases, beat.is_waiting) for rank, beat in heartbeats.items()}
    return [rank for rank, value in progress.items() if value == min(progress.values())]


class Peers:
    """The store as seen by one rank. All methods but the first three block until it replies."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.heartbeat_seconds = max(HEARTBEAT_SECONDS, size / HEARTBEATS_PER_SECOND)
        self._is_reachable = True
        self._store = store
        self._background = BackgroundThread("peers")

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """The future result of a call of the methods below, on the background thread."""
        return self._background.submit(call)

    def try_call(self, call: Callable[[], T]) -> T | None:
        """The result of such a call, or None if the store is lost or does not reply in time."""
        if not self._is_reachable:
            return None
        try:
            return self._background.result(call, REPLY_SECONDS)
        except Exception:
            self._is_reachable = False  # the thread may be stuck: the next call would time out too
            return None

    def close(self) -> None:
        # A thread that is still in the store's code when Python exits would abort the process.
        self._background.close(REPLY_SECONDS)

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._store.set(f"heartbeat/{self.rank}", json.dumps(asdict(heartbeat)))

    def heartbeats(self, ranks: Iterable[int]) -> dict[int, Heartbeat]:
        """The last heartbeat of each of these ranks that ever sent one."""
        found = {rank: self._read(f"heartbeat/{rank}") for rank in ranks}
        return {rank: Heartbeat(**json.loads(text)) for rank, text in found.items() if text}

    def observe(
        self, next_heartbeat: Callable[[], Heartbeat]
    ) -> tuple[dict[int, Heartbeat], list[int]]:
        """The last heartbeat of each rank, and the ranks that send no new ones.

        Waits for a few heartbeats, and sends some itself, as other ranks may observe this one.
        """
        before = self.heartbeats(range(self.size))
        for _ in range(3):
            time.sleep(self.heartbeat_seconds)
            self.send_heartbeat(next_heartbeat())
        now = self.heartbeats(range(self.size))
        others = (rank for rank in range(self.size) if rank != self.rank)
        return now, [rank for rank in others if now.get(rank) == before.get(rank)]

    def claim(self, termination: Termination) -> bool:
        """Whether this is the first termination of the run."""
        mine = json.dumps(asdict(termination))
        return self._store.compare_set("termination", "", mine).decode() == mine

    def termination(self) -> Termination | None:
        found = self._read("termination")
        return Termination(**json.loads(found)) if found else None

    def request_stop(self, reason: str) -> None:
        self._store.set("stop", reason)

    def stop_request(self) -> str | None:
        return self._read("stop")

    def count_exiting(self, more: int = 0) -> int:
        """The number of ranks that are about to exit, after adding `more`."""
        return self._store.add("exiting", more)

    def _read(self, key: str) -> str | None:
        return self._store.get(key).decode() if self._store.check([key]) else None
