"""A function applied to a stream of items by worker processes, with results in order.

Workers are new Python processes that import the module of the function only: a fork of a process
with threads may deadlock, and `multiprocessing` would import the main module in each (1.5 s more
on two cores), and leaves its workers alive when the parent is killed. Pickle is safe here: both
ends of a worker's pipes are processes of this program, and no other has them.
"""

import os
import pickle
import select
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain, islice
from typing import Any, TypeVar

from translate_ddp.errors import UserError
from translate_ddp.runtime.environment import usable_cores
from translate_ddp.runtime.long_calls import BackgroundThread, heartbeat

S = TypeVar("S")
T = TypeVar("T")

FEW_ITEMS = 4  # for which starting processes would take longer than the work
AHEAD = 2  # items per worker that are read before their results are needed
# A new process with the same modules, also where this one was started by `python -I` or in a folder
# with a file named as one of them.
WORKER_CODE = "import sys; sys.path[:] = {}; from {} import serve; serve()"


def map_in_processes(
    function: Callable[[S], T],
    items: Iterable[S],
    processes: int = 0,
    gpus: Sequence[str] = (),
) -> Generator[T, None, None]:
    """`map(function, items)`, computed by that many processes, by default one per usable core.

    With `gpus`, by one for each, whose CUDA_VISIBLE_DEVICES it is; "" is the CPU. Function and
    items must be picklable, and the function importable. At most a few items per worker are read
    ahead. A UserError of the function is raised here, another exception as a RuntimeError with its
    traceback. Raises UserError if a worker has ended or cannot be started.
    """
    stream = iter(items)
    first = list(islice(stream, FEW_ITEMS))
    stream, count = chain(first, stream), len(gpus) or processes or usable_cores()
    if len(first) < FEW_ITEMS or count < 2:
        for item in stream:
            heartbeat()
            yield function(item)
        return
    workers: list[Worker] = []
    pending: deque[Future[T]] = deque()
    try:
        # A worker with a GPU waits for it.
        threads = 1 if gpus else max(1, usable_cores() // count)
        for variables in [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] or [{}] * count:
            workers.append(Worker(function, variables, threads))
        for number, item in enumerate(stream):
            heartbeat()
            pending.append(workers[number % count].submit(item))
            if len(pending) >= count * (1 + AHEAD):
                yield pending.popleft().result()
        while pending:
            heartbeat()
            yield pending.popleft().result()
    finally:
        for worker in workers:
            worker.kill()


class Worker:
    """One process, and a thread that waits for its results.

    The process ends when its stdin is closed, as also happens when this process dies.
    """

    def __init__(
        self, function: Callable[[Any], Any], variables: dict[str, str], threads: int
    ) -> None:
        self._where = "".join(f"With {name}={value}: " for name, value in variables.items())
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", WORKER_CODE.format(sys.path, __name__)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ
                | dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
                | variables,
                start_new_session=True,  # a Ctrl-C is for the process that started it
            )
        except OSError as error:
            raise UserError(
                f"A worker process cannot be started: {error.strerror}. Use fewer cores, as with "
                "taskset, or raise the limits that ulimit -a shows."
            ) from error
        self._thread = BackgroundThread("worker", stop_after_error=True)
        self._thread.submit(lambda: self._send(function))  # it may be larger than the pipe

    def submit(self, item: object) -> Future[Any]:
        """The function's result or exception, or a UserError if the process has died."""
        return self._thread.submit(lambda: self._apply(item))

    def kill(self) -> None:
        self._process.kill()
        self._thread.close(timeout=10)
        with suppress(OSError), self._process:  # part of an item was not sent yet
            pass

    def _apply(self, item: object) -> Any:
        assert self._process.stdout is not None
        try:
            self._send(item)
            result, error = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError) as ended:
            raise self._ended() from ended
        if isinstance(error, UserError):
            raise UserError(f"{self._where}{error}")
        if error is not None:
            raise error
        return result

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(value, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except OSError as ended:
            raise self._ended() from ended

    def _ended(self) -> UserError:
        code = self._process.wait()
        return UserError(
            f"{self._where}A worker process has ended "
            f"({f'exit code {code}' if code >= 0 else f'signal {-code}'}). Its own messages, if "
            "any, are above. If the machine is short of memory, free some or use fewer cores "
            "(taskset) or GPUs (CUDA_VISIBLE_DEVICES)."
        )


def serve() -> None:
    """The loop of a worker: reads items from stdin, and writes results to stdout.

    It ends without a message when the other process has ended.
    """
    inlet, outlet = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with the results
    parent = select.poll()
    parent.register(0, select.POLLHUP)
    with suppress(RuntimeError):  # if no thread can be started, it ends after its item
        threading.Thread(target=lambda: (parent.poll(), os._exit(0)), daemon=True).start()
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
