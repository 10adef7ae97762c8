"""metrics.jsonl: every scalar of a run, one JSON object per line. It is part of a run's state."""

import errno
import hashlib
import io
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from translate_ddp.errors import NotSaved
from translate_ddp.run_record import METRICS_FILE
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.run_folder import is_at
from translate_ddp.training.logbook import Sink
from translate_ddp.training.state import LogOffset


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
        """Of the last record that was in the file, also if it was removed; 0.0 if none was."""
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
            self._message(
                f"{self.path} does not match the checkpoint (it is shorter, changed, or of another "
                "machine): nothing is removed, and new records are appended."
            )
        return content[: content.rfind(b"\n") + 1]


def read_records(folder: Path, last_step: int) -> list[tuple[int, dict[str, float]]]:
    """Step and scalars of every line up to `last_step`; a line that was edited may be left out.

    A file that does not match the checkpoint may have such lines, and later ones.
    """
    found = []
    for line in (folder / METRICS_FILE).read_text("utf-8", errors="replace").split("\n"):
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            record = json.loads(line)
            step, _ = record.pop("step"), record.pop("time")
            if step <= last_step:
                found.append((step, {name: float(value) for name, value in record.items()}))
    return found


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
