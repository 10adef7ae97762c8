"""A function applied to a stream of items by worker processes, with results in order.

Workers are new Python processes that import the module of the function only: a fork of a process
with threads may deadlock, and `multiprocessing` would import the main module in each (1.5 s more
on two cores), and leaves its workers alive when the parent is killed. Pickle is safe here: both
ends of a worker's pipes are processes of this program, and no other has them.
"""

import os
import pickle
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any, TypeVar

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
    ahead. A UserError of the function is raised here, another exception as a RuntimeError with its
    traceback. Raises UserError if a worker has ended or cannot be started.
    """
    stream = iter(items)
    first = list(islice(stream, FEW_ITEMS))
    processes = processes or usable_cores()
    if len(first) < FEW_ITEMS or processes < 2:
        for item in chain(first, stream):
            heartbeat()
            yield function(item)
        return
    idle: SimpleQueue[Worker] = SimpleQueue()
    workers: list[Worker] = []
    pending: deque[Future[T]] = deque()

    def apply(item: S) -> T:
        worker = idle.get()
        try:
            return worker.apply(item)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(processes, thread_name_prefix="worker")
    try:
        for _ in range(processes):
            workers.append(Worker(function))
            idle.put(workers[-1])
        for item in chain(first, stream):
            heartbeat()
            pending.append(threads.submit(apply, item))
            if len(pending) >= processes * (1 + AHEAD):
                yield pending.popleft().result()
        while pending:
            heartbeat()
            yield pending.popleft().result()
    finally:
        for worker in workers:
            worker.kill()  # before the threads end, which wait for it
        threads.shutdown(cancel_futures=True)


class Worker:
    """One process. It ends when its stdin is closed, as also happens when this process dies."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
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
        self._unsent: list[object] = [function]

    def apply(self, item: object) -> Any:
        """The function's result. Raises its exception, or UserError if the process has died."""
        inlet, outlet = self._process.stdin, self._process.stdout
        assert inlet is not None and outlet is not None
        try:
            for value in (*self._unsent, item):
                pickle.dump(value, inlet, pickle.HIGHEST_PROTOCOL)
            inlet.flush()
            self._unsent.clear()
            result, error = pickle.load(outlet)
        except (OSError, EOFError, pickle.UnpicklingError) as ended:
            raise UserError(
                f"A worker process that prepares the corpus has ended ({self._end()}). Its own "
                "messages, if any, are above. If the machine is short of memory, free some or use "
                "fewer cores, as with taskset."
            ) from ended
        if error is not None:
            raise error
        return result

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # of a part of an item that was not sent yet
                    pipe.close()

    def _end(self) -> str:
        code = self._process.wait()
        return f"exit code {code}" if code >= 0 else f"signal {-code}"


def serve() -> None:
    """The loop of a worker: reads items from stdin, and writes results to stdout.

    It ends without a message when the other process has ended.
    """
    inlet, outlet = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with the results
    with suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
        function = pickle.load(inlet)
        while True:
            item, reply = pickle.load(inlet), (None, None)
            try:
                reply = function(item), None
            except UserError as error:  # raised where the result is used
                reply = None, error
            except Exception:  # which it may be impossible to pickle
                reply = None, RuntimeError(f"In a worker process:\n{traceback.format_exc()}")
            outlet.write(pickle.dumps(reply, pickle.HIGHEST_PROTOCOL))
            outlet.flush()
    os._exit(0)  # what is left for the pipe cannot be written
