"""Calls that take long, or never return: their progress, and a thread that can be abandoned.

The supervisor of a process (`runtime.supervisor`) ends it if `PROGRESS` shows none for its timeout.
Does not import torch.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Progress:
    """What this process has done."""

    at: float = time.monotonic()  # the time of the last heartbeat
    heartbeats: int = 0
    library_calls: int = 0  # that have not returned; they report no progress


PROGRESS = Progress()


def heartbeat() -> None:
    """Report that this process makes progress: long work calls it in its loops."""
    PROGRESS.at = time.monotonic()
    PROGRESS.heartbeats += 1


@contextmanager
def library_call() -> Iterator[None]:
    """Within it, this process has no timeout.

    A library that reads a large file or trains a tokenizer in one call may take hours. If it hangs,
    nothing detects that.
    """
    PROGRESS.library_calls += 1
    try:
        yield
    finally:
        PROGRESS.library_calls -= 1
        heartbeat()


class BackgroundThread:
    """Runs the submitted calls one after another on a daemon thread.

    A call that never returns delays the calls after it, but not the exit of the process. If the
    limits of the system allow no other thread, `submit` makes the call itself, without a timeout.
    With `stop_after_error`, every call after the first failed one fails with the same `error`.
    """

    def __init__(self, name: str, stop_after_error: bool = False) -> None:
        self.error: BaseException | None = None
        self._stop_after_error = stop_after_error
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        with suppress(RuntimeError):
            self._thread.start()

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()
        (self._calls.put if self._thread.ident else self._make)((call, future))
        return future

    def result(self, call: Callable[[], T], timeout: float) -> T:
        """The result of the call, or its error.

        Raises TimeoutError after `timeout` seconds, and does not interrupt the call.
        """
        try:
            return self.submit(call).result(timeout)
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no result after {timeout:g} s") from None

    def close(self, timeout: float) -> None:
        """End the thread after the calls submitted so far; abandon it after `timeout` seconds."""
        if self._thread.ident:
            self._calls.put(None)
            self._thread.join(timeout)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            self._make(item)
            del item  # which may hold much memory

    def _make(self, item: tuple[Callable[[], Any], "Future[Any]"]) -> None:
        call, future = item
        try:
            if self.error is not None:
                raise self.error
            future.set_result(call())
        except BaseException as error:  # also a SystemExit, which a library may raise
            if self._stop_after_error:
                self.error = error
            future.set_exception(error)


def try_for(seconds: float, call: Callable[[], T]) -> T | None:
    """The result of the call, or None if it fails or takes longer."""
    with suppress(Exception, SystemExit):
        thread = BackgroundThread("bounded")
        try:
            return thread.result(call, seconds)
        finally:
            thread.close(timeout=0)
    return None
