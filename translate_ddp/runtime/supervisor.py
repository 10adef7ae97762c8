"""Supervision of one rank: stop requests, hangs, lost ranks, and the end of the process.

Collectives block the main thread. So a second thread watches its progress, exchanges heartbeats
with the other ranks, and ends the process with one message, STATUS.json and an exit code.
"""

import itertools
import os
import re
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from signal import SIGINT, SIGTERM, Signals
from typing import Literal, NoReturn

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import get_error_handler

from translate_ddp.console import IN_NOTEBOOK, printable, rank_names
from translate_ddp.errors import EXIT_DELAY_SECONDS, UserError, exit_now, first_line, type_and_line
from translate_ddp.runtime.launch import ONE_PROCESS, Launch
from translate_ddp.runtime.long_calls import PROGRESS, heartbeat, try_for
from translate_ddp.runtime.peers import Heartbeat, Peers, Termination, slowest
from translate_ddp.runtime.run_folder import RunStatus

# Slurm's scripts send SIGUSR1 before the time limit, submitit SIGUSR2.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)
CHECK_SECONDS = 0.25
STALL_SECONDS = 2.0  # a check that is later than this: the process itself was stopped
GRACE_SECONDS = 30.0  # torchrun's default between a signal to its ranks and SIGKILL
REPEAT_SECONDS = 1.0  # in which one Ctrl-C may arrive twice: also from a parent that forwards it
WRITE_SECONDS = 1.0  # for output, whose reader may have stopped
SERVE_HEARTBEATS = 4  # in which the other ranks read a termination and print their stacks
STACK_FRAMES = 12
TO_RESUME = "Run the same command to continue."
# Messages of gloo for a lost rank; other backends raise types of torch.
LOST_PEER = re.compile(r"gloo/|Connection (closed|reset|refused)|Timed out waiting|Broken pipe")

AtEnd = Callable[[Termination], object]


class ExitCode(IntEnum):
    PREEMPTED = 0
    FAILED = 1
    USER_ERROR = 2
    RETRY = 75  # EX_TEMPFAIL of sysexits.h: this rank has no error, the same command may succeed
    INTERRUPTED = 130


