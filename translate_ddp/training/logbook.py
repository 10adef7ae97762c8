"""What a run says of itself: to metrics.jsonl (the truth), to the console, to Weights & Biases.

It listens to every station and prints to none. Off the main rank it is silent.
"""

import errno
import hashlib
import io
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Protocol, Self

from translate_ddp.console import print_line, printable
from translate_ddp.errors import NotSaved
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.settings import LogbookConfig
from translate_ddp.training.wandb_sink import WandbSink, mode_in_force

SAMPLE_COLUMNS = ("source", "target", "predicted")
LINE_SECONDS = 10.0  # between two lines of progress where there is no terminal
LINE = "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"


@dataclass(frozen=True)
class Sample:
    source: str
    target: str
    predicted: str


@dataclass(frozen=True)
class Prefix:
    """The start of a file: how many bytes, and what they are."""

    size: int
    sha256: str


class Progress(Protocol):
    def advance(self, n: int = 1, **shown: float | str) -> None:
        """`n` more are done; `shown` stays beside the count until it is shown anew."""
        ...


class Logbook:
    """The record of one run, kept by the main rank; elsewhere (`active` false) nothing happens.

    `position` is what `position()` returned for the checkpoint that is resumed: later lines of
    metrics.jsonl are cut off, since they will be written again. None begins a new run.
    """

    def __init__(
        self,
        config: LogbookConfig,
        folder: Path,
        *,
        run_id: str,
        about: Mapping[str, str | int | float | bool | None],
        position: Prefix | None,
        active: bool,
    ) -> None:
        self._active = active
        self._path = folder / "metrics.jsonl"
        self._unwritten = b""  # records that the disk did not take
        if active:
            self._file = self._open(self._path, position)
            written = self._path.read_bytes()
            self._written, self._sha256 = len(written), hashlib.sha256(written)
        self._wandb = WandbSink(
            mode=mode_in_force(config.wandb_mode) if active else "disabled",
            project=config.wandb_project,
            group=config.wandb_group,
            folder=folder,
            run_id=run_id,
            about=about,
            warn=self.say,
        )

    @property
    def wandb_status(self) -> str:
        return self._wandb.status

    def say(self, text: str) -> None:
        """A plain line on the console, beside any progress bar."""
        if self._active:
            for line in text.split("\n"):
                print_line(printable(line))

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Record the scalars of a step. The console has `train/*` from `progress` already."""
        if not self._active:
            return
        record = {"step": step, "time": round(time.time(), 3)}
        self._unwritten += json.dumps(record | as_json(scalars), allow_nan=False).encode() + b"\n"
        try:
            self._write()
        except OSError as error:
            self.say(f"Could not write to {self._path}: {error.strerror}. It will be tried again.")
        self._wandb.log(step, scalars)
        for line in summary_lines(step, scalars):
            self.say(line)

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Show translations beside what was asked for."""
        if not self._active:
            return
        for line in sample_lines(samples):
            self.say(line)
        rows = [astuple(sample) for sample in samples]
        self._wandb.table(step, "validation/samples", SAMPLE_COLUMNS, rows)

    @contextmanager
    def progress(
        self, label: str, total: int, done: int = 0, unit: str = "step"
    ) -> Iterator[Progress]:
        """As the function of that name; silent where the logbook is."""
        if not self._active:
            yield _Silence()
            return
        with progress(label, total, done, unit) as shown:
            yield shown

    def position(self) -> Prefix:
        """What is in metrics.jsonl so far, safely on disk: part of a checkpoint.

        Raises NotSaved if the disk refuses.
        """
        if not self._active:
            return Prefix(0, "")
        try:
            self._write()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise NotSaved(f"Could not write to {self._path}: {error.strerror}.") from error
        return Prefix(self._written, self._sha256.hexdigest())

    def close(self, seconds: float = math.inf, failed: bool = False) -> None:
        """Let W&B upload what is left, for about `seconds` or its own bound, whichever is less."""
        if not self._active:
            return
        with suppress(OSError):  # what could not be written was told before
            self._write()
        self._file.close()
        self._wandb.close(seconds, failed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(failed=kind is not None)

    def _write(self) -> None:
        """Append what is unwritten: all of it, or as far as a reader can tell nothing."""
        if not self._unwritten:
            return
        fault_point("metrics")
        self._file.seek(self._written)
        self._file.truncate()  # half a line of a try that failed
        if self._file.write(self._unwritten) < len(self._unwritten):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._written += len(self._unwritten)
        self._sha256.update(self._unwritten)
        self._unwritten = b""

    def _open(self, path: Path, position: Prefix | None) -> io.FileIO:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = path.read_bytes() if path.exists() else b""
        keep = held
        if position is None:
            assert not held, f"{path} belongs to another run"
        elif hashlib.sha256(held[: position.size]).hexdigest() == position.sha256:
            keep = held[: position.size]
        else:
            self.say(
                f"{path} is not the file that the checkpoint knows, but shorter, changed or "
                "another machine's: nothing is cut off it, and new records follow."
            )
        with open(path, "ab") as file:
            file.truncate(keep.rfind(b"\n") + 1)  # whole lines
        return io.FileIO(path, "r+")  # unbuffered: every record is on disk at once


@contextmanager
def progress(label: str, total: int, done: int = 0, unit: str = "step") -> Iterator[Progress]:
    """Long work: a bar on a terminal; elsewhere a line now and then, and one at the end."""
    kind = _Bar if on_terminal() else _Lines
    shown = kind(printable(label), total, done, unit)
    try:
        yield shown
    finally:
        shown.close()


def sample_lines(samples: Sequence[Sample]) -> list[str]:
    """Translations beside what was asked for, aligned, a blank line around each."""
    lines = [""]
    for sample in samples:
        for name, text in zip(SAMPLE_COLUMNS, astuple(sample), strict=True):
            lines.append(f"{name.upper():>11}: {printable(text)}")
        lines.append("")
    return lines


def as_json(scalars: Mapping[str, float]) -> dict[str, float | str]:
    """Plain numbers; the three that JSON lacks as the strings that `float` reads back."""
    plain = {
        name: value if isinstance(value, int) else float(value) for name, value in scalars.items()
    }
    return {name: value if math.isfinite(value) else str(value) for name, value in plain.items()}


def summary_lines(step: int, scalars: Mapping[str, float]) -> list[str]:
    """A line for each group of scalars but `train`: `validation  step 300  loss 0.41`."""
    groups: dict[str, list[str]] = {}
    for name, value in scalars.items():
        group, _, short_name = name.rpartition("/")
        groups.setdefault(group, []).append(f"{short_name} {short(value)}")
    groups.pop("train", None)
    return ["  ".join([group, f"step {step}", *shown]) for group, shown in groups.items()]


def short(value: float | str) -> str:
    """A number in four digits, or whole if it is large: 0.0003, 92.13, 53,120."""
    if isinstance(value, str):
        return printable(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def on_terminal() -> bool:
    """Whether stderr is a terminal that has a width: those in containers may have none."""
    try:
        return os.get_terminal_size(2).columns > 0
    except OSError:
        return False


class _Silence:
    def advance(self, n: int = 1, **shown: float | str) -> None:
        pass


class _Bar:
    """tqdm on a terminal, which may go away while the work goes on."""

    def __init__(self, label: str, total: int, done: int, unit: str) -> None:
        from tqdm import tqdm

        self._bar = tqdm(desc=label, total=total, initial=done, unit=f" {unit}", dynamic_ncols=True)

    def advance(self, n: int = 1, **shown: float | str) -> None:
        with suppress(OSError):
            if shown:
                self._bar.set_postfix_str(_postfix(shown), refresh=False)
            self._bar.update(n)

    def close(self) -> None:
        with suppress(OSError):
            self._bar.close()


class _Lines:
    """The words of tqdm, in whole lines: at most one each `LINE_SECONDS`, and one at the end."""

    def __init__(self, label: str, total: int, done: int, unit: str) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._initial = self._done = done
        self._shown: dict[str, float | str] = {}
        self._start = self._last = time.monotonic()

    def advance(self, n: int = 1, **shown: float | str) -> None:
        self._done += n
        self._shown |= shown
        if time.monotonic() - self._last >= LINE_SECONDS and self._done != self._total:
            self._print()

    def close(self) -> None:
        self._print()

    def _print(self) -> None:
        from tqdm import tqdm

        self._last = time.monotonic()
        line = tqdm.format_meter(
            self._done,
            self._total,
            self._last - self._start,
            prefix=self._label,
            unit=f" {self._unit}",
            initial=self._initial,
            postfix=_postfix(self._shown),
            bar_format=LINE,
        )
        print_line(line)


def _postfix(shown: Mapping[str, float | str]) -> str:
    return ", ".join(f"{name}={short(value)}" for name, value in shown.items())
