"""Heartbeats, stop requests and the reason for a termination, shared by ranks through a store.

A store may never reply over a cut link. So all requests run on a background thread, and a caller
that cannot wait gets None after a timeout. No method makes more requests with more ranks.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TypeVar

from torch.distributed import Store

from translate_ddp.runtime.background import BackgroundThread
from translate_ddp.runtime.run_folder import RunStatus

T = TypeVar("T")

HEARTBEAT_SECONDS = 0.5  # between the heartbeats of a rank, with few ranks
HEARTBEATS_PER_SECOND = 500  # that the store receives at most, with many ranks
REPLY_SECONDS = 5.0  # timeout for a reply of the store when the run ends, with few ranks
SURVEY_HEARTBEATS = 3  # of each rank in a survey
EXIT_HEARTBEATS = 4  # in which the other ranks receive a termination and print their stacks
REPLY_HEARTBEATS = 10  # in which the store replies: more than a survey and all exits take


@dataclass(frozen=True)
class Termination:
    """Why a run ends early. The first one that a rank claims in the store is the one reported."""

    status: RunStatus
    message: str
    exit_code: int  # of every rank
    rank: int  # that claims it
    lost_ranks: list[int] = field(default_factory=list)  # do not respond


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


def create_keys(store: Store, size: int) -> None:
    """Create the keys that `Peers` reads, empty. The store would wait for those that are missing.

    One rank calls it before any other uses the store.
    """
    keys = ["termination", "stop", *(f"heartbeat/{rank}" for rank in range(size))]
    store.multi_set(keys, [""] * len(keys))  # pyright: ignore  # missing in torch's stubs


class Peers:
    """The store as seen by one rank. All methods but the first three block until it replies."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        """`create_keys` has prepared the store for `size` ranks."""
        self.rank, self.size = rank, size
        self.heartbeat_seconds = max(HEARTBEAT_SECONDS, size / HEARTBEATS_PER_SECOND)
        self.reply_seconds = max(REPLY_SECONDS, REPLY_HEARTBEATS * self.heartbeat_seconds)
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
            return self._background.result(call, self.reply_seconds)
        except Exception:
            self._is_reachable = False  # the thread may be stuck: the next call would time out too
            return None

    def close(self) -> None:
        # A thread that is still in the store's code when Python exits would abort the process.
        self._background.close(self.reply_seconds)

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._store.set(f"heartbeat/{self.rank}", json.dumps(asdict(heartbeat)))

    def heartbeats(self, ranks: Iterable[int]) -> dict[int, Heartbeat]:
        """The last heartbeat of each of these ranks that ever sent one."""
        ranks = list(ranks)
        found = self._store.multi_get([f"heartbeat/{rank}" for rank in ranks])
        pairs = zip(ranks, found, strict=True)
        return {rank: Heartbeat(**json.loads(text)) for rank, text in pairs if text}

    def read_requests(self) -> tuple[Termination | None, str]:
        """The termination that a rank has claimed, and the reason of a stop request, '' if none."""
        termination, reason = self._store.multi_get(["termination", "stop"])
        return (Termination(**json.loads(termination)) if termination else None), reason.decode()

    def request_stop(self, reason: str) -> None:
        self._store.set("stop", reason)

    def claim_survey(self) -> bool:
        """Whether this rank is the first to claim it: it then has to find out why the run ends."""
        return self._store.compare_set("surveyor", "", str(self.rank)).decode() == str(self.rank)

    def survey(
        self, next_heartbeat: Callable[[], Heartbeat]
    ) -> tuple[dict[int, Heartbeat], list[int]]:
        """The last heartbeat of each rank, and the ranks that send no new ones.

        Waits for a few heartbeats, and sends some itself, as other ranks may survey this one.
        """
        before = self.heartbeats(range(self.size))
        for _ in range(SURVEY_HEARTBEATS):
            time.sleep(self.heartbeat_seconds)
            self.send_heartbeat(next_heartbeat())
        now = self.heartbeats(range(self.size))
        others = (rank for rank in range(self.size) if rank != self.rank)
        return now, [rank for rank in others if now.get(rank) == before.get(rank)]

    def claim(self, termination: Termination) -> Termination:
        """The first termination of the run: this one, or that of another rank."""
        mine = json.dumps(asdict(termination))
        return Termination(**json.loads(self._store.compare_set("termination", "", mine)))

    def send_exit(self) -> None:
        """Report that this rank has printed its stack."""
        self._store.set(f"exited/{self.rank}", "")

    def wait_for_exits(self, lost_ranks: Sequence[int]) -> None:
        """Wait until all other ranks have called `send_exit`, or for a few heartbeats."""
        others = set(range(self.size)) - {self.rank, *lost_ranks}
        seconds = EXIT_HEARTBEATS * self.heartbeat_seconds
        if others:
            keys = [f"exited/{rank}" for rank in sorted(others)]
            self._store.wait(keys, timedelta(seconds=seconds))
