"""Requests that wait for the model are translated together, by one thread, in turns."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from translate_ddp.translator import Translation, Translator

# Tokens of the source that are translated at once, since a request waits for those before it.
BATCH_TOKENS = 750

Found = list[list[Translation]]  # for each text its translations, best first
Compute = Callable[[], Found]  # raises Unfinished after a turn, and continues when called again
# From texts, number of translations of each, and whether into the other direction.
Start = Callable[[list[str], int, bool], Compute]


class QueueFull(Exception):
    """As many requests as allowed are waiting."""


class Unfinished(Exception):
    """A turn is over."""


def in_turns(translator: Translator) -> Translator:
    """A translator of one batch, whose `translate` raises Unfinished after each BATCH_TOKENS.

    Called again with the same texts, it continues with what its engine has computed.
    """
    translator, engine = copy(translator), copy(translator.engine)
    engine.translate = _in_turns(engine.translate, BATCH_TOKENS)
    engine.log_probs = _in_turns(engine.log_probs, 4 * BATCH_TOKENS)  # takes less time than that
    translator.engine = engine
    return translator


def _in_turns(compute: Callable[..., list[Any]], limit: int) -> Callable[..., list[Any]]:
    found: list[Any] = []

    def compute_turn(sources: Sequence[Any], other: Any, *ignored: Any) -> list[Any]:
        tokens = accumulate(len(source) for source in sources[len(found) :])
        turn = slice(len(found), len(found) + max(1, sum(count <= limit for count in tokens)))
        found.extend(compute(sources[turn], other[turn] if isinstance(other, list) else other))
        if len(found) < len(sources):
            raise Unfinished
        return found

    return compute_turn


@dataclass(eq=False)
class Job:
    """A request that waits."""

    texts: list[str]
    n_best: int
    reverse: bool
    tokens: int
    result: asyncio.Future[Found]


class Batcher:
    """Collects requests in an event loop, and translates them in a thread.

    After each batch of what waits, one of the unfinished batches has a turn: so a request waits for
    no more than one of them, and they take turns.
    """

    def __init__(self, start: Start, max_waiting: int) -> None:
        self._start = start
        self._max_waiting = max_waiting
        self._waiting: deque[Job] = deque()
        self._unfinished: deque[tuple[list[Job], Compute]] = deque()
        self._arrived = asyncio.Event()

    async def translate(
        self, texts: list[str], n_best: int, seconds: float, reverse: bool = False, tokens: int = 0
    ) -> Found:
        """The `n_best` translations of each text. The request leaves the queue if it is cancelled.

        Raises QueueFull, TimeoutError after `seconds`, and what the translation raises.
        """
        if len(self._waiting) + sum(len(jobs) for jobs, _ in self._unfinished) >= self._max_waiting:
            raise QueueFull
        job = Job(texts, n_best, reverse, tokens, asyncio.get_running_loop().create_future())
        if tokens <= BATCH_TOKENS:
            self._waiting.append(job)
        else:
            self._unfinished.append(([job], self._start(texts, n_best, reverse)))
        self._arrived.set()
        try:
            return await asyncio.wait_for(job.result, seconds)
        finally:
            if job in self._waiting:
                self._waiting.remove(job)

    async def run(self) -> None:
        """Translate what arrives until this task is cancelled."""
        with ThreadPoolExecutor(1, "translate") as thread:
            while True:
                await self._arrived.wait()
                if jobs := self._next():
                    texts = [text for job in jobs for text in job.texts]
                    translate = self._start(texts, jobs[0].n_best, jobs[0].reverse)
                    await self._turn(thread, jobs, translate)
                if self._unfinished:
                    await self._turn(thread, *self._unfinished.popleft())
                elif not self._waiting:
                    self._arrived.clear()

    async def _turn(self, thread: Executor, jobs: list[Job], translate: Compute) -> None:
        """Translate a part of a batch, unless its requests all timed out or were cancelled."""
        if all(job.result.done() for job in jobs):
            return
        try:
            found = iter(await asyncio.get_running_loop().run_in_executor(thread, translate))
        except Unfinished:
            self._unfinished.append((jobs, translate))
        except Exception as error:  # it belongs to the requests, which report it
            for job in jobs:
                if not job.result.done():
                    job.result.set_exception(error)
        else:
            for job in jobs:
                translations = list(islice(found, len(job.texts)))
                if not job.result.done():  # its client may have gone
                    job.result.set_result(translations)

    def _next(self) -> list[Job]:
        """Remove the oldest request from the queue, and others that fit into one batch with it."""
        batch: list[Job] = []
        count = 0
        for job in list(self._waiting):
            fits = count + job.tokens <= BATCH_TOKENS
            same = batch and (job.n_best, job.reverse) == (batch[0].n_best, batch[0].reverse)
            if not batch or (fits and same):
                count += job.tokens
                batch.append(job)
                self._waiting.remove(job)
        return batch
