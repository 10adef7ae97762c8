"""The logbook sends what a run logs to every sink, and prints messages and progress.

On other ranks than 0 it has no sinks and prints nothing. The sinks for the console and for
metrics.jsonl are here; those for W&B and TensorBoard in `trackers`, that for the report in
`report_sink`.
"""

import errno
import hashlib
import io
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from translate_ddp.console import ProgressBar, print_line, printable
from translate_ddp.errors import NotSaved
from translate_ddp.run_record import METRICS_FILE
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.run_folder import is_at
from translate_ddp.training.metrics import OFF_TARGET, with_units
from translate_ddp.training.state import LogOffset

SHOWN_SAMPLES = 3  # for each validation, on the console and in trackers
SAMPLE_CHARACTERS = 200  # shown of a sentence
WITH_VALIDATION = ("loss", "tokens_per_second")  # training metrics in the line of a validation
OF_DIRECTIONS = {"chrf": "chrF {:5.2f}", "BLEU": "BLEU {:5.2f}", OFF_TARGET: "off-target {:.1%}"}


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

    def validated(self, step: int, samples: Sequence[Sample]) -> None:
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
        """When the last record before this start was made, also if it is removed; 0.0 if none."""

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

    def validated(self, step: int, samples: Sequence[Sample]) -> None:
        for sink in self.sinks:
            sink.validated(step, samples)

    def saved(self, step: int, path: Path, epoch: int | None) -> None:
        for sink in self.sinks:
            sink.saved(step, path, epoch)

    def progress(self, label: str, total: int, initial: int = 0) -> ProgressBar:
        """A progress bar on the console, closed at the end of a `with` block."""
        return ProgressBar(label, total, initial=initial, shown=self.shown)

    def close(self, seconds: float = math.inf, failed: bool = False) -> None:
        """Close every sink; a second call does nothing."""
        while self.sinks:
            self.sinks.pop(0).close(seconds, failed)  # metrics.jsonl first: trackers may be slow

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # else the end of the process closes it, after the message of the error
            self.close()


def shown_samples(samples: Sequence[Sample]) -> list[Sample]:
    """Some samples of a validation, the same sentences at each."""
    return [samples[index] for index in choose_samples(SHOWN_SAMPLES, len(samples))]


def choose_samples(count: int, size: int) -> list[int]:
    """`count` random indices below `size`, the same at each validation, so that samples compare."""
    random = np.random.default_rng(size)
    return sorted(random.choice(size, size=min(count, size), replace=False).tolist())


# --- the console ---


class ConsoleSink(Sink):
    """Prints validations; the training scalars between them are in the progress bar."""

    def __init__(self) -> None:
        self._training: dict[str, float] = {}  # the latest training scalars
        self._trained = 0  # the step of their record

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        training, scores = (
            {n.removeprefix(group): value for n, value in scalars.items() if n.startswith(group)}
            for group in ("train/", "validation/")
        )
        if training:
            self._training |= training
            self._trained = step
        if not scores:
            return
        epoch = scalars.get("epoch")
        where = f"step {step:,}" if epoch is None else f"epoch {math.ceil(epoch)}, step {step:,}"
        *lines, last = score_lines(f"{where}: validation", scores)
        if shown := {n: self._training[n] for n in WITH_VALIDATION if n in self._training}:
            at = f"at step {self._trained:,} " * (self._trained != step)
            last += f"; {at}training {with_units(shown)}"
        for line in [*lines, last]:
            print_line(line)

    def validated(self, step: int, samples: Sequence[Sample]) -> None:
        for line in sample_lines(shown_samples(samples)):
            print_line(line)


def score_lines(label: str, scores: Mapping[str, float]) -> list[str]:
    """`epoch 3, step 801: validation loss 2.1 nats/token, BLEU 34.5`.

    With several directions these are the means, below a line for each direction.
    """
    lines = []
    for pair in dict.fromkeys(name.partition("/")[0] for name in scores if "/" in name):
        own = ((form, scores.get(f"{pair}/{name}")) for name, form in OF_DIRECTIONS.items())
        shown = (form.format(score) for form, score in own if score is not None)
        lines.append(f"{pair:>12}  {'  '.join(shown)}")
    return [*lines, f"{label} {'mean ' * bool(lines)}{with_units(scores)}"]


