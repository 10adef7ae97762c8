"""Files that are complete or absent, locks, and long reading and writing that shows progress.

Does not import torch.
"""

import errno
import fcntl
import io
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from translate_ddp.errors import UserError, first_line
from translate_ddp.runtime.long_calls import heartbeat

T = TypeVar("T")

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
IO_CHUNK_BYTES = 2**24  # 16 MiB
SYNC_BYTES = 2**26
PARTIAL_NAME = re.compile(r"\..+\.[0-9a-f]{32}")  # as `write_atomically` names them


@contextmanager
def explain_write_errors(place: str | Path, advice: str = "") -> Iterator[None]:
    """Raise an OSError as a UserError: the place, the reason, `advice`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise UserError(f"{place} cannot be written: {reason}. {advice}".rstrip()) from error


def delete_partial_files(folder: Path) -> None:
    """Delete the partial files of processes killed in `write_atomically`; none may write now."""
    for path in folder.iterdir():
        if PARTIAL_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write the file so that a reader, or a crash at any time, finds the old or the new content.

    Text is written as UTF-8. Raises OSError if that fails; the old file is then unchanged.
    """
    with _renamed_to(path) as partial:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)


@contextmanager
def _renamed_to(path: Path) -> Iterator[Path]:
    """A name beside the path. The file or folder of this name is synced, and renamed to the path.

    Nothing is left if the block raises.
    """
    # Containers that share a disk may have the same host name and process id.
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield partial
        for written in (partial, *partial.rglob("*")):
            sync_file(written)
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def try_lock(path: Path) -> int | None:
    """The open descriptor of the file, created if need be and locked; None if another has the lock.

    The kernel releases the lock with the descriptor, however the process ends. On a disk without
    locks, the file is opened only. Raises OSError if it cannot be opened, or is a symbolic link.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)  # less the umask
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return descriptor
        os.close(descriptor)
        if error.errno != errno.EWOULDBLOCK:
            raise
        return None
    return descriptor


class SyncedFile(io.RawIOBase):
    """A new file that is written in chunks, with a heartbeat after each.

    It is synced every 64 MiB: one sync of all its bytes could take longer than the supervisor's
    timeout, and a sync shows no progress.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file exists, also as a symbolic link."""
        self._file = path.open("xb")
        self._unsynced = 0

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), IO_CHUNK_BYTES):
            part = view[start : start + IO_CHUNK_BYTES]
            self._file.write(part)
            self._unsynced += len(part)
            if self._unsynced >= SYNC_BYTES:
                self.sync()
            heartbeat()
        return len(view)

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsynced = 0

    def close(self) -> None:
        self._file.close()
        super().close()


def read_chunks(path: Path, size: int = IO_CHUNK_BYTES) -> Iterator[bytes]:
    """The content of a file, `size` bytes at a time, with a heartbeat after each."""
    with path.open("rb") as file:
        while chunk := file.read(size):
            heartbeat()
            yield chunk


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder, so that a rename survives a power cut."""
    try:
        sync_file(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network disks cannot sync a folder
            raise


def check_new(output: Path, flag: str = "--output") -> None:
    """Raise UserError if the output exists, if it is no file, or if there is no folder for it."""
    if output == Path("-") or output.is_fifo() or output.is_char_device():
        raise UserError(f"{flag} {output} is no file: pass the name of a new one.")
    if output.exists() or output.is_symlink():
        raise UserError(f"{output} exists already: delete it, or pass another {flag}.")
    if not output.parent.is_dir():
        raise UserError(f"There is no folder {output.parent}: create it, or pass another {flag}.")


def publish_output(output: Path, write: Callable[[Path], T]) -> T:
    """What `write` returns for a path beside `output`, which is then renamed to it.

    Nothing is left if it raises. Raises UserError if the output exists, or if the disk is full or
    not writable.
    """
    check_new(output)
    with explain_write_errors(output), _renamed_to(output) as partial:
        result = write(partial)
        check_new(output)  # that may have taken minutes
    return result
