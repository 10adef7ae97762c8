"""The folder of a run: a lock against other runs, and STATUS.json for schedulers."""

import errno
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
from translate_ddp.errors import UserError, cleanup
from translate_ddp.run_record import (
    EVENTS_FILE,
    METRICS_FILE,
    RECORD_FILES,
    SETTINGS_FILE,
    STATUS_FILE,
)
from translate_ddp.runtime.files import (
    delete_partial_files,
    explain_write_errors,
    try_lock,
    write_atomically,
)
from translate_ddp.runtime.long_calls import heartbeat

LOCK_FILE = ".lock"
HOLDER_FILE = ".holder"  # which process has the lock
LOCK_SECONDS = 30.0  # for the processes of an earlier start to end
# On another machine: a server of NFSv4 releases the locks of one that has died after 90 s.
REMOTE_WAIT_SECONDS = 120.0
RunStatus = Literal["running", "finished", "preempted", "lost", "failed"]


class RunFolder:
    """The model folder, written by the ranks of one start only. These share a `token`."""

    def __init__(self, path: str, token: str) -> None:
        self.path = Path(path)
        self.has_begun = False  # whether this start has begun to train
        self._token = token
        self._lock: int | None = None  # the descriptor of the open file

    def lock(self, rank: int) -> int:
        """Lock the folder for this start until the program ends; create it if need be.

        Returns the rank that has locked it: this one, or one on a node that shares the disk. Waits
        for processes of an earlier start to end. On a disk without locks, only the token prevents
        that two runs write: the one that does not find its own stops before it saves.
        Raises UserError if another run holds the lock, or if the folder is not writable.
        """
        advice = "Choose another --model_folder."
        with explain_write_errors(self.path, advice):
            if self.path.is_symlink() and not self.path.exists():
                raise UserError(
                    f"{self.path} is a symbolic link to {self.path.readlink()}, which does not "
                    "exist: create that folder, or delete the link."
                )
            self.path.mkdir(parents=True, exist_ok=True)
            self._check_files()
        with explain_write_errors(self.path / LOCK_FILE, advice):
            self._lock = self._wait_for_lock()
        if self._lock is None:
            return int(self._holder()["rank"])
        cleanup.callback(os.close, self._lock)
        with explain_write_errors(self.path, advice):
            delete_partial_files(self.path)
            mine = {"token": self._token, "pid": os.getpid(), "host": socket.gethostname()}
            # Not in the locked file: other nodes need not see what is written to a file before it
            # is closed.
            write_atomically(
                self.path / HOLDER_FILE, json.dumps(mine | {"kernel": kernel_id(), "rank": rank})
            )
        return rank

    def _check_files(self) -> None:
        """Raise UserError if a run would replace a file that is not of a run."""
        names = {path.name for path in self.path.iterdir()}
        if {LOCK_FILE, METRICS_FILE, EVENTS_FILE} & names or any(
            name.endswith(".pt") for name in names
        ):
            return  # a run has used the folder, or its files were copied to it
        if found := sorted({*RECORD_FILES, STATUS_FILE, SETTINGS_FILE} & names):
            raise UserError(
                f"{self.path} is not the folder of a run, but holds {', '.join(found)}, and a run "
                "writes files of these names: pass another --model_folder."
            )

    def _wait_for_lock(self) -> int | None:
        """The descriptor of the lock; None if another process of this start has it."""
        started_at, has_notice = time.monotonic(), False
        while True:
            holder = self._holder()
            if holder.get("token") == self._token:
                return None
            if (descriptor := try_lock(self.path / LOCK_FILE)) is not None:
                return descriptor
            user = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'some host')}"
            is_near = holder.get("kernel") == kernel_id()
            if time.monotonic() - started_at > (LOCK_SECONDS if is_near else REMOTE_WAIT_SECONDS):
                raise UserError(
                    f"{self.path} is in use by {user}: wait until it ends, or choose another "
                    "--model_folder."
                )
            if holder and not has_notice:  # else it is being written
                print_line(f"{self.path} is in use by {user}: waiting until it ends.")
                has_notice = True
            heartbeat()
            time.sleep(0.2)

    def is_gone(self) -> bool:
        """Whether the folder, or only its lock, was deleted or moved since it was locked."""
        return self._lock is not None and not is_at(self.path / LOCK_FILE, self._lock)

    def is_mine(self) -> bool:
        """False if another run has replaced the token, on a disk whose nodes share no locks."""
        return self._holder().get("token", self._token) == self._token

    def write_status(self, status: RunStatus, reason: str = "", **details: Any) -> None:
        """Replace STATUS.json; the old file stays if that fails.

        An error before the training leaves the status of a finished or preempted run.
        """
        if status in ("lost", "failed") and not self.has_begun:
            if read_json(self.path / STATUS_FILE).get("state") in ("finished", "preempted"):
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
                write_atomically(self.path / STATUS_FILE, json.dumps(content, indent=1) + "\n")

    def _holder(self) -> dict[str, Any]:
        return read_json(self.path / HOLDER_FILE)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still at its path: not deleted, moved or replaced."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError as error:  # others of a network disk may pass
        return error.errno not in (errno.ENOENT, errno.ESTALE)


def is_in_use(path: Path) -> bool | None:
    """Whether a run holds the lock of the folder; None if that cannot be seen from here.

    It cannot on another machine than the run's, nor without the right to read the lock.
    """
    if read_json(path / HOLDER_FILE).get("kernel") != kernel_id():
        return None
    try:
        descriptor = os.open(path / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file; empty if there is none, as before it is written."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def kernel_id() -> str:
    """An id of the running kernel, which releases the locks of its processes when they end.

    Containers of one machine share it; a container that moves may keep its host name.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()
