"""Watchdog thread: detects signals, hangs and lost ranks.

Collectives block the main thread. So a second thread watches its progress, exchanges heartbeats
with the other ranks, and ends the process with one message.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from signal import SIGINT, SIGTERM, Signals
from typing import Literal, NoReturn

from torch.distributed import DistError

from translate_ddp.errors import first_line, type_and_line
from translate_ddp.quantities import rank_names
from translate_ddp.runtime.heartbeat import heartbeats_to
from translate_ddp.runtime.launcher import ONE_PROCESS, Launch
from translate_ddp.runtime.peers import Heartbeat, Peers, Termination, slowest
from translate_ddp.runtime.process_exit import ExitCode, ProcessExit
from translate_ddp.runtime.run_folder import RunStatus
from translate_ddp.runtime.signals import SignalReceiver, is_in_foreground, receive_signals

CHECK_SECONDS = 0.25
GRACE_SECONDS = 30.0  # torchrun's default between a signal to its ranks and SIGKILL
REPEAT_SECONDS = 1.0  # in which one Ctrl-C may arrive twice: also from a parent that forwards it
AWAITED_CHECKS = 20  # within the timeout; with many ranks, their heartbeats are the largest reply
RESUME = "Run the same command to continue."


class Watchdog:
    """The progress of one rank, recorded by its main thread, and the checks of a second thread.

    A run is `starting` (a stop request ends it at once, as there is nothing to save), `training`
    (the main thread acts on `stop_reason` within the launcher's grace period) or `ending`.
    """

    def __init__(
        self, rank: int = 0, size: int = 1, under_torchrun: bool = False, local_rank: int = 0
    ) -> None:
        self.rank, self.size = rank, size
        self.exit = ProcessExit(rank, local_rank)
        self.stop_reason: str | None = None
        self.stage: Literal["starting", "training", "ending"] = "starting"
        self.timeout_seconds = float("inf")  # without progress, in a phase that has a timeout
        self.preempted_exit_code: int = ExitCode.PREEMPTED
        self._agent = os.getppid() if under_torchrun else None
        self._started_at = self._progress_at = time.monotonic()
        self._stop_requested_at = 0.0
        self._stop_at = float("inf")
        self._phase, self._step, self._phases, self._has_timeout = "starting", 0, 0, True
        self._interrupted_at = float("inf")
        self._exchange: Future[None] | None = None
        self._exchanged_at = 0.0
        self._heartbeats = itertools.count()
        self._awaited: tuple[int, ...] = ()
        self._awaited_heartbeats: dict[int, Heartbeat] = {}
        self._termination: Termination | None = None  # claimed by another rank
        self._survey_claimed_at: float | None = None
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
        """From now on there is something to save; stop `max_minutes` after the start, if not 0.

        Does not return if the process is ending, as it was stopped before.
        """
        self.stage = "training"
        if self.exit.has_begun:
            threading.Event().wait()
        if max_minutes:
            self._stop_at = self._started_at + 60 * max_minutes

    def begin_ending(self) -> None:
        self.stage = "ending"

    def at_end(self, action, seconds, *, in_main_thread=False):
        if self.exit.write_status is None:

            def write(status, message):
                from types import SimpleNamespace

                action(SimpleNamespace(status=status, message=message))

            self.exit.write_status = write
        elif in_main_thread:
            self.exit.close_trackers = lambda s: action(None)
        else:
            self.exit.close_record = lambda s: action(None)

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
        try:
            while not self.is_closed:
                for number in signals.wait(CHECK_SECONDS):
                    self._on_signal(number, time.monotonic())
                self._check(time.monotonic())
        except Exception as error:  # without this thread, a hang would never end
            reason = type_and_line(error)
            message = f"The watchdog of rank {self.rank} failed at {self.where}: {reason}"
            self.end("failed", message, ExitCode.FAILED, error)

    def _on_signal(self, number: Signals, now: float) -> None:
        if self._is_second_interrupt(number, now):
            if self.rank == 0 and self.stage != "ending":  # whose state is saved
                self.exit.save_status("preempted", f"Second Ctrl-C: exited at once. {RESUME}")
            os._exit(ExitCode.INTERRUPTED)
        if number == SIGINT:
            self._interrupted_at = min(now, self._interrupted_at)
        self.request_stop(number.name)
        if self.exit.peers is None and self.size > 1:
            os._exit(128 + number)  # not connected: the launcher has to stop the other ranks

    def _is_second_interrupt(self, number: Signals, now: float) -> bool:
        """Whether Ctrl-C was pressed again.

        torchrun sends a SIGTERM then, as it does when a scheduler sends one after SIGINT. Only
        torchrun in the foreground of a terminal can receive a Ctrl-C.
        """
        if now - self._interrupted_at < REPEAT_SECONDS:  # also before the first one
            return False
        agent = self._agent
        return number == SIGINT or (
            number == SIGTERM and agent is not None and is_in_foreground(agent)
        )

    def _check(self, now: float) -> None:
        if self._agent is not None and os.getppid() != self._agent:
            self.request_stop(f"torchrun (process {self._agent}) has exited")
        if self.stage == "training" and now > self._stop_at:
            self.request_stop("--max_minutes reached")
        self._exchange_with_peers(now)
        if self._termination is not None:
            self.exit.end(self._termination)
        if self.stop_reason is not None:
            self._check_stop(self.stop_reason, now)
        is_late = now - self._progress_at > self.timeout_seconds
        if self.stage != "ending" and self._has_timeout and is_late and self._is_surveyor():
            problem, lost_ranks = self._survey("did not respond", describe_hang)
            message = f"{problem}: no progress for {self.timeout_seconds:g} s. {RESUME}"
            self.end("failed", message, ExitCode.RETRY, lost_ranks=lost_ranks)

    def _check_stop(self, reason: str, now: float) -> None:
        if self.stage == "starting":
            text = f"Stopped before the first step ({reason}). Run the same command to start again."
            self.end("preempted", text, self.preempted_exit_code)
        # A little less than the time after which the launcher sends SIGKILL. It sends none at the
        # end of --max_minutes, nor once it has died itself.
        grace = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", GRACE_SECONDS)) - 5
        is_late = now - self._stop_requested_at > grace
        if self.stage == "training" and is_late and reason in Signals.__members__:
            text = (
                f"Stop requested ({reason}), but {self.where} took longer than the grace period "
                f"of {grace:g} s: exited without saving. {RESUME}"
            )
            self.end("preempted", text, ExitCode.RETRY)

    def _exchange_with_peers(self, now: float) -> None:
        peers = self.exit.peers
        if peers is None or now - self._exchanged_at < peers.heartbeat_seconds:
            return
        if self._exchange is not None:
            if not self._exchange.done():
                return
            self._exchange.result()  # raises a defect, not a lost store
        self._exchanged_at = now
        self._exchange = peers.submit(lambda: self._synchronize(peers))

    def _synchronize(self, peers: Peers) -> None:
        """Send this rank's progress; read terminations, stop requests and awaited heartbeats."""
        with suppress(DistError):  # the store is lost when torchrun exits
            peers.send_heartbeat(self._next_heartbeat())
            self._termination, reason = peers.read_requests()
            if reason:
                self.request_stop(reason)
            elif self.stop_reason is not None:
                peers.request_stop(self.stop_reason)
            idle = time.monotonic() - self._progress_at
            if self._awaited and idle > self.timeout_seconds / AWAITED_CHECKS:
                old, new = self._awaited_heartbeats, peers.heartbeats(self._awaited)
                if all(new.get(rank) != old.get(rank) for rank in self._awaited):
                    self._awaited_heartbeats = new
                    self.heartbeat()

    def _next_heartbeat(self) -> Heartbeat:
        return Heartbeat(next(self._heartbeats), self._phases, bool(self._awaited), self.where)

    # --- the end of the process ---

    def end(
        self,
        status: RunStatus,
        message: str,
        code: int,
        error: BaseException | None = None,
        lost_ranks: list[int] | None = None,
    ) -> NoReturn:
        """End this process for a reason that this rank has found."""
        self.exit.end(Termination(status, message, code, self.rank, lost_ranks or []), error)

    def end_after_lost_peer(self, error: BaseException) -> NoReturn:
        """End the process after a collective has failed because another rank is gone."""
        self.heartbeat()  # a survey takes time
        while not self._is_surveyor():
            time.sleep(CHECK_SECONDS)  # the watchdog thread may receive the surveyor's explanation
        broken = f"The connection to another rank broke (rank {self.rank}, at {self.where})"
        problem, lost_ranks = self._survey(
            "died or disconnected", lambda heartbeats: f"{broken}: {first_line(error)}"
        )
        self.end("failed", f"{problem}. {RESUME}", ExitCode.RETRY, error, lost_ranks)

    def _is_surveyor(self) -> bool:
        """Whether this rank has to find out why the run ends.

        One rank does for all. If it reports nothing, every rank does.
        """
        if (peers := self.exit.peers) is None:
            return True
        if self._survey_claimed_at is None:
            self._survey_claimed_at = time.monotonic()
            return peers.try_call(peers.claim_survey) is not False
        return time.monotonic() - self._survey_claimed_at > 2 * peers.reply_seconds

    def _survey(
        self, failure: str, describe: Callable[[dict[int, Heartbeat]], str]
    ) -> tuple[str, list[int]]:
        """What is wrong, and the ranks that do not respond; described by heartbeats if all do."""
        if (peers := self.exit.peers) is None:
            return describe({self.rank: self._next_heartbeat()}), []
        surveyed = peers.try_call(lambda: peers.survey(self._next_heartbeat))
        if surveyed is None:
            where = f"at {self.where}: the store does not respond, so its process or machine"
            return f"Rank {self.rank} lost its connection to the others {where} may be lost", []
        heartbeats, lost_ranks = surveyed
        if lost_ranks:
            return f"{rank_names(lost_ranks).capitalize()} {failure} at {self.where}", lost_ranks
        return describe(heartbeats), []


def describe_hang(heartbeats: dict[int, Heartbeat]) -> str:
    hung = slowest(heartbeats)
    return f"{rank_names(hung).capitalize()} hung at {heartbeats[hung[0]].where}"


@contextmanager
def open_watchdog(launch: Launch = ONE_PROCESS) -> Iterator[Watchdog]:
    """A watchdog that receives this process's stop signals until the context ends."""
    watchdog = Watchdog(launch.rank, launch.size, launch.under_torchrun, launch.local_rank)
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
