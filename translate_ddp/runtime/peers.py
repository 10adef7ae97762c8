"""Notices that ranks leave for each other in a store, beside their work.

A store may never answer over a cut link, so a thread of its own asks it; whoever cannot wait is
told after a while that there is no answer.
"""

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Literal, Protocol, TypeVar

from translate_ddp.runtime.background import BackgroundThread

T = TypeVar("T")
Ending = Literal["preempted", "failed"]

BEAT_SECONDS = 0.5  # between two words to the other ranks, where they are few
RANKS_A_SECOND = 500  # that the store hears where they are many
ANSWER_SECONDS = 5.0  # for the store, when the run ends


class Store(Protocol):
    """What is needed of the store that the ranks of a start share."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def check(self, keys: list[str], /) -> bool: ...
    def add(self, key: str, amount: int, /) -> int: ...
    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes: ...


@dataclass(frozen=True)
class Verdict:
    """How a run ends that does not end by itself; the first one on the board counts."""

    state: Ending
    text: str
    code: int  # that every rank exits with
    by: int


@dataclass(frozen=True)
class Heartbeat:
    """Where a rank is; `phases` counts those it has entered, the same ones on every rank."""

    number: int
    phases: int
    waits: bool  # for the work of another rank
    where: str


@dataclass(frozen=True)
class Survey:
    """Where all ranks are that have ever said so, and which of them tell nothing new."""

    beats: dict[int, Heartbeat]
    silent: list[int]

    @property
    def slowest(self) -> list[int]:
        """Those that the others wait for."""
        places = {rank: (beat.phases, beat.waits) for rank, beat in self.beats.items()}
        return [rank for rank, place in places.items() if place == min(places.values())]


class Peers:
    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.beat_seconds = max(BEAT_SECONDS, size / RANKS_A_SECOND)
        self.answers = True
        self._store = store
        self._background = BackgroundThread("peers")

    def soon(self, call: Callable[[], T]) -> "Future[T]":
        """What comes of a call of the methods below, once those before it are done."""
        return self._background.submit(call)

    def ask(self, call: Callable[[], T]) -> T | None:
        """What comes of the call, or None if the store is lost or does not answer in time."""
        if not self.answers:
            return None
        try:
            return self._background.result(call, ANSWER_SECONDS)
        except Exception:
            self.answers = False  # the thread that asks may be stuck: waiting again is in vain
            return None

    def close(self) -> None:
        # A thread that is still in the store's code when Python ends would abort the process.
        self._background.close(ANSWER_SECONDS)

    # --- for calls ---

    def send_beat(self, beat: Heartbeat) -> None:
        self._store.set(f"beat/{self.rank}", json.dumps(asdict(beat)))

    def beats(self, ranks: Iterable[int]) -> dict[int, Heartbeat]:
        """The last beat of each of these ranks that ever sent one."""
        keys = {rank: f"beat/{rank}" for rank in ranks}
        return {
            rank: Heartbeat(**json.loads(self._store.get(key)))
            for rank, key in keys.items()
            if self._store.check([key])
        }

    def survey(self, beat: Callable[[], Heartbeat]) -> Survey:
        """Listen for a few beats, and go on sending one's own: another rank may do the same."""
        before = self.beats(range(self.size))
        for _ in range(3):
            time.sleep(self.beat_seconds)
            self.send_beat(beat())
        now = self.beats(range(self.size))
        others = (rank for rank in range(self.size) if rank != self.rank)
        return Survey(now, [r for r in others if r not in now or now[r] == before.get(r)])

    def claim(self, verdict: Verdict) -> bool:
        """Whether this is the first verdict."""
        mine = json.dumps(asdict(verdict))
        return self._store.compare_set("verdict", "", mine).decode() == mine

    def verdict(self) -> Verdict | None:
        found = self._read("verdict")
        return Verdict(**json.loads(found)) if found else None

    def request_stop(self, reason: str) -> None:
        self._store.set("stop", reason)

    def stop_request(self) -> str | None:
        return self._read("stop")

    def count_leavers(self, more: int = 0) -> int:
        """How many ranks have said that they leave, with `more` that say so now."""
        return self._store.add("left", more)

    def _read(self, key: str) -> str | None:
        return self._store.get(key).decode() if self._store.check([key]) else None
