"""Requests that wait for the model are translated together, by one thread."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from translate_ddp.translation import Translation

# Bytes of text that are translated at once, since a request waits for those before it. A single
# request may have more.
BATCH_BYTES = 8000

Found = list[list[Translation]]  # for each text its translations, best first
# Texts, number of translations of each, whether into the other direction, progress callback.
Translate = Callable[[list[str], int, bool, Callable[[int], None]], Found]


class QueueFull(Exception):
    """As many requests as allowed are waiting."""


@dataclass(eq=False)
class Job:
    """A request that waits."""

    texts: list[str]
    n_best: int
    reverse: bool
    result: asyncio.Future[Found]

    @property
    def bytes(self) -> int:
        return sum(len(text.encode()) for text in self.texts)


class Batcher:
    """Collects requests in an event loop, and calls `translate` in a thread.

    The progress callback raises TimeoutError once all requests of the batch have timed out or were
    cancelled.
    """

    def __init__(self, translate: Translate, max_waiting: int) -> None:
        self._translate = translate
        self._max_waiting = max_waiting
        self._waiting: deque[Job] = deque()
        self._arrived = asyncio.Event()

    async def translate(
        self, texts: list[str], n_best: int, seconds: float, reverse: bool = False
    ) -> Found:
        """The `n_best` translations of each text. The request leaves the queue if it is cancelled.

        Raises QueueFull, TimeoutError after `seconds`, and what `translate` raises.
        """
        if len(self._waiting) >= self._max_waiting:
            raise QueueFull
        job = Job(texts, n_best, reverse, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._arrived.set()
        try:
            return await asyncio.wait_for(job.result, seconds)
        finally:
            if job in self._waiting:
                self._waiting.remove(job)

    async def run(self) -> None:
        """Translate what arrives until this task is cancelled."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "translate") as thread:
            while True:
                await self._arrived.wait()
                jobs = self._next()
                if not self._waiting:
                    self._arrived.clear()
                if not jobs:
                    continue
                texts = [text for job in jobs for text in job.texts]
                arguments = jobs[0].n_best, jobs[0].reverse, stop_if_abandoned(jobs)
                try:
                    found = await loop.run_in_executor(thread, self._translate, texts, *arguments)
                except Exception as error:  # it belongs to the requests, which report it
                    for job in jobs:
                        if not job.result.done():
                            job.result.set_exception(error)
                else:
                    _distribute(jobs, found)

    def _next(self) -> list[Job]:
        """Remove the oldest request from the queue, and others that fit into one batch with it."""
        batch: list[Job] = []
        count = 0
        for job in list(self._waiting):
            fits = count + job.bytes <= BATCH_BYTES
            same = batch and (job.n_best, job.reverse) == (batch[0].n_best, batch[0].reverse)
            if not batch or (fits and same):
                count += job.bytes
                batch.append(job)
                self._waiting.remove(job)
        return batch


def stop_if_abandoned(jobs: list[Job]) -> Callable[[int], None]:
    """A progress callback that raises TimeoutError if all requests timed out or were cancelled."""

    def on_done(count: int) -> None:
        if all(job.result.done() for job in jobs):
            raise TimeoutError

    return on_done


def _distribute(jobs: list[Job], found: Found) -> None:
    rest = iter(found)
    for job in jobs:
        translations = list(islice(rest, len(job.texts)))
        if not job.result.done():  # its client may have gone
            job.result.set_result(translations)
