"""Heartbeats of long work, from code without access to the watchdog, which records its progress.

Loops call `heartbeat`. A call of a library without progress reports is made within `library_call`.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

SAMPLE_SECONDS = 1.0
WORKING_SHARE = 0.05  # of a core; the watchdog and the store's threads use less
IO_FIELDS = {"read_bytes", "write_bytes"}  # of all threads, to and from disks
THREAD_IO_FIELDS = {"rchar", "wchar"}  # also of network disks that the kernel does not count

_receivers: list[Callable[[], None]] = []


def heartbeat() -> None:
    """Report progress of this process to its watchdog, if it has one."""
    for receive in _receivers:
        receive()


@contextmanager
def heartbeats_to(receive: Callable[[], None]) -> Iterator[None]:
    """Within it, `heartbeat` calls `receive`."""
    _receivers.append(receive)
    try:
        yield
    finally:
        _receivers.remove(receive)


@contextmanager
def library_call() -> Iterator[None]:
    """Within it, the process's use of a processor or a disk counts as progress.

    A library that reads a large file or trains a tokenizer in one call may take hours. An endless
    loop in it is not detected; a call that waits forever is.
    """
    is_done = threading.Event()
    thread_id = threading.get_native_id()
    thread = threading.Thread(target=_observe, args=(thread_id, is_done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


class Use(NamedTuple):
    """What the process has used since its start."""

    clock: float  # seconds
    processor: float  # seconds of all threads
    disk: int  # bytes


def is_working(before: Use, now: Use) -> bool:
    """Whether the process has computed, read or written between the two."""
    share = (now.processor - before.processor) / (now.clock - before.clock)
    return share > WORKING_SHARE or now.disk > before.disk


def _observe(thread_id: int, is_done: threading.Event) -> None:
    before = _use(thread_id)
    while not is_done.wait(SAMPLE_SECONDS):
        now = _use(thread_id)
        if is_working(before, now):
            heartbeat()
        before = now


def _use(thread_id: int) -> Use:
    process = Path("/proc/self")
    disk = _io(process / "io", IO_FIELDS)
    # Of the calling thread only: others use the store of the ranks.
    disk += _io(process / "task" / str(thread_id) / "io", THREAD_IO_FIELDS)
    return Use(time.monotonic(), time.process_time(), disk)


def _io(file: Path, fields: set[str]) -> int:
    """The sum of these counters; 0 where the system has none, so that only the processor counts."""
    with suppress(OSError, ValueError):
        counters = (line.split(": ") for line in file.read_text().splitlines())
        return sum(int(value) for name, value in counters if name in fields)
    return 0
