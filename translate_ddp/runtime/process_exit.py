"""The end of a rank's process: one message per run, STATUS.json, then the exit code."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import NoReturn

from torch.distributed.elastic.multiprocessing.errors import get_error_handler

from translate_ddp.console import printable
from translate_ddp.errors import EXIT_DELAY_SECONDS
from translate_ddp.runtime.background import try_for
from translate_ddp.runtime.peers import Peers, Termination
from translate_ddp.runtime.run_folder import RunStatus

STACK_FRAMES = 12
# Timeouts of the parts of the end, the most important ones first: a launcher may kill the rest.
WRITE_SECONDS = 1.0  # for output, whose reader may have stopped
STATUS_SECONDS = 5.0  # for a disk, which may be on the other side of a cut link
RECORDER_SECONDS = 5.0
RECORD_SECONDS = 5.0  # for the page of the run
CLOSE_SECONDS = 10.0  # for the uploads of trackers


class ExitCode(IntEnum):
    PREEMPTED = 0
    FAILED = 1
    USER_ERROR = 2
    RETRY = 75  # EX_TEMPFAIL of sysexits.h: this rank has no error, the same command may succeed
    INTERRUPTED = 130


class ProcessExit:
    """Ends this process once. Of all ranks, the first to claim the termination reports it."""

    def __init__(self, rank: int, local_rank: int = 0) -> None:
        self.rank, self.local_rank = rank, local_rank
        self.peers: Peers | None = None
        self.write_status: Callable[[RunStatus, str], None] | None = None  # none without a run
        self.close_record: Callable[[float], None] = lambda seconds: None
        self.close_trackers: Callable[[float], None] = lambda seconds: None
        self.write_flight_recorder: Callable[[], str] = lambda: ""  # of NCCL; returns its path
        self._lock = threading.Lock()

    @property
    def has_begun(self) -> bool:
        return self._lock.locked()

    def end(self, termination: Termination, error: BaseException | None = None) -> NoReturn:
        """Exit with the code of this termination, or of that which another rank has claimed before.

        `termination` was found by this rank or read from another; `error` is the exception of this
        thread. Nothing here can block for long, since the disk, the network, the reader of stderr
        or the GPU may be the reason for the end.
        """
        self._acquire()
        try:
            termination, is_agreed = self._claim(termination)
            is_mine = termination.rank == self.rank
            try_for(WRITE_SECONDS, lambda: sys.stdout.flush())  # which may be closed
            # Without a store, one rank of each node: where rank 0 is lost, rank 1.
            if is_mine and (is_agreed or self.local_rank == 0 or self.rank == 1):
                print_termination(termination)
            self.save_status(termination.status, termination.message)  # nodes may not share disks
            if termination.exit_code == ExitCode.RETRY:
                self._save_flight_recorder()
            if is_mine and error is not None and termination.exit_code == ExitCode.FAILED:
                write_stderr("".join(traceback.format_exception(error)))
                with suppress(OSError):
                    get_error_handler().record_exception(error)  # for torchrun's report
            elif termination.exit_code in (ExitCode.FAILED, ExitCode.RETRY):
                print_stack(self.rank, error)
            self._wait_for_peers(termination)
            try_for(1.5 * RECORD_SECONDS, lambda: self.close_record(RECORD_SECONDS))
            if threading.current_thread() is threading.main_thread():  # which else may use them
                try_for(1.5 * CLOSE_SECONDS, lambda: self.close_trackers(CLOSE_SECONDS))
                try_for(WRITE_SECONDS, lambda: sys.stdout.flush())  # which may be closed
        finally:
            # Not by an exception: destructors of process groups may hang or abort the process.
            os._exit(termination.exit_code)

    def save_status(self, status: RunStatus, reason: str) -> None:
        """Write STATUS.json, if this process has a run folder."""
        if (write_status := self.write_status) is not None:
            try_for(STATUS_SECONDS, lambda: write_status(status, reason))

    def _acquire(self) -> None:
        """Let only the calling thread end the process; another thread goes no further."""
        is_main = threading.current_thread() is threading.main_thread()
        if not self._lock.acquire(blocking=is_main):
            sys.exit()  # ends only this thread

    def _claim(self, termination: Termination) -> tuple[Termination, bool]:
        """The termination that the run reports, and whether ranks agree: not without a store."""
        peers = self.peers
        if peers is None or termination.rank != self.rank:
            return termination, True
        claimed = peers.try_call(lambda: peers.claim(termination))
        return claimed or termination, claimed is not None

    def _save_flight_recorder(self) -> None:
        if path := try_for(RECORDER_SECONDS, self.write_flight_recorder):
            write_stderr(f"NCCL's flight recorder of rank {self.rank}: {printable(path)}\n")

    def _wait_for_peers(self, termination: Termination) -> None:
        """Keep the launcher and the store alive until the other ranks have printed their stacks.

        A launcher ends all ranks after one. Without torchrun, rank 0 serves the store.
        """
        is_mine = termination.rank == self.rank
        if (peers := self.peers) is None:
            time.sleep(0.0 if is_mine else EXIT_DELAY_SECONDS)
            return
        peers.try_call(peers.send_exit)
        if is_mine or self.rank == 0:
            peers.try_call(lambda: peers.wait_for_exits(termination.lost_ranks))


def print_termination(termination: Termination) -> None:
    prefix = "error: " if termination.status == "failed" else ""
    lines = [printable(line) for line in f"{prefix}{termination.message}".split("\n")]
    write_stderr("\n".join(lines) + "\n")


def print_stack(rank: int, error: BaseException | None = None) -> None:
    """Print the main thread's stack, or that of the error, on stderr."""
    if error is not None:
        lines = traceback.format_tb(error.__traceback__)[-STACK_FRAMES:]
    else:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        lines = traceback.format_stack(frame)[-STACK_FRAMES:] if frame is not None else []
    write_stderr(f"Stack of rank {rank}:\n{''.join(lines)}")


def write_stderr(text: str) -> None:
    """Write in one call, so that the output of ranks does not mix; stderr may be closed or full."""
    data = text.encode(errors="backslashreplace")
    try_for(WRITE_SECONDS, lambda: os.write(2, data))
