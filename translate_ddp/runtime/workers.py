"""A function applied to a stream of items by worker processes, with results in order.

Workers are new Python processes that import the module of the function only: a fork of a process
with threads may deadlock, and `multiprocessing` would import torch in each. Pickle is safe here, as
it is there: both ends of a worker's pipes are processes of this program, and no other has them.
"""

import os
import pickle
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast

from translate_ddp.errors import UserError
from translate_ddp.runtime.environment import usable_cores
from translate_ddp.runtime.long_calls import heartbeat

S = TypeVar("S")
T = TypeVar("T")

FEW_ITEMS = 4  # for which starting processes would take longer than the work
AHEAD = 2  # items per worker that are read before their results are needed
# A new process with the same modules, also where this one was started by `python -I` or in a folder
# with a file named as one of them.
COMMAND = "import sys; sys.path[:] = {}; from {} import serve; serve()"


def map_in_processes(
    function: Callable[[S], T], items: Iterable[S], processes: int = 0
) -> Generator[T, None, None]:
    """`map(function, items)`, computed by that many processes, by default one per usable core.

    Both must be picklable, and the function importable. At most a few items per worker are read
    ahead. An exception of the function is raised here. Raises UserError if a worker
    has ended or cannot be started.
    """
    stream = iter(items)
    first = list(islice(stream, FEW_ITEMS))
    processes = processes or usable_cores()
    if len(first) < FEW_ITEMS or processes < 2:
        for item in chain(first, stream):
            heartbeat()
            yield function(item)
        return
    idle: SimpleQueue[Worker[S, T]] = SimpleQueue()

    def apply(item: S) -> T:
        worker = idle.get()
        try:
            return worker.apply(item)
        finally:
            idle.put(worker)

    with ExitStack() as stack:
        threads = ThreadPoolExecutor(processes, thread_name_prefix="worker")
        stack.callback(threads.shutdown, cancel_futures=True)
        for _ in range(processes):
            worker = Worker(function)
            stack.callback(worker.kill)  # before the threads end, which wait for it
            idle.put(worker)
        yield from _in_order(threads, apply, chain(first, stream), processes * (1 + AHEAD))


def _in_order(
    threads: ThreadPoolExecutor, apply: Callable[[S], T], items: Iterable[S], ahead: int
) -> Iterator[T]:
    pending: deque[Future[T]] = deque()
    for item in items:
        heartbeat()
        pending.append(threads.submit(apply, item))
        if len(pending) >= ahead:
            yield pending.popleft().result()
    while pending:
        heartbeat()
        yield pending.popleft().result()


class Worker(Generic[S, T]):
    """One process. It ends when its stdin is closed, as also happens when this process dies."""

    def __init__(self, function: Callable[[S], T]) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", COMMAND.format(sys.path, __name__)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # One thread each: there is a worker for each core.
                env=os.environ | {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # a Ctrl-C is for the process that started it
            )
        except OSError as error:
            raise UserError(
                f"A worker process that prepares the corpus cannot be started: {error.strerror}."
                " Use fewer cores, as with taskset, or raise the limits that ulimit -a shows."
            ) from error
        # It is sent with the first item, so that all processes start at the same time.
        self._function, self._has_function = function, False

    def apply(self, item: S) -> T:
        """The function's result. Raises its exception, or UserError if the process has died."""
        assert self._process.stdout is not None
        try:
            if not self._has_function:
                self._send(self._function)
                self._has_function = True
            self._send(item)
            is_error, result = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise UserError(self._describe_end()) from error
        if is_error:
            raise cast("Exception", result)
        return cast("T", result)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # of a part of an item that was not sent yet
                    pipe.close()

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(value, self._process.stdin, pickle.HIGHEST_PROTOCOL)
        self._process.stdin.flush()

    def _describe_end(self) -> str:
        code = self._process.wait()
        start = "A worker process that prepares the corpus has ended"
        if code >= 0:
            return f"{start} (exit code {code}). Its own messages are above."
        return (
            f"{start} (signal {-code}). If the machine is short of memory, free some or use fewer"
            " cores, as with taskset."
        )


def serve() -> None:
    """The loop of a worker: reads items from stdin, and writes results to stdout.

    It ends without a message when the other process has ended.
    """
    inlet, outlet = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with the results
    with suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
        function = pickle.load(inlet)
        while True:
            outlet.write(_reply(function, pickle.load(inlet)))
            outlet.flush()
    os._exit(0)  # what is left for the pipe cannot be written


def _reply(function: Callable[[Any], object], item: object) -> bytes:
    """Whether the function has raised an exception, and its result or exception, pickled."""
    try:
        return pickle.dumps((False, function(item)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # raised where the result is used
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        try:
            reply = pickle.dumps((True, error), pickle.HIGHEST_PROTOCOL)
            pickle.loads(reply)  # exceptions of libraries may fail in either
            return reply
        except Exception:
            return pickle.dumps((True, RuntimeError(traceback.format_exc())))
