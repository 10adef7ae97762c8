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

from translate_ddp.errors import UserError

WAIT_SECONDS = 30.0  # for the processes of an earlier start to end
State = Literal["running", "finished", "preempted", "failed"]


class RunFolder:
    """Where a run writes. The kernel frees the lock with the process, however that ends."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._token = ""
        self._lock: int | None = None

    def lock(self, token: str) -> None:
        """Take the folder for the start called `token`, before any work depends on it.

        Waits a little for dying processes. Where another process of the same start has it already,
        a rank of another node on a shared disk, that is enough.
        Raises UserError if another run has it, or if it cannot be written.
        """
        self._token = token
        deadline = time.monotonic() + WAIT_SECONDS
        told = False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            while not self._try(descriptor):
                holder = self._holder()
                if holder.get("token") == token:
                    os.close(descriptor)
                    return
                whose = f"{self.path} is in use by process {holder.get('pid', 'unknown')} on "
                whose += f"{holder.get('host', 'this machine')}"
                if time.monotonic() > deadline:
                    raise UserError(f"{whose}: wait for its end, or choose another --model_folder.")
                if not told:
                    print(f"{whose}: waiting up to {WAIT_SECONDS:.0f} s for its end.", flush=True)
                    told = True
                time.sleep(0.2)
            self._lock = descriptor
            mine = {"token": token, "pid": os.getpid(), "host": socket.gethostname()}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(mine).encode(), 0)
        except OSError as error:
            raise UserError(
                f"Cannot write to {self.path}: {error.strerror}. Choose another --model_folder."
            ) from error

    def is_mine(self) -> bool:
        """False once another run has taken the folder, where disks do not share their locks."""
        return self._holder().get("token") == self._token

    def write_status(self, state: State, reason: str = "", **facts: Any) -> None:
        """Tell a scheduler how things are; on a disk that refuses, the old word stays."""
        status = {
            "state": state,
            "reason": reason,
            **facts,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "pid": os.getpid(),
        }
        partial = self.path / f".STATUS.{os.getpid()}"
        with suppress(OSError):
            if self.is_mine():
                partial.write_text(json.dumps(status, indent=1) + "\n", encoding="utf-8")
                partial.rename(self.path / "STATUS.json")

    def _try(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _holder(self) -> dict[str, Any]:
        try:
            found = json.loads((self.path / ".lock").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not written yet
            return {}
        return found if isinstance(found, dict) else {}
