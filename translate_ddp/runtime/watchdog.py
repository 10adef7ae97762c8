"""A thread beside the work of a rank, for what the work cannot see while it is at it.

It hears signals, misses torchrun when that is gone, notices that the work stands still or that
another rank ends the run, and ends the process in one sentence.
"""

import os
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
from typing import Literal, NoReturn

from translate_ddp.console import printable
from translate_ddp.errors import first_line
from translate_ddp.runtime.peers import ANSWER_SECONDS, Ending, Heartbeat, Peers, Survey, Verdict

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)
TICK_SECONDS = 0.25  # between two looks around
GRACE_SECONDS = 30.0  # what torchrun leaves its ranks between a signal and SIGKILL, by default
STACK_FRAMES = 12

# Exit codes; the last one: start again, nothing was wrong with this rank.
PREEMPTED, FAILED, REFUSED, INTERRUPTED, LOST = 0, 1, 2, 130, 75

GO_ON = "The same command goes on from the last checkpoint."


class Watchdog:
    """What one rank is doing, and the thread that watches it. Without `open` it only keeps notes.

    A run is `starting` (there is nothing to save: a request to stop ends it at once), `training`
    (the work heeds `stop`, within the grace that launchers leave) or `ending`.
    """

    def __init__(self, rank: int = 0, size: int = 1, supervised: bool = False) -> None:
        self.rank, self.size = rank, size
        self.stop: str | None = None  # why the run should end early, once somebody asked
        self.stage: Literal["starting", "training", "ending"] = "starting"
        self.on_verdict: Callable[[Ending, str], None] = lambda state, reason: None
        self.limit = float("inf")  # seconds that the work may go without a sign of life
        self._supervisor = os.getppid() if supervised else None
        self._began = self._sign = time.monotonic()
        self._stop_since = 0.0
        self._stop_at = float("inf")
        self._phase, self._step, self._phases, self._limited = "starting", 0, 0, True
        self._interrupted = False
        self._peers: Peers | None = None
        self._exchange: Future[None] | None = None
        self._exchanged = 0.0
        self._beats = 0
        self._awaited: tuple[int, ...] = ()
        self._last_heard: dict[int, int] = {}
        self._verdict: Verdict | None = None
        self._survey = Survey({}, [])
        self._end = threading.Lock()
        self._thread: threading.Thread | None = None
        self._inlet: socket.socket | None = None
        self._closed = threading.Event()

    # --- what the work says ---

    def at(self, phase: str, step: int | None = None, *, limited: bool = True) -> None:
        """The work enters a phase, of update `step` if given: a sign of life.

        Work that gives none for longer than the limit stands still, unless it is not `limited`.
        """
        self._phase, self._phases, self._limited = phase, self._phases + 1, limited
        self._step = self._step if step is None else step
        self.alive()

    def alive(self) -> None:
        """A sign of life in a long phase."""
        self._sign = time.monotonic()

    @contextmanager
    def awaiting(self, ranks: tuple[int, ...]) -> Iterator[None]:
        """As long as all of those ranks live, waiting for them is no standing still."""
        self.alive()
        self._awaited = tuple(rank for rank in ranks if rank != self.rank)
        yield
        self._awaited = ()

    def begin_training(self, max_minutes: float = 0.0) -> None:
        """From here on there is something to save; stop after so many minutes since the start."""
        self.stage = "training"
        if max_minutes:
            self._stop_at = self._began + 60 * max_minutes

    def ask(self, reason: str) -> None:
        """Let the run end early; of several reasons this rank keeps the first."""
        if self.stop is None:
            self.stop, self._stop_since = reason, time.monotonic()
            self._exchanged = 0.0  # the other ranks hear it at once

    @property
    def where(self) -> str:
        return f"step {self._step}, {self._phase}" if self._step else self._phase

    # --- the thread ---

    def open(self, inlet: socket.socket, outlet: socket.socket) -> None:
        """Watchdog from here on; numbers of signals go into `inlet` and come out of `outlet`."""
        self._inlet = inlet
        self._thread = threading.Thread(target=self._watch, args=(outlet,), daemon=True)
        self._thread.start()

    def join(self, peers: Peers) -> None:
        """Keep in touch with the other ranks from here on."""
        self._peers = peers
        self.at("joining the other ranks")

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None and self._inlet is not None:
            self._inlet.send(b"\0")  # no signal, but it wakes
            self._thread.join()
        if self._peers is not None:
            self._peers.close()

    def _watch(self, outlet: socket.socket) -> None:
        while not self._closed.is_set():
            ready, _, _ = select.select([outlet], [], [], TICK_SECONDS)
            # Others come too: torch handles SIGCHLD where it starts processes of its own.
            for number in filter(SIGNALS.__contains__, outlet.recv(64) if ready else b""):
                self._hear(signal.Signals(number))
            self._look_around(time.monotonic())

    def _hear(self, number: signal.Signals) -> None:
        # torchrun turns the second Ctrl-C into a SIGTERM.
        if self._interrupted and number in (signal.SIGINT, signal.SIGTERM):
            if self.rank == 0:
                self._keep("preempted", "Ctrl-C twice: ended at once")
            os._exit(INTERRUPTED)
        self._interrupted |= number == signal.SIGINT
        self.ask(number.name)
        if self._peers is None and self.size > 1:
            os._exit(128 + number)  # the others cannot be told: let the launcher do it

    def _look_around(self, now: float) -> None:
        if self._supervisor is not None and os.getppid() != self._supervisor:
            self.ask(f"torchrun (process {self._supervisor}) is gone")
        if self.stage == "training" and now > self._stop_at:
            self.ask("--max_minutes is over")
        self._keep_in_touch(now)
        if self._verdict is not None:
            self._leave(self._verdict)
        if self.stage == "starting" and self.stop is not None:
            text = f"Stopped before the first step ({self.stop}): the same command starts again."
            self._finish(Verdict("preempted", text, PREEMPTED, self.rank))
        if self.stage == "training" and self.stop is not None:
            if now - self._stop_since > grace_seconds():
                text = (
                    f"{self.stop}, but {self.where} took longer than the {grace_seconds():g} s "
                    f"there were: ended without a new checkpoint. {GO_ON}"
                )
                self._finish(Verdict("preempted", text, LOST, self.rank))
        if self.stage != "ending" and self._limited and now - self._sign > self.limit:
            self._finish(Verdict("failed", self._standstill(), LOST, self.rank))

    def _keep_in_touch(self, now: float) -> None:
        peers = self._peers
        if peers is None or now - self._exchanged < peers.beat_seconds:
            return
        if self._exchange is None or self._exchange.done():
            self._exchanged = now
            self._exchange = peers.soon(lambda: self._swap_news(peers))

    def _swap_news(self, peers: Peers) -> None:
        """Tell the others where this rank is, and hear whether one of them ends the run."""
        peers.send_beat(self._beat())
        self._verdict = peers.verdict()
        if self.stop is not None:
            peers.request_stop(self.stop)
        elif reason := peers.stop_request():
            self.ask(reason)
        heard = {rank: beat.number for rank, beat in peers.beats(self._awaited).items()}
        if heard and all(heard.get(r) != self._last_heard.get(r) for r in self._awaited):
            self._last_heard = heard
            self.alive()

    def _beat(self) -> Heartbeat:
        self._beats += 1
        return Heartbeat(self._beats, self._phases, bool(self._awaited), self.where)

    # --- the end ---

    def refuse(self, text: str) -> bool:
        """End the run in a sentence, which the caller tells if nobody was first."""
        self._take_the_end()
        first = self._claim(Verdict("failed", text, REFUSED, self.rank))
        if first:
            self._keep("failed", text)
        self._let_others_leave()
        return first

    def withdraw(self) -> None:
        """End this rank, as all do, without a word."""
        self._take_the_end()
        self._say_leaving()

    def failed(self, error: BaseException) -> None:
        """The work ended in an error of its own, which the caller raises on."""
        self._take_the_end()
        reason = f"{type(error).__name__}: {first_line(error)}"
        text = f"Rank {self.rank} failed at {self.where}: {reason}"
        self._announce(Verdict("failed", text, FAILED, self.rank))
        self._let_others_leave()

    def lost_contact(self, error: BaseException) -> NoReturn:
        """The work ended for want of another rank."""
        # Meanwhile a rank that knows more may have the last word, which the thread then hears.
        self.alive()
        self._finish(Verdict("failed", self._loss(error), LOST, self.rank), error)

    def _finish(self, verdict: Verdict, error: BaseException | None = None) -> NoReturn:
        """Have the last word, or show at least where this rank was, and end the process."""
        self._take_the_end()
        try:
            first = self._announce(verdict)
            if verdict.code == LOST:
                show_stack(self.rank, error)
            if first:
                self._let_others_leave()
            else:
                self._say_leaving()
        finally:
            os._exit(verdict.code)

    def _leave(self, verdict: Verdict) -> NoReturn:
        """Another rank has had the last word."""
        self._take_the_end()
        try:
            if verdict.code in (FAILED, LOST):
                show_stack(self.rank)
            self._keep(verdict.state, verdict.text)  # disks need not be shared
            self._say_leaving()
        finally:
            os._exit(verdict.code)

    def _take_the_end(self) -> None:
        """Only one thread ends the process; the other one goes no further."""
        in_main = threading.current_thread() is threading.main_thread()
        if not self._end.acquire(blocking=in_main):
            sys.exit()  # of this thread alone

    def _announce(self, verdict: Verdict) -> bool:
        first = self._claim(verdict)
        if first:
            prefix = "error: " if verdict.state == "failed" else ""
            tell(f"{prefix}{printable(verdict.text)}\n")
            self._keep(verdict.state, verdict.text)
        return first

    def _claim(self, verdict: Verdict) -> bool:
        """Whether this is the first verdict, as far as one can know."""
        peers = self._peers
        return peers is None or peers.ask(lambda: peers.claim(verdict)) is not False

    def _keep(self, state: Ending, text: str) -> None:
        """Tell the disk, which may lie beyond a cut link, and then does not even refuse."""
        keeper = threading.Thread(target=self.on_verdict, args=(state, text), daemon=True)
        keeper.start()
        keeper.join(ANSWER_SECONDS)

    def _say_leaving(self) -> None:
        if (peers := self._peers) is not None:
            peers.ask(lambda: peers.count_leavers(1))

    def _let_others_leave(self) -> None:
        """Keep the store, and the launcher, until the others have shown where they were."""
        if (peers := self._peers) is None:
            return
        deadline = time.monotonic() + 4 * peers.beat_seconds
        while time.monotonic() < deadline:
            left = peers.ask(peers.count_leavers)
            if left is None or left + len(self._survey.silent) >= self.size - 1:
                return
            time.sleep(0.05)

    def _look_for_others(self) -> str | None:
        """Survey the other ranks; what to say if that alone tells what is wrong."""
        peers = self._peers
        if peers is None:
            return None
        survey = peers.ask(lambda: peers.survey(self._beat))
        if survey is None:
            return f"Rank {self.rank} was cut off from the others at {self.where}"
        self._survey = survey
        return None

    def _standstill(self) -> str:
        told = self._look_for_others()
        survey = self._survey
        if told is None and survey.silent:
            told = f"{ranks(survey.silent)} gave no answer at {self.where}"
        if told is None and survey.beats:
            slowest = survey.slowest
            told = f"{ranks(slowest)} stood still at {survey.beats[slowest[0]].where}"
        told = told or f"Rank {self.rank} stood still at {self.where}"
        return f"{told}: no progress for {self.limit:g} s. {GO_ON}"

    def _loss(self, error: BaseException) -> str:
        told = self._look_for_others()
        if self._survey.silent:
            told = f"{ranks(self._survey.silent)} got lost at {self.where}"
        where = f"rank {self.rank}, at {self.where}"
        told = told or f"The connection to another rank broke ({where}): {first_line(error)}"
        return f"{told}. {GO_ON}"


