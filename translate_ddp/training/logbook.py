"""The logbook: passes what a run logs to every sink, and prints messages and progress.

On other ranks than 0 it has no sinks and prints nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from translate_ddp.console import print_line, printable
from translate_ddp.progress import Progress
from translate_ddp.training.state import LogOffset

SHOWN_SAMPLES = 3  # of each validation, on the console and in trackers


class Sample(NamedTuple):
    """A sentence of the validation set, its reference, and the translation of the model."""

    source: str
    target: str
    predicted: str


class Sink:
    """Receives what a run logs. A method that is not overridden ignores it.

    The methods must not raise: that would end the run.
    """

    status: str = ""
    """Where its records can be found; "" if nowhere."""

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Record the named scalars of a step."""

    def validated(self, step: int, rows: Sequence[Sample]) -> None:
        """Record the translations of a validation; `log` follows with its scores."""

    def message(self, text: str) -> None:
        """Record a message that was printed."""

    def saved(self, step: int, path: Path, epoch: int | None) -> None:
        """Record a new checkpoint; `epoch` is the epoch that it ends, if any."""

    def close(self, seconds: float, failed: bool) -> None:
        """Finish within about `seconds`; `failed` if the run ended in an error."""


class Logbook:
    """The sinks of a run, and the console of one rank."""

    def __init__(self, sinks: Sequence[Sink] = (), *, shown: bool = True) -> None:
        self.sinks = list(sinks)
        self.shown = shown
        self.offset: Callable[[], LogOffset] = LogOffset
        """The part of metrics.jsonl that belongs to a checkpoint made now."""
        self.last_time = 0.0
        """Of the last record before this start of the run, also if it is removed; 0.0 if none."""

    @property
    def status(self) -> str:
        return "; ".join(sink.status for sink in self.sinks if sink.status)

    def message(self, text: str) -> None:
        """Print lines, above any progress bar."""
        if self.shown:
            for line in text.split("\n"):
                print_line(printable(line))
        for sink in self.sinks:
            sink.message(text)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        for sink in self.sinks:
            sink.log(step, scalars)

    def validated(self, step: int, rows: Sequence[Sample]) -> None:
        for sink in self.sinks:
            sink.validated(step, rows)

    def saved(self, step: int, path: Path, epoch: int | None) -> None:
        for sink in self.sinks:
            sink.saved(step, path, epoch)

    @contextmanager
    def progress(self, label: str, total: int, initial: int = 0) -> Iterator[Progress]:
        """A progress bar on the console, closed at the end of the block."""
        progress = Progress(label, total, initial=initial, shown=self.shown)
        try:
            yield progress
        finally:
            progress.close()

    def close(self, seconds: float = math.inf, failed: bool = False) -> None:
        """Close every sink; a second call does nothing."""
        while self.sinks:
            self.sinks.pop(0).close(seconds, failed)  # metrics.jsonl first: trackers may be slow

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # else the end of the process closes it, after the message of the error
            self.close()


def shown_samples(rows: Sequence[Sample]) -> list[Sample]:
    """Some rows of a validation, the same sentences at each."""
    return [rows[row] for row in choose_samples(SHOWN_SAMPLES, len(rows))]


def choose_samples(count: int, size: int) -> list[int]:
    """`count` random rows below `size`, the same at each validation, so that samples compare."""
    random = np.random.default_rng(size)
    return sorted(random.choice(size, size=min(count, size), replace=False).tolist())