class Supervisor:
    """The progress of one rank, recorded by its main thread, and the checks of a second thread.

    A run is `starting` (a stop request ends it at once, as there is nothing to save), `training`
    (the main thread acts on `stop_reason` within the launcher's grace period) or `ending`.
    Of all ranks, the first to claim the termination reports why the run ends.
    """

    def __init__(
        self,
        launch: Launch = ONE_PROCESS,
        timeout_seconds: float = float("inf"),
        preempted_exit_code: int = ExitCode.PREEMPTED,
    ) -> None:
        """`timeout_seconds`: without progress, in a phase that has a timeout."""
        self.stop_reason: str | None = None
        self.peers: Peers | None = None
        self.is_closed = False
        self._launch = launch
        self._timeout_seconds = timeout_seconds
        self._preempted_exit_code = preempted_exit_code
        self._stage: Literal["starting", "training", "ending"] = "starting"
        self._agent = os.getppid() if launch.under_torchrun else None
        self._main_thread = threading.current_thread()
        self._started_at, self._stop_at = time.monotonic(), float("inf")
        self._stop_requested_at, self._interrupted_at = 0.0, float("inf")
        self._phase, self._step, self._phases = "starting", 0, 0
        self._has_timeout = True
        self._heartbeat_numbers = itertools.count()
        self._termination: Termination | None = None  # claimed by another rank
        self._actions: list[tuple[AtEnd, float, bool]] = []
        self._has_news = threading.Event()  # for the other ranks, or for the thread that sends it
        self._is_ending = threading.Lock()

    # --- called by the main thread ---

    def enter_phase(self, phase: str, step: int | None = None, *, has_timeout: bool = True) -> None:
        """Record that the main thread enters a phase, of update `step` if given."""
        self._phase, self._phases, self._has_timeout = phase, self._phases + 1, has_timeout
        self._step = self._step if step is None else step
        heartbeat()

    @property
    def where(self) -> str:
        """The phase of the main thread, for messages."""
        return f"step {self._step}, {self._phase}" if self._step else self._phase

    def begin_training(self, max_minutes: float = 0.0) -> None:
        """From now on there is something to save; stop `max_minutes` after the start, if not 0.

        Does not return if the process is ending, as it was stopped before.
        """
        self._stage = "training"
        if self._is_ending.locked():
            threading.Event().wait()
        if max_minutes:
            self._stop_at = self._started_at + 60 * max_minutes

    def begin_ending(self) -> None:
        """From now on nothing but errors ends the process early: its state is saved."""
        self._stage = "ending"

    def request_stop(self, reason: str) -> None:
        """Let all ranks stop early; of several reasons this rank keeps the first."""
        if self.stop_reason is None:
            self._stop_requested_at = time.monotonic()  # first: another thread may read both
            self.stop_reason = reason
            self._has_news.set()

    def at_end(self, action: AtEnd, seconds: float, *, in_main_thread: bool = False) -> None:
        """Call the action if the run ends by an error, a hang, a lost rank or before the training.

        Actions are called in the order of registration; each is abandoned after these seconds.
        `in_main_thread`: only if the main thread ends the process, as it may be using the same.
        """
        self._actions.append((action, seconds, in_main_thread))

    def connect(self, peers: Peers) -> None:
        """Exchange heartbeats with the other ranks from now on, on a third thread: it may block."""
        self.peers = peers
        self.enter_phase("joining the other ranks")
        self._exchanger = threading.Thread(target=self._exchange, args=(peers,), daemon=True)
        self._exchanger.start()

    def close(self) -> None:
        """End the other threads: one in the store's code when Python exits would abort it."""
        self.is_closed = True
        self._has_news.set()
        if self.peers is not None:
            self._exchanger.join(self.peers.reply_seconds)

    # --- the other threads ---

    def run(self, wait_for_signals: Callable[[float], list[Signals]]) -> None:
        """Check signals, progress and the other ranks until `is_closed`."""
        try:
            while not self.is_closed:
                before = time.monotonic()
                signals = wait_for_signals(CHECK_SECONDS)
                now = time.monotonic()
                if now - before > STALL_SECONDS:  # this process was stopped, and maybe all ranks
                    heartbeat()
                for number in signals:
                    self._on_signal(number, now)
                self._check(now)
        except Exception as error:  # without this thread, a hang would never end
            self.fail(error)
            raise

    def _on_signal(self, number: Signals, now: float) -> None:
        # torchrun sends SIGTERM at a second Ctrl-C, as a scheduler may, which has no terminal.
        is_ctrl_c = number == SIGINT or (number == SIGTERM and self._agent and os.isatty(0))
        if is_ctrl_c and now - self._interrupted_at >= REPEAT_SECONDS:
            if self._stage != "ending":
                message = f"Second Ctrl-C: exited at once. {TO_RESUME}"
                end = Termination("preempted", message, ExitCode.INTERRUPTED, self._launch.rank)
                self._call_actions(end, max_seconds=WRITE_SECONDS)
            os._exit(ExitCode.INTERRUPTED)
        if number == SIGINT:
            self._interrupted_at = min(now, self._interrupted_at)
        self.request_stop(number.name)
        if self.peers is None and self._launch.size > 1:
            os._exit(128 + number)  # not connected: the launcher has to stop the other ranks

    def _check(self, now: float) -> None:
        if self._agent is not None and os.getppid() != self._agent:
            self.request_stop(f"torchrun (process {self._agent}) has exited")
        if self._stage == "training" and now > self._stop_at:
            self.request_stop("--max_minutes reached")
        if self._termination is not None:
            self._end_process(self._termination)
        if self.stop_reason is not None:
            self._check_stop(self.stop_reason, now)
        if self._stage != "ending" and self._idle_seconds() > self._timeout_seconds:
            self._check_hang()

    def _check_stop(self, reason: str, now: float) -> None:
        # A little less than the time after which the launcher sends SIGKILL. It sends none at the
        # end of --max_minutes, nor once it has died itself.
        grace = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", GRACE_SECONDS)) - 5
        is_late = now - self._stop_requested_at > grace and reason in Signals.__members__
        if self._stage == "starting":
            code = self._preempted_exit_code
            again = "Run the same command to start again."
            message = f"Stopped before the first step ({reason}). {again}"
        elif self._stage == "training" and is_late:
            code = ExitCode.RETRY
            late = f"{self.where} took longer than the grace period of {grace:g} s"
            message = f"Stop requested ({reason}), but {late}: exited without saving. {TO_RESUME}"
        else:
            return
        stage = self._stage
        problem, heartbeats = self._survey()
        if self._stage != stage or self.is_closed or self._termination:  # a survey takes time
            return
        # A launcher signals all ranks after one is lost: without a store, rank 0 or its node.
        if problem and (heartbeats or reason in Signals.__members__):
            self._end(f"{problem} at {self.where}. {TO_RESUME}")
        self._end(message, code, "preempted")

    def _check_hang(self) -> None:
        """End the run if a rank is lost, or if the slowest rank has made no progress either."""
        problem, heartbeats = self._survey()
        is_late = self._idle_seconds() > self._timeout_seconds
        if self._stage == "ending" or self.is_closed or not is_late:  # a survey takes time
            return
        where = self.where
        if not problem:
            hung = slowest(heartbeats)
            if heartbeats[hung[0]].idle <= self._timeout_seconds:
                heartbeat()  # this rank waits for one that works
                return
            problem, where = f"{rank_names(hung).capitalize()} hung", heartbeats[hung[0]].where
        self._end(f"{problem} at {where}: no progress for {self._timeout_seconds:g} s. {TO_RESUME}")

    def _exchange(self, peers: Peers) -> None:
        with suppress(dist.DistError):  # the store is lost when torchrun exits
            while not self.is_closed:
                self.exchange_once(peers)
                self._has_news.wait(peers.heartbeat_seconds)
                self._has_news.clear()

    def exchange_once(self, peers: Peers) -> None:
        """Send this rank's progress; read terminations and stop requests."""
        peers.send_heartbeat(self._next_heartbeat())
        self._termination, reason = peers.read_requests()
        if reason:
            self.request_stop(reason)
        elif self.stop_reason is not None:
            peers.request_stop(self.stop_reason)

    def _idle_seconds(self) -> float:
        has_timeout = self._has_timeout and not PROGRESS.library_calls
        return time.monotonic() - PROGRESS.at if has_timeout else 0.0

    def _next_heartbeat(self) -> Heartbeat:
        number, idle = next(self._heartbeat_numbers), self._idle_seconds()
        return Heartbeat(number, self._phases, idle, self.where)

    def _survey(self) -> tuple[str, dict[int, Heartbeat]]:
        """Which rank or store is lost, "" if none is; the last heartbeat of each rank."""
        if (peers := self.peers) is None:
            return "", {self._launch.rank: self._next_heartbeat()}
        surveyed = peers.try_call(lambda: peers.survey(self._next_heartbeat))
        if surveyed is None:  # its process or machine may be lost
            return f"Rank {self._launch.rank} lost its connection to the others' store", {}
        heartbeats, lost = surveyed
        verb = "is" if len(lost) == 1 else "are"
        return f"{rank_names(lost).capitalize()} {verb} lost" if lost else "", heartbeats

    # --- the end of the process ---

    def fail(self, error: Exception) -> None:
        """End the process, and the run, because of an exception.

        Returns if neither a run folder nor another rank needs to know of it.
        """
        rank, size = self._launch.rank, self._launch.size
        if size == 1 and not self._actions:
            return
        if isinstance(error, UserError):
            # While ranks are not connected, only rank 0 reports an error of all.
            is_mine = error.this_rank_only or self.peers is not None
            code, claimant = ExitCode.USER_ERROR, rank if is_mine else 0
            self._end_process(Termination("failed", str(error), code, claimant), error)
        is_gloo_error = type(error) is RuntimeError and LOST_PEER.search(str(error))
        if size > 1 and (is_gloo_error or isinstance(error, dist.DistError)):
            heartbeat()  # a survey takes time
            problem = self._survey()[0] or f"Rank {rank} lost another one ({first_line(error)})"
            self._end(f"{problem} at {self.where}. {TO_RESUME}", error=error)
        message = f"Rank {rank} failed at {self.where}: {type_and_line(error)}"
        self._end(message, ExitCode.FAILED, "failed", error)

    def _end(
        self,
        message: str,
        code: int = ExitCode.RETRY,
        status: RunStatus = "lost",
        error: Exception | None = None,
    ) -> NoReturn:
        """End this process for a reason that this rank has found."""
        self._end_process(Termination(status, message, code, self._launch.rank), error)

    def _end_process(self, end: Termination, error: Exception | None = None) -> NoReturn:
        """Exit with the code of this termination, or of that which another rank has claimed before.

        Nothing here can block for long, since the disk, the network, the reader of stderr or the
        GPU may be the reason for the end.
        """
        # One thread ends the process. The other one goes no further.
        is_main = threading.current_thread() is self._main_thread
        if not self._is_ending.acquire(blocking=is_main):
            sys.exit()  # ends only this thread
        try:
            peers, claimed = self.peers, None
            if peers is not None and end.rank == self._launch.rank:
                mine = end
                claimed = peers.try_call(lambda: peers.claim(mine))
            is_agreed, end = peers is None or claimed is not None, claimed or end
            is_mine = end.rank == self._launch.rank
            try_for(WRITE_SECONDS, lambda: sys.stdout.flush())  # which may be closed
            # Without a store, one rank of each node: where rank 0 is lost, rank 1.
            if is_mine and (is_agreed or self._launch.local_rank == 0 or self._launch.rank == 1):
                prefix = "" if end.status == "preempted" else "error: "
                write_stderr("\n".join(map(printable, f"{prefix}{end.message}\n".split("\n"))))
            self._print_cause(end, error, is_mine)
            self._call_actions(end)
            # A launcher ends all ranks after one has exited, so the other ranks print first.
            # Without torchrun, rank 0 serves the store, from which they read the termination.
            if peers is None:
                time.sleep(0.0 if is_mine else EXIT_DELAY_SECONDS)
            elif self._launch.rank == 0:
                time.sleep(SERVE_HEARTBEATS * peers.heartbeat_seconds)
            try_for(WRITE_SECONDS, lambda: sys.stdout.flush())
        except BaseException:  # raised by the end itself
            write_stderr(traceback.format_exc())
        finally:
            # Not by an exception: destructors of process groups may hang or abort the process.
            (exit_now if is_main else os._exit)(end.exit_code)

    def _print_cause(self, end: Termination, error: Exception | None, is_mine: bool) -> None:
        """Print the traceback of an unexpected error, or where this rank was when the run ended."""
        if error is not None and is_mine and end.exit_code == ExitCode.FAILED:
            write_stderr("".join(traceback.format_exception(error)))
            with suppress(OSError):
                get_error_handler().record_exception(error)  # for torchrun's report
        elif end.exit_code in (ExitCode.FAILED, ExitCode.RETRY):
            frame = sys._current_frames().get(self._main_thread.ident or 0)
            # A thread that handles its error has left the place where it was raised.
            raised_in = traceback.format_tb(error.__traceback__) if error else []
            lines = raised_in or traceback.format_stack(frame)
            write_stderr(f"Stack of rank {self._launch.rank}:\n{''.join(lines[-STACK_FRAMES:])}")

    def _call_actions(self, end: Termination, max_seconds: float = float("inf")) -> None:
        is_main = threading.current_thread() is self._main_thread
        for action, seconds, in_main_thread in self._actions:
            if is_main or not in_main_thread:
                try_for(min(seconds, max_seconds), lambda action=action: action(end))


