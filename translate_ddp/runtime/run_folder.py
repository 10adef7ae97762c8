"""The folder of a run: one run at a time writes to it, and STATUS.json says what became of it."""

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
State = Literal["running", "finished", "preempted", "failed"]


class RunFolder:
    """Where a run writes, as the ranks of one start know it, who share a `token`."""

    def __init__(self, path: str, token: str) -> None:
        self.path = Path(path)
        self._token = token

    def lock(self) -> None:
        """Take the folder for this start, until this process ends, before any work depends on it.

        Waits a little for dying processes. Where another process of the same start has it already,
        a rank of another node on a shared disk, that is enough.
        Raises UserError if another run has it, or if it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # It stays open: the kernel frees the lock with the process, however that ends.
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if self._take(descriptor):
                mine = {"token": self._token, "pid": os.getpid(), "host": socket.gethostname()}
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(mine).encode(), 0)
            else:
                os.close(descriptor)
        except OSError as error:
            raise UserError(
                f"Cannot write to {self.path}: {error.strerror}. Choose another --model_folder."
            ) from error

    def _take(self, descriptor: int) -> bool:
        """Lock the file; False if a process of this start has it."""
        deadline = time.monotonic() + WAIT_SECONDS
        told = False
        while not _try_lock(descriptor):
            holder = self._holder()
            if holder.get("token") == self._token:
                return False
            user = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'some host')}"
            if time.monotonic() > deadline:
                raise UserError(
                    f"{self.path} is in use by {user}: wait for its end, or choose another "
                    "--model_folder."
                )
            if not told:
                print_line(f"{self.path} is in use by {user}: waiting for its end.")
                told = True
            time.sleep(0.2)
        return True

    def is_mine(self) -> bool:
        """False once another run has taken the folder, where disks do not share their locks."""
        return self._holder().get("token", self._token) == self._token

    def write_status(self, state: State, reason: str = "", **facts: Any) -> None:
        """Tell a scheduler how things are; on a disk that refuses, the old word stays."""
        status = {
            "state": state,
            "reason": reason,
            **facts,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "pid": os.getpid(),
        }
        with suppress(OSError):
            if self.is_mine():
                write_atomically(self.path / "STATUS.json", json.dumps(status, indent=1) + "\n")

    def _holder(self) -> dict[str, Any]:
        try:
            found = json.loads((self.path / ".lock").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not written yet
            return {}
        return found if isinstance(found, dict) else {}


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
