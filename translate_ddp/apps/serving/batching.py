"""Requests that wait for the model: how many and how large they may be, and their batches."""

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from translate_ddp.settings import POSITIVE, Checked, at_least, setting
from translate_ddp.translator import Translation

# JSON writes a character in up to 12 bytes (two escapes), and a form in up to as many.
BYTES_PER_CHARACTER = 12
OTHER_BYTES = 16_384  # for the other fields, and for the quotation marks of a list
ARRIVAL_SECONDS = 20.0  # until a request has arrived, and a second more for this many bytes
BYTES_PER_SECOND = 1000
# Source tokens that are translated at once: a request waits for the requests before it.
BATCH_TOKENS = 750

Found = list[list[Translation]]  # for each text its translations, best first


@dataclass(frozen=True)
class LimitsConfig(Checked):
    """What a server accepts, so that no client can use up its memory or its time."""

    max_characters: int = setting(5000, check=at_least(1))
    """Characters of a request: its texts and its glossary; more: status 400."""
    max_texts: int = setting(256, check=at_least(1))
    """Texts of a request whose q is a list; more: status 400."""
    max_waiting: int = setting(256, check=at_least(1))
    """Requests that may wait for the model; further ones: status 429."""
    max_seconds: float = setting(30.0, check=POSITIVE)
    """Seconds to translate a request (then status 504), and to receive it, up to 20 (then 408)."""

    @property
    def max_bytes(self) -> int:
        """Bytes of the body of a request."""
        return self.max_characters * BYTES_PER_CHARACTER + OTHER_BYTES


class QueueFull(Exception):
    """As many requests as allowed are waiting."""


@dataclass(eq=False)
class Job:
    """A request that waits, or a part of a long one."""

    texts: list[str]
    tokens: int
    settings: Hashable
    result: asyncio.Future[Found]


class Batcher:
    """Collects requests in an event loop, and translates them in a thread.

    The parts of a long request wait one after the other, so that others are translated between.
    """

    def __init__(self, translate: Callable[[Any, list[str]], Found], max_waiting: int) -> None:
        """`translate(settings, texts)` is called with the texts of requests of equal settings."""
        self._translate = translate
        self._max_waiting = max_waiting
        self._waiting: list[Job] = []
        self._arrived = asyncio.Event()

    async def translate(
        self, settings: Hashable, texts: Sequence[str], tokens: Sequence[int]
    ) -> Found:
        """The translations of texts that have so many tokens.

        The request leaves the queue if it is cancelled. Raises QueueFull, and what the translation
        raises.
        """
        if len(self._waiting) >= self._max_waiting:
            raise QueueFull
        parts = split(texts, tokens)
        return [each for part in parts for each in await self._wait(settings, *part)]

    async def _wait(self, settings: Hashable, texts: list[str], tokens: int) -> Found:
        job = Job(texts, tokens, settings, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._arrived.set()
        try:
            return await job.result
        finally:
            if job in self._waiting:
                self._waiting.remove(job)

    async def run(self) -> None:
        """Translate what arrives until this task is cancelled."""
        with ThreadPoolExecutor(1, "translate") as thread:
            while True:
                await self._arrived.wait()
                if jobs := self._next():
                    await self._answer(thread, jobs)
                else:
                    self._arrived.clear()

    async def _answer(self, thread: Executor, jobs: list[Job]) -> None:
        texts = [text for job in jobs for text in job.texts]
        work = self._translate, jobs[0].settings, texts
        try:
            found = iter(await asyncio.get_running_loop().run_in_executor(thread, *work))
        except Exception as error:  # it belongs to the requests, which report it
            for job in jobs:
                if not job.result.done():
                    job.result.set_exception(error)
            return
        for job in jobs:
            translations = list(islice(found, len(job.texts)))
            if not job.result.done():  # its client may have gone
                job.result.set_result(translations)

    def _next(self) -> list[Job]:
        """Remove the oldest job from the queue, and others that fit into one batch with it."""
        batch: list[Job] = []
        count = 0
        for job in list(self._waiting):
            fits = count + job.tokens <= BATCH_TOKENS
            if not batch or (fits and job.settings == batch[0].settings):
                count += job.tokens
                batch.append(job)
                self._waiting.remove(job)
        return batch


def split(texts: Sequence[str], tokens: Sequence[int]) -> Iterator[tuple[list[str], int]]:
    """The texts in parts of up to `BATCH_TOKENS`, or of one longer text, with their tokens."""
    part, size = list[str](), 0
    for text, count in zip(texts, tokens, strict=True):
        if part and size + count > BATCH_TOKENS:
            yield part, size
            part, size = [], 0
        part.append(text)
        size += count
    if part:
        yield part, size