def sample_lines(samples: Sequence[Sample]) -> list[str]:
    """Source, target and prediction of each sample, one per line, with empty lines between."""
    lines = [""]
    for sample in samples:
        for name, text in sample._asdict().items():
            cut = text if len(text) <= SAMPLE_CHARACTERS else f"{text[: SAMPLE_CHARACTERS - 1]}…"
            lines.append(f"{name.upper():>11}: {printable(cut)}")
        lines.append("")
    return lines


# --- metrics.jsonl, which is part of the state of a run ---


class JsonlSink(Sink):
    """Appends one line per record, without a buffer.

    A resumed run passes the `offset` of its checkpoint: later lines are removed, since they will be
    written again. `offset` is None for a new run, and the file must then be absent or empty.
    """

    def __init__(
        self, folder: Path, offset: LogOffset | None, message: Callable[[str], None]
    ) -> None:
        self.path = folder / METRICS_FILE
        self.status = str(self.path)
        self._message = message
        self._unwritten = b""  # records that could not be written
        self.last_time = 0.0
        """When the last record in the file was made, also if it was removed; 0.0 if none was."""
        kept = self._read_kept(offset)
        self._size, self._sha256 = len(kept), hashlib.sha256(kept)
        with open(self.path, "ab") as file:
            file.truncate(self._size)
        self._file = io.FileIO(self.path, "r+")  # unbuffered: every record is on disk at once

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        record = {"step": step, "time": round(time.time(), 3)} | as_json(scalars)
        self._unwritten += json.dumps(record, allow_nan=False).encode() + b"\n"
        try:
            self._write()
        except OSError as error:
            self._message(
                f"Could not write to {self.path}: {error.strerror}. The next record retries."
            )

    def offset(self) -> LogOffset:
        """The offset after all records, which are synced to disk. Raises NotSaved if that fails."""
        try:
            self._write()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise NotSaved(f"Could not write to {self.path}: {error.strerror}.") from error
        return LogOffset(self._size, self._sha256.hexdigest())

    def close(self, seconds: float, failed: bool) -> None:
        with suppress(OSError):  # already reported
            self._write()
        self._file.close()

    def _write(self) -> None:
        """Append unwritten records. After a failure the next call replaces what was written."""
        if not is_at(self.path, self._file.fileno()):
            self._restore()
        if not self._unwritten:
            return
        fault_point("metrics")
        self._file.seek(self._size)
        self._file.truncate()  # part of a line, after a failed write
        if self._file.write(self._unwritten) < len(self._unwritten):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(self._unwritten)
        self._sha256.update(self._unwritten)
        self._unwritten = b""

    def _restore(self) -> None:
        """Write the records again, which the open file still has."""
        self._file.seek(0)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, self._file.readall())
        self._file.close()
        self._file = io.FileIO(self.path, "r+")
        self._message(f"{self.path} was deleted, moved or replaced: it was written again.")

    def _read_kept(self, offset: LogOffset | None) -> bytes:
        """The whole lines at the start of the file that the run continues."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = self.path.read_bytes() if self.path.exists() else b""
        self.last_time = last_time(content)
        if offset is None:
            assert not content, f"{self.path} belongs to another run"
        elif offset.is_in(content):
            content = content[: offset.size]
        else:
            problem = (
                "does not match the checkpoint (it is shorter, changed, or of another machine)"
            )
            problem = problem if content else "is not there"
            self._message(f"{self.path} {problem}: nothing is removed, new records are appended.")
        return content[: content.rfind(b"\n") + 1]


def last_time(content: bytes) -> float:
    """The time of the last complete line; 0.0 if it has none."""
    lines = content[: content.rfind(b"\n") + 1].rsplit(b"\n", 2)
    try:
        return float(json.loads(lines[-2])["time"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def as_json(scalars: Mapping[str, float]) -> dict[str, float | str]:
    """The scalars as JSON values: NaN and infinities become strings that `float` parses."""
    plain = {
        name: value if isinstance(value, int) else float(value) for name, value in scalars.items()
    }
    return {name: value if math.isfinite(value) else str(value) for name, value in plain.items()}
