"""A thread beside the work of a rank, for what the work cannot see while it is at it.

It hears signals, misses torchrun when that is gone, notices that the work stands still or that
another rank is lost, and ends the process in one sentence. Ranks tell each other over a board; the
first word there on how the run ends is the one that counts.
"""

import json
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, NoReturn, Protocol, TypeVar

T = TypeVar("T")
Ending = Literal["preempted", "failed"]

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)
TICK_SECONDS = 0.25  # between two looks around
BEAT_SECONDS = 0.5  # between two words to the other ranks, where they are few
RANKS_A_SECOND = 500  # that the board hears where they are many
ANSWER_SECONDS = 5.0  # for the board to answer, when the run ends
GRACE_SECONDS = 30.0  # what torchrun leaves its ranks between a signal and SIGKILL, by default
STACK_FRAMES = 12

PREEMPTED, FAILED, LOST = 0, 1, 75  # exit codes; the last: start again, nothing was wrong with us


class Board(Protocol):
    """What ranks can write to and read from; a store of torch.distributed is one."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def check(self, keys: list[str], /) -> bool: ...
    def add(self, key: str, amount: int, /) -> int: ...
    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes: ...


@dataclass(frozen=True)
class Verdict:
    """How a run ends that does not end by itself."""

    state: Ending
    text: str
    code: int
    by: int


@dataclass(frozen=True)
class Beat:
    """Where a rank is; `phases` counts those it has entered, the same ones on every rank."""

    number: int
    phases: int
    waits: bool  # for the work of another rank
    where: str


class Watch:
    """What one rank is doing, and the thread that watches it. Without `open` it only keeps notes.

    A run is `starting` (there is nothing to save: a request to stop ends it at once), `training`
    (the work heeds `stop`, within the grace that launchers leave) or `ending`.
    """

    def __init__(self, rank: int = 0, size: int = 1, supervised: bool = False) -> None:
        self.rank, self.size = rank, size
        self.stop: str | None = None  # why the run should end early, once somebody asked
        self.stage: Literal["starting", "training", "ending"] = "starting"
        self.on_verdict: Callable[[Ending, str], None] = lambda state, reason: None
        self._supervisor = os.getppid() if supervised else None
        self._began = time.monotonic()
        self._stop_since = 0.0
        self._stop_at = float("inf")
        self._limit = float("inf")
        self._limited = True
        self._phase, self._step, self._phases = "starting", 0, 0
        self._sign = self._began
        self._interrupted = False
        self._board: Board | None = None
        self._mail: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._exchange: Future[None] | None = None
        self._exchanged = 0.0
        self._beat_seconds = max(BEAT_SECONDS, size / RANKS_A_SECOND)
        self._beats = 0
        self._awaited: tuple[int, ...] = ()
        self._last_heard: dict[int, int] = {}
        self._verdict: Verdict | None = None
        self._silent: list[int] = []
        self._is_cut_off = False  # the board did not answer
        self._end = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()

    # --- what the work says ---

    def at(self, phase: str, step: int | None = None, *, limited: bool = True) -> None:
        """The work enters a phase, of update `step` if given: a sign of life.

        Work that gives none for longer than the limit stands still, unless it is not `limited`.
        """
        self._phase, self._phases, self._limited = phase, self._phases + 1, limited
        self._step = self._step if step is None else step
        self._sign = time.monotonic()

    def alive(self) -> None:
        """A sign of life in a long phase."""
        self._sign = time.monotonic()

    @contextmanager
    def awaiting(self, ranks: tuple[int, ...]) -> Iterator[None]:
        """As long as those ranks live, waiting for them is no standing still."""
        self._awaited = ranks
        yield
        self._awaited = ()

    def begin_training(self, max_minutes: float = 0.0) -> None:
        """From here on there is something to save; stop after so many minutes since the start."""
        self.stage = "training"
        if max_minutes:
            self._stop_at = self._began + 60 * max_minutes

    def ask(self, reason: str) -> None:
        """Let the run end early; the first reason counts, on every rank."""
        if self.stop is None:
            self.stop, self._stop_since = reason, time.monotonic()
            self._exchanged = 0.0  # at once

    @property
    def where(self) -> str:
        return f"step {self._step}, {self._phase}" if self._step else self._phase

    # --- the thread ---

    def open(self, wake_up: socket.socket) -> None:
        """Watch from here on; numbers of signals come out of `wake_up`."""
        self._start(lambda: self._watch(wake_up))

    def join(self, board: Board) -> None:
        """Keep in touch with the other ranks from here on."""
        self._board = board
        self.alive()
        self._start(self._deliver)

    def limit(self, seconds: float) -> None:
        """How long the work may go without a sign of life."""
        self._limit = seconds

    def close(self) -> None:
        self._closed.set()
        for thread in self._threads:
            # A thread that is still in the store's code when Python ends would abort the process.
            thread.join(ANSWER_SECONDS)

    def _start(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()

    def _watch(self, wake_up: socket.socket) -> None:
        while not self._closed.is_set():
            ready, _, _ = select.select([wake_up], [], [], TICK_SECONDS)
            for number in wake_up.recv(64) if ready else b"":
                self._hear(signal.Signals(number))
            self._look_around()

    def _hear(self, number: signal.Signals) -> None:
        # torchrun turns the second Ctrl-C into a SIGTERM.
        if self._interrupted and number in (signal.SIGINT, signal.SIGTERM):
            if self.rank == 0:
                self.on_verdict("preempted", "Ctrl-C twice: ended at once")
            os._exit(130)
        self._interrupted |= number == signal.SIGINT
        self.ask(number.name)
        if self._board is None and self.size > 1:
            os._exit(128 + number)  # the others cannot be told: let the launcher do it

    def _look_around(self) -> None:
        now = time.monotonic()
        if self._supervisor is not None and os.getppid() != self._supervisor:
            self.ask(f"torchrun (process {self._supervisor}) is gone")
        if now > self._stop_at:
            self.ask("--max_minutes is over")
        self._keep_in_touch(now)
        if self._verdict is not None:
            self._leave(self._verdict)
        if self.stop is not None and self.stage == "starting":
            text = f"Stopped before the first step ({self.stop}): the same command starts again."
            self._finish(Verdict("preempted", text, PREEMPTED, self.rank), stacks=False)
        if self.stop is not None and now - self._stop_since > grace_seconds():
            text = (
                f"{self.stop}, but {self.where} took longer than the {grace_seconds():.0f} s there "
                "were: ended without a new checkpoint. The same command goes on from the last one."
            )
            self._finish(Verdict("preempted", text, LOST, self.rank))
        if self._limited and self.stage != "ending" and now - self._sign > self._limit:
            self._finish(Verdict("failed", self._standstill(), LOST, self.rank))

    # --- the other ranks ---

    def _keep_in_touch(self, now: float) -> None:
        if self._board is None or now - self._exchanged < self._beat_seconds:
            return
        if self._exchange is None or self._exchange.done():
            self._exchanged = now
            self._exchange = self._post(self._swap_news)

    def _swap_news(self) -> None:
        """Tell the others where this rank is, and hear whether one of them ends the run."""
        board = self._board
        assert board is not None
        self._send_beat()
        if board.check(["verdict"]):
            self._verdict = Verdict(**json.loads(board.get("verdict")))
        elif self.stop is not None:
            board.set("stop", self.stop)
        elif board.check(["stop"]):
            self.ask(board.get("stop").decode())
        heard = {rank: beat.number for rank, beat in self._read_beats(self._awaited).items()}
        if heard != self._last_heard:
            self._last_heard = heard
            self.alive()

    def _send_beat(self) -> None:
        assert self._board is not None
        self._beats += 1
        beat = Beat(self._beats, self._phases, bool(self._awaited), self.where)
        self._board.set(f"beat/{self.rank}", json.dumps(asdict(beat)))

    def _read_beats(self, ranks: tuple[int, ...] | range) -> dict[int, Beat]:
        board = self._board
        assert board is not None
        keys = {rank: f"beat/{rank}" for rank in ranks}
        return {
            rank: Beat(**json.loads(board.get(key)))
            for rank, key in keys.items()
            if board.check([key])
        }

    def _survey(self) -> dict[int, Beat]:
        """Where all ranks are; `_silent` are those that tell nothing new."""
        before = self._read_beats(range(self.size))
        for _ in range(3):
            time.sleep(self._beat_seconds)
            self._send_beat()  # another rank may be asking the same
        now = self._read_beats(range(self.size))
        others = (rank for rank in range(self.size) if rank != self.rank)
        self._silent = [r for r in others if r not in now or now[r] == before.get(r)]
        return now

    def _post(self, call: Callable[[], T]) -> "Future[T]":
        """Have the board asked by a thread of its own: on a cut link it may never answer."""
        future: Future[T] = Future()
        self._mail.put((call, future))
        return future

    def _deliver(self) -> None:
        while not self._closed.is_set():
            with suppress(queue.Empty):
                call, future = self._mail.get(timeout=TICK_SECONDS)
                try:
                    future.set_result(call())
                except Exception as error:  # the board is lost: from now on each rank is alone
                    future.set_exception(error)

    def _asked(self, call: Callable[[], T]) -> T | None:
        """What the board answers, or None if it does not."""
        if self._board is None or self._is_cut_off:
            return None
        try:
            return self._post(call).result(timeout=ANSWER_SECONDS)
        except Exception:  # lost, or too late
            self._is_cut_off = True  # the thread that asks may be stuck: waiting again is in vain
            return None

    # --- the end ---

    def failed(self, error: BaseException, lost_contact: bool) -> None:
        """The work ended in an error: its own, for the caller to raise on, or for want of a peer.

        The latter does not return.
        """
        if lost_contact:
            # Meanwhile a rank that knows more may have the last word, which the thread then hears.
            self.alive()
            self._finish(Verdict("failed", self._loss(error), LOST, self.rank), error)
        self._take_the_end()
        reason = f"{type(error).__name__}: {first_line(error)}"
        text = f"Rank {self.rank} failed at {self.where}: {reason}"
        self._announce(Verdict("failed", text, FAILED, self.rank))
        self._let_others_leave()

    def refuse(self, text: str) -> None:
        """This rank alone ends the run in a sentence, which the caller tells."""
        self._take_the_end()
        self._asked(lambda: self._claim(Verdict("failed", text, 2, self.rank)))
        self._let_others_leave()

    def _finish(
        self, verdict: Verdict, error: BaseException | None = None, stacks: bool = True
    ) -> NoReturn:
        self._take_the_end()
        first = self._announce(verdict)
        if stacks:
            show_stack(self.rank, error)
        if first:
            self._let_others_leave()
        else:
            self._asked(lambda: self._count_leavers(1))
        os._exit(verdict.code)

    def _take_the_end(self) -> None:
        """Only one thread ends the process; the other one goes no further."""
        in_main = threading.current_thread() is threading.main_thread()
        if not self._end.acquire(blocking=in_main):
            sys.exit()  # of this thread alone

    def _leave(self, verdict: Verdict) -> NoReturn:
        """Another rank has had the last word."""
        self._take_the_end()
        if verdict.code != PREEMPTED:
            show_stack(self.rank)
        self._asked(lambda: self._count_leavers(1))
        os._exit(verdict.code)

    def _announce(self, verdict: Verdict) -> bool:
        """Have the last word, if nobody else had it before: tell it and keep it."""
        first = self._asked(lambda: self._claim(verdict)) is not False
        if first:
            prefix = "error: " if verdict.state == "failed" else ""
            sys.stdout.flush()
            os.write(2, f"{prefix}{verdict.text}\n".encode())
            self._keep(verdict)
        return first

    def _keep(self, verdict: Verdict) -> None:
        """Tell the disk, which may lie beyond a cut link, and then does not even refuse."""
        keeper = threading.Thread(target=self.on_verdict, args=(verdict.state, verdict.text))
        keeper.daemon = True
        keeper.start()
        keeper.join(ANSWER_SECONDS)

    def _claim(self, verdict: Verdict) -> bool:
        assert self._board is not None
        mine = json.dumps(asdict(verdict))
        return self._board.compare_set("verdict", "", mine).decode() == mine

    def _count_leavers(self, more: int) -> int:
        assert self._board is not None
        return self._board.add("left", more)

    def _let_others_leave(self) -> None:
        """Keep the board, and the launcher, until the others have shown where they were."""
        deadline = time.monotonic() + 4 * self._beat_seconds
        while self._board is not None and time.monotonic() < deadline:
            left = self._asked(lambda: self._count_leavers(0))
            if left is None or left + len(self._silent) >= self.size - 1:
                return
            time.sleep(0.05)

    def _standstill(self) -> str:
        beats = self._asked(self._survey) or {}
        places = {rank: (beat.phases, beat.waits) for rank, beat in beats.items()}
        behind = min(places.values(), default=None)
        slow = [rank for rank, place in places.items() if place == behind] or [self.rank]
        if self._silent:
            who = f"{ranks(self._silent)} gave no answer at {self.where}"
        elif self._is_cut_off:
            who = f"Rank {self.rank} was cut off from the others at {self.where}"
        else:
            where = beats[slow[0]].where if slow[0] in beats else self.where
            who = f"{ranks(slow)} stood still at {where}"
        return f"{who}: no progress for {self._limit:g} s. {GO_ON}"

    def _loss(self, error: BaseException) -> str:
        self._asked(self._survey)
        if self._silent:
            return f"{ranks(self._silent)} got lost at {self.where}. {GO_ON}"
        if self._is_cut_off:
            return f"Rank {self.rank} was cut off from the others at {self.where}. {GO_ON}"
        where = f"rank {self.rank}, at {self.where}"
        return f"The connection to another rank broke ({where}): {first_line(error)}. {GO_ON}"


GO_ON = "The same command goes on from the last checkpoint."


def ranks(numbers: list[int]) -> str:
    """`Rank 1`, or `Ranks 1, 2`, a few of them."""
    listed = ", ".join(map(str, numbers[:16])) + (" and others" if len(numbers) > 16 else "")
    return f"Rank{'s' * (len(numbers) > 1)} {listed}"


def grace_seconds() -> float:
    """Between a request to stop and the end: a little less than the launcher leaves."""
    return float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", GRACE_SECONDS)) - 5


def show_stack(rank: int, error: BaseException | None = None) -> None:
    """Print where this rank's work is, or was when it failed, in one write: ranks do not mix."""
    if error is not None:
        lines = traceback.format_tb(error.__traceback__)[-STACK_FRAMES:]
    else:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        lines = traceback.format_stack(frame)[-STACK_FRAMES:] if frame is not None else []
    os.write(2, f"rank {rank} stood here:\n{''.join(lines)}".encode())


def first_line(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or ["no reason given"])[0]
    return first.split(". This is typically caused by")[0]  # gloo's guesses, and its good wishes


@contextmanager
def watching(rank: int, size: int, supervised: bool) -> Iterator[Watch]:
    """Hear signals instead of dying of them, as long as this lasts; what nohup ignores stays so.

    Python's own handlers wait until the work comes back from a collective; the bytes that its C
    handler writes do not.
    """
    watch = Watch(rank, size, supervised)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    heeded = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: None) for number in heeded}
    wake_up_before = signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    watch.open(theirs)
    try:
        yield watch
    finally:
        signal.set_wakeup_fd(wake_up_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        watch.close()
        ours.close()
        theirs.close()
