"""The end of a rank's process: one message per run, STATUS.json, then the exit code."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import NoReturn

from translate_ddp.console import printable
from translate_ddp.runtime.peers import REPLY_SECONDS, Peers, Termination
from translate_ddp.runtime.run_folder import RunStatus

STACK_FRAMES = 12


class ExitCode(IntEnum):
    PREEMPTED = 0
    FAILED = 1
    USER_ERROR = 2
    RETRY = 75  # EX_TEMPFAIL of sysexits.h: this rank has no error, the same command may succeed
    INTERRUPTED = 130


class ProcessExit:
    """Ends this process once. Of all ranks, the first to claim the termination reports it."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.write_status: Callable[[RunStatus, str], None] = lambda status, reason: None
        self.peers: Peers | None = None
        self.unresponsive: Sequence[int] = ()  # ranks that are not waited for
        self._lock = threading.Lock()

    def report_error(self, message: str) -> bool:
        """End the run with an error that the caller prints if this returns True.

        False if another rank has reported its own.
        """
        self._acquire()
        is_first = self._claim(Termination("failed", message, ExitCode.USER_ERROR, self.rank))
        if is_first:
            self.save_status("failed", message)
        self._wait_for_peers()
        return is_first

    def report_failure(self, message: str) -> None:
        """End the run with an error of this rank's code, which the caller raises again."""
        self._acquire()
        self._report(Termination("failed", message, ExitCode.FAILED, self.rank))
        self._wait_for_peers()

    def exit_quietly(self) -> None:
        """Prepare the exit of this rank for an error that another rank reports."""
        self._acquire()
        self._count_exit()

    def terminate(self, termination: Termination, error: BaseException | None = None) -> NoReturn:
        """Exit with the code of this termination, found by this rank or read from another."""
        self._acquire()
        is_own = termination.rank == self.rank
        try:
            is_first = is_own and self._report(termination)
            if termination.exit_code in (ExitCode.FAILED, ExitCode.RETRY):
                print_stack(self.rank, error)
            if not is_own:  # nodes may not share disks
                self.save_status(termination.status, termination.message)
            if is_first:
                self._wait_for_peers()
            else:
                self._count_exit()
        finally:
            os._exit(termination.exit_code)

    def _acquire(self) -> None:
        """Let only the calling thread end the process; another thread goes no further."""
        is_main = threading.current_thread() is threading.main_thread()
        if not self._lock.acquire(blocking=is_main):
            sys.exit()  # ends this thread alone

    def _claim(self, termination: Termination) -> bool:
        """Whether this rank is the first to end the run, as far as it can know."""
        peers = self.peers
        return peers is None or peers.try_call(lambda: peers.claim(termination)) is not False

    def _report(self, termination: Termination) -> bool:
        """Print the message and write the status, if this rank is the first to end the run."""
        is_first = self._claim(termination)
        if is_first:
            prefix = "error: " if termination.status == "failed" else ""
            write_stderr(f"{prefix}{printable(termination.message)}\n")
            self.save_status(termination.status, termination.message)
        return is_first

    def save_status(self, status: RunStatus, reason: str) -> None:
        """Write the status with a time limit: a disk on the other side of a cut link may block."""
        writer = threading.Thread(target=self.write_status, args=(status, reason), daemon=True)
        writer.start()
        writer.join(REPLY_SECONDS)

    def _count_exit(self) -> None:
        """Report to the rank in `_wait_for_peers` that this one exits."""
        if (peers := self.peers) is not None:
            peers.try_call(lambda: peers.count_exiting(1))

    def _wait_for_peers(self) -> None:
        """Keep the store and the launcher alive until the other ranks have printed their stacks."""
        if (peers := self.peers) is None:
            return
        deadline = time.monotonic() + 4 * peers.heartbeat_seconds
        while time.monotonic() < deadline:
            exiting = peers.try_call(peers.count_exiting)
            if exiting is None or exiting + len(self.unresponsive) >= peers.size - 1:
                return
            time.sleep(0.05)


def print_stack(rank: int, error: BaseException | None = None) -> None:
    """Print the main thread's stack, or that of the error, on stderr."""
    if error is not None:
        lines = traceback.format_tb(error.__traceback__)[-STACK_FRAMES:]
    else:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        lines = traceback.format_stack(frame)[-STACK_FRAMES:] if frame is not None else []
    write_stderr(f"Stack of rank {rank}:\n{''.join(lines)}")


def write_stderr(text: str) -> None:
    """Write in one call, so that the output of ranks does not mix; stderr may be closed."""
    with suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))