def write_stderr(text: str) -> None:
    """Write in one call, so that the output of ranks does not mix; stderr may be closed or full."""
    data = text.encode(errors="backslashreplace")
    try_for(WRITE_SECONDS, lambda: os.write(2, data))


@contextmanager
def supervise(
    launch: Launch = ONE_PROCESS,
    timeout_seconds: float = float("inf"),
    preempted_exit_code: int = ExitCode.PREEMPTED,
) -> Iterator[Supervisor]:
    """Supervise this process until the context ends; an exception of its body ends the run.

    The calling thread is the main thread in messages. Off Python's main thread, no signals are
    received.
    """
    supervisor = Supervisor(launch, timeout_seconds, preempted_exit_code)
    heartbeat()
    with receive_signals() as wait_for_signals:
        thread = threading.Thread(target=supervisor.run, args=(wait_for_signals,), daemon=True)
        thread.start()
        try:
            yield supervisor
        except Exception as error:
            supervisor.fail(error)
            raise
        except KeyboardInterrupt:  # in a notebook
            supervisor._end(f"Interrupted. {TO_RESUME}", ExitCode.INTERRUPTED, "preempted")
        finally:
            # Signals are received until then: one of them must not end an error without a report.
            supervisor.close()
            thread.join()


@contextmanager
def receive_signals() -> Iterator[Callable[[float], list[Signals]]]:
    """Receive stop signals instead of dying from them; signals ignored by nohup stay ignored.

    Yields a function that waits for some seconds and returns the signals that have arrived. A
    Python signal handler would only run after the main thread has left a collective. So Python's
    C-level handler fills a socket, from which another thread reads.
    """
    inlet, outlet = socket.socketpair()

    def wait(seconds: float) -> list[Signals]:
        ready, _, _ = select.select([outlet], [], [], seconds)
        # Other signals arrive too: torch handles SIGCHLD where it starts processes of its own.
        return [Signals(n) for n in (outlet.recv(64) if ready else b"") if n in STOP_SIGNALS]

    with inlet, outlet:
        # Python handles signals in its main thread only. A notebook expects a KeyboardInterrupt.
        if threading.current_thread() is not threading.main_thread() or IN_NOTEBOOK:
            yield wait
            return
        inlet.setblocking(False)
        handled = [n for n in STOP_SIGNALS if signal.getsignal(n) != signal.SIG_IGN]
        handlers = {number: signal.signal(number, lambda *_: None) for number in handled}
        old_descriptor = signal.set_wakeup_fd(inlet.fileno(), warn_on_full_buffer=False)
        try:
            yield wait
        finally:
            signal.set_wakeup_fd(old_descriptor)
            for number, handler in handlers.items():
                signal.signal(number, handler)
