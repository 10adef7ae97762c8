"""Watchdog thread: detects signals, hangs and lost ranks.

Collectives block the main thread. So a second thread watches its progress, exchanges heartbeats
with the other ranks, and ends the process with one message.
"""

import itertools
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from signal import SIGINT, SIGTERM, Signals
from typing import Literal, NoReturn

from translate_ddp.errors import first_line
from translate_ddp.runtime.heartbeat import heartbeats_to
from translate_ddp.runtime.peers import Heartbeat, Peers, Termination, slowest
from translate_ddp.runtime.process_exit import ExitCode, ProcessExit
from translate_ddp.runtime.run_folder import RunStatus
from translate_ddp.runtime.signals import SignalReceiver, receive_signals

CHECK_SECONDS = 0.25
GRACE_SECONDS = 30.0  # torchrun's default between a signal to its ranks and SIGKILL
RESUME = "Run the same command to resume from the last checkpoint."


class Watchdog:
    """The progress of one rank, recorded by its main thread, and the checks of a second thread.

    A run is `starting` (a stop request ends it at once, as there is nothing to save), `training`
    (the main thread obeys `stop_reason` within the launcher's grace period) or `ending`.
    """

    def __init__(self, rank: int = 0, size: int = 1, under_torchrun: bool = False) -> None:
        self.rank, self.size = rank, size
        self.exit = ProcessExit(rank)
        self.stop_reason: str | None = None
        self.stage: Literal["starting", "training", "ending"] = "starting"
        self.timeout_seconds = float("inf")  # without progress, in a phase that has a timeout
        self._agent = os.getppid() if under_torchrun else None
        self._started_at = self._progress_at = time.monotonic()
        self._stop_requested_at = 0.0
        self._stop_at = float("inf")
        self._phase, self._step, self._phases, self._has_timeout = "starting", 0, 0, True
        self._is_interrupted = False
        self._exchange: Future[None] | None = None
        self._exchanged_at = 0.0
        self._heartbeats = itertools.count()
        self._awaited: tuple[int, ...] = ()
        self._awaited_heartbeats: dict[int, Heartbeat] = {}
        self._termination: Termination | None = None
        self.is_closed = False

    # --- progress, reported by the main thread ---

    def enter_phase(self, phase: str, step: int | None = None, *, has_timeout: bool = True) -> None:
        """Record that the main thread enters a phase, of update `step` if given."""
        self._phase, self._phases, self._has_timeout = phase, self._phases + 1, has_timeout
        self._step = self._step if step is None else step
        self.heartbeat()

    def heartbeat(self) -> None:
        """Record progress within a long phase."""
        self._progress_at = time.monotonic()

    @contextmanager
    def waiting_for(self, ranks: tuple[int, ...]) -> Iterator[None]:
        """Within it, heartbeats of all these ranks count as progress of this one."""
        self.heartbeat()
        self._awaited = tuple(rank for rank in ranks if rank != self.rank)
        yield
        self._awaited = ()

    def begin_training(self, max_minutes: float = 0.0) -> None:
        """From now on there is something to save; stop `max_minutes` after the start, if not 0."""
        self.stage = "training"
        if max_minutes:
            self._stop_at = self._started_at + 60 * max_minutes

    def request_stop(self, reason: str) -> None:
        """Let all ranks stop early; of several reasons this rank keeps the first."""
        if self.stop_reason is None:
            self._stop_requested_at = time.monotonic()  # first: another thread may read both
            self.stop_reason = reason
            self._exchanged_at = 0.0  # inform the other ranks at once

    @property
    def where(self) -> str:
        return f"step {self._step}, {self._phase}" if self._step else self._phase

    # --- the thread ---

    def connect(self, peers: Peers) -> None:
        """Exchange heartbeats with the other ranks from now on."""
        self.exit.peers = peers
        self.enter_phase("joining the other ranks")

    def run(self, signals: SignalReceiver) -> None:
        """Check signals, progress and the other ranks until `is_closed`."""
        while not self.is_closed:
            for number in signals.wait(CHECK_SECONDS):
                self._on_signal(number)
            self._check(time.monotonic())

    def _on_signal(self, number: Signals) -> None:
        # torchrun sends a SIGTERM at the second Ctrl-C.
        if self._is_interrupted and number in (SIGINT, SIGTERM):
            if self.rank == 0:
                self.exit.save_status("preempted", f"Second Ctrl-C: exited at once. {RESUME}")
            os._exit(ExitCode.INTERRUPTED)
        self._is_interrupted |= number == SIGINT
        self.request_stop(number.name)
        if self.exit.peers is None and self.size > 1:
            os._exit(128 + number)  # not connected: the launcher has to stop the other ranks

    def _check(self, now: float) -> None:
        if self._agent is not None and os.getppid() != self._agent:
            self.request_stop(f"torchrun (process {self._agent}) has exited")
        if self.stage == "training" and now > self._stop_at:
            self.request_stop("--max_minutes reached")
        self._exchange_with_peers(now)
        if self._termination is not None:
            self.exit.terminate(self._termination)
        if self.stop_reason is not None:
            self._check_stop(self.stop_reason, now)
        if self.stage != "ending" and self._has_timeout:
            if now - self._progress_at > self.timeout_seconds:
                self._terminate("failed", self._describe_hang(), ExitCode.RETRY)

    def _check_stop(self, reason: str, now: float) -> None:
        if self.stage == "starting":
            text = f"Stopped before the first step ({reason}). Run the same command to start again."
            self._terminate("preempted", text, ExitCode.PREEMPTED)
        # A little less than the time after which the launcher sends SIGKILL.
        grace = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", GRACE_SECONDS)) - 5
        if self.stage == "training" and now - self._stop_requested_at > grace:
            text = (
                f"Stop requested ({reason}), but {self.where} took longer than the grace period "
                f"of {grace:g} s: exited without a new checkpoint. {RESUME}"
            )
            self._terminate("preempted", text, ExitCode.RETRY)

    def _exchange_with_peers(self, now: float) -> None:
        peers = self.exit.peers
        if peers is None or now - self._exchanged_at < peers.heartbeat_seconds:
            return
        if self._exchange is None or self._exchange.done():
            self._exchanged_at = now
            self._exchange = peers.submit(lambda: self._synchronize(peers))

    def _synchronize(self, peers: Peers) -> None:
        """Send this rank's progress; read stop requests, terminations and heartbeats."""
        peers.send_heartbeat(self._next_heartbeat())
        self._termination = peers.termination()
        if self.stop_reason is not None:
            peers.request_stop(self.stop_reason)
        elif reason := peers.stop_request():
            self.request_stop(reason)
        old, new = self._awaited_heartbeats, peers.heartbeats(self._awaited)
        if new and all(new.get(rank) != old.get(rank) for rank in self._awaited):
            self._awaited_heartbeats = new
            self.heartbeat()

    def _next_heartbeat(self) -> Heartbeat:
        return Heartbeat(next(self._heartbeats), self._phases, bool(self._awaited), self.where)

    # --- the end of the process ---

    def report_lost_peer(self, error: BaseException) -> NoReturn:
        """End the process after a collective has failed because another rank is gone."""
        # Observing takes time, in which the watchdog thread may receive another rank's explanation.
        self.heartbeat()
        problem, _ = self._observe_peers("died or disconnected")
        problem = problem or (
            f"The connection to another rank broke (rank {self.rank}, at {self.where}): "
            f"{first_line(error)}"
        )
        self._terminate("failed", f"{problem}. {RESUME}", ExitCode.RETRY, error)

    def _terminate(
        self, status: RunStatus, message: str, code: ExitCode, error: BaseException | None = None
    ) -> NoReturn:
        self.exit.terminate(Termination(status, message, code, self.rank), error)

    def _describe_hang(self) -> str:
        problem, heartbeats = self._observe_peers("did not respond")
        if not problem:
            hung = slowest(heartbeats)
            problem = f"{ranks(hung)} hung at {heartbeats[hung[0]].where}"
        return f"{problem}: no progress for {self.timeout_seconds:g} s. {RESUME}"

    def _observe_peers(self, failure: str) -> tuple[str, dict[int, Heartbeat]]:
        """The ranks that do not respond, as a message ('' if all do), and all heartbeats."""
        peers = self.exit.peers
        if peers is None:
            return "", {self.rank: self._next_heartbeat()}
        observed = peers.try_call(lambda: peers.observe(self._next_heartbeat))
        if observed is None:
            return f"Rank {self.rank} lost its connection to the others at {self.where}", {}
        heartbeats, unresponsive = observed
        self.exit.unresponsive = unresponsive
        problem = f"{ranks(unresponsive)} {failure} at {self.where}" if unresponsive else ""
        return problem, heartbeats


def ranks(numbers: list[int]) -> str:
    """`Rank 1`, or `Ranks 1, 2`; of many ranks the first 16."""
    listed = ", ".join(map(str, numbers[:16])) + (" and others" if len(numbers) > 16 else "")
    return f"Rank{'s' * (len(numbers) > 1)} {listed}"


@contextmanager
def open_watchdog(rank: int, size: int, under_torchrun: bool) -> Iterator[Watchdog]:
    """A watchdog that receives this process's stop signals until the context ends."""
    watchdog = Watchdog(rank, size, under_torchrun)
    with receive_signals() as signals, heartbeats_to(watchdog.heartbeat):
        thread = threading.Thread(target=watchdog.run, args=(signals,), daemon=True)
        thread.start()
        try:
            yield watchdog
        finally:
            # Signals are received until then: one of them must not end an error without a report.
            watchdog.is_closed = True
            signals.wake()
            thread.join()
            if watchdog.exit.peers is not None:
                watchdog.exit.peers.close()
