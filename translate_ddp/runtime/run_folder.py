"""The folder of a run: a lock against other runs, and STATUS.json for schedulers."""

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from translate_ddp.console import print_line
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import write_atomically

WAIT_SECONDS = 30.0  # for the processes of an earlier start to end
RunStatus = Literal["running", "finished", "preempted", "failed"]


class RunFolder:
    """The model folder, written by the ranks of one start only. These share a `token`."""

    def __init__(self, path: str, token: str) -> None:
        self.path = Path(path)
        self.has_begun = False  # whether this start has begun to train
        self._token = token

    def lock(self) -> None:
        """Lock the folder for this start until the process ends; create it if need be.

        Waits up to `WAIT_SECONDS` for dying processes. On a shared disk, a lock held by another
        node of the same start is enough.
        Raises UserError if another run holds the lock, or if the folder is not writable.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # It stays open: the kernel releases the lock with the process, however that ends.
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if self._wait_for_lock(descriptor):
                mine = {"token": self._token, "pid": os.getpid(), "host": socket.gethostname()}
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(mine).encode(), 0)
            else:
                os.close(descriptor)
        except OSError as error:
            raise UserError(
                f"Cannot write to {self.path}: {error.strerror}. Choose another --model_folder."
            ) from error

    def _wait_for_lock(self, descriptor: int) -> bool:
        """True once this process has the lock; False if another one of this start has it."""
        deadline = time.monotonic() + WAIT_SECONDS
        has_notice = False
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            holder = self._holder()
            if holder.get("token") == self._token:
                return False
            user = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'some host')}"
            if time.monotonic() > deadline:
                raise UserError(
                    f"{self.path} is in use by {user}: wait until it ends, or choose another "
                    "--model_folder."
                )
            if not has_notice:
                print_line(f"{self.path} is in use by {user}: waiting until it ends.")
                has_notice = True
            time.sleep(0.2)

    def is_mine(self) -> bool:
        """False if another run has replaced the token, on a disk whose locks nodes do not share."""
        return self._holder().get("token", self._token) == self._token

    def write_status(self, status: RunStatus, reason: str = "", **details: Any) -> None:
        """Replace STATUS.json; the old file stays if that fails.

        An error before the training leaves the status of a finished or preempted run.
        """
        if status == "failed" and not self.has_begun:
            if _read_json(self.path / "STATUS.json").get("state") in ("finished", "preempted"):
                return
        content = {
            "state": status,
            "reason": reason,
            **details,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "pid": os.getpid(),
        }
        with suppress(OSError):
            if self.is_mine():
                write_atomically(self.path / "STATUS.json", json.dumps(content, indent=1) + "\n")

    def _holder(self) -> dict[str, Any]:
        return _read_json(self.path / ".lock")


def _read_json(path: Path) -> dict[str, Any]:
    """The object in the file; empty if there is none, as before it is written."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