def ranks(numbers: list[int]) -> str:
    """`Rank 1`, or `Ranks 1, 2`, a few of them."""
    listed = ", ".join(map(str, numbers[:16])) + (" and others" if len(numbers) > 16 else "")
    return f"Rank{'s' * (len(numbers) > 1)} {listed}"


def grace_seconds() -> float:
    """Between a request to stop and the end: a little less than the launcher leaves."""
    return float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", GRACE_SECONDS)) - 5


def show_stack(rank: int, error: BaseException | None = None) -> None:
    """Print where this rank's work is, or was when it failed."""
    if error is not None:
        lines = traceback.format_tb(error.__traceback__)[-STACK_FRAMES:]
    else:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        lines = traceback.format_stack(frame)[-STACK_FRAMES:] if frame is not None else []
    tell(f"rank {rank} stood here:\n{''.join(lines)}")


def tell(text: str) -> None:
    """Write to stderr at once, so that ranks do not mix, and whether or not anybody reads it."""
    with suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))


@contextmanager
def watching(rank: int, size: int, supervised: bool) -> Iterator[Watchdog]:
    """Hear signals instead of dying of them, as long as this lasts; what nohup ignores stays so.

    Python's own handlers wait until the work comes back from a collective; the bytes that its C
    handler writes do not.
    """
    watchdog = Watchdog(rank, size, supervised)
    inlet, outlet = socket.socketpair()
    inlet.setblocking(False)
    heeded = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: None) for number in heeded}
    wake_up_before = signal.set_wakeup_fd(inlet.fileno(), warn_on_full_buffer=False)
    watchdog.open(inlet, outlet)
    try:
        yield watchdog
    finally:
        watchdog.close()  # first: it takes a moment, in which a signal must not end an error unsaid
        signal.set_wakeup_fd(wake_up_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        inlet.close()
        outlet.close()
