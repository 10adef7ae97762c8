"""The content of one checkpoint file, and its check against the digest in its name."""

import hashlib
import io
import pickle
import zipfile
from pathlib import Path
from typing import IO, Any, cast

import torch

from translate_ddp.errors import UserError, first_line
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import SyncedFile, read_chunks
from translate_ddp.training.checkpoint_name import DIGEST_CHARACTERS, digest_in
from translate_ddp.training.state import RunState

MISSING = "it does not exist"


def damage(path: Path) -> str | None:
    """A description of the damage, or None if the digest matches. The file is not parsed.

    A file whose name has no digest, such as one renamed by hand, is not checked.
    """
    if not (path.exists() or path.is_symlink()):
        return MISSING
    if path.is_dir():
        return "it is a folder, not a file"
    if not path.is_file():  # opening a pipe or a device would never end
        return "it is not a regular file"
    sha256 = hashlib.sha256()
    try:
        for chunk in read_chunks(path):
            sha256.update(chunk)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    digest = sha256.hexdigest()
    expected = digest_in(path.name)
    if not digest.startswith(expected):
        return f"it is damaged (its sha256 starts with {digest[: len(expected)]}, not {expected})"
    return None


def load(path: Path, name: str = "", *, mapped: bool = False) -> RunState:
    """The state in a checkpoint file, which messages call `name`. Raises UserError if it has none.

    `mapped` tensors take no memory of this process, but the file must exist as long as they do.
    """
    name = name or str(path)
    try:
        _reject_compression(path)
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:  # its text proposes to run the file's code
        raise UserError(
            f"{name} is not a checkpoint of translate_ddp: it is of another program, or damaged."
        ) from error
    except Exception as error:  # torch raises exceptions of many types
        raise UserError(
            f"{name} is not a checkpoint of translate_ddp: {first_line(error)}"
        ) from error
    return RunState.from_dict(content, name)


def _reject_compression(path: Path) -> None:
    """Raise ValueError for compressed data: torch writes none, and it may unpack to any size."""
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
            raise ValueError("its data is compressed.")


def write(path: Path, state: RunState) -> str:
    """Write the state to a new file, sync it, and return the start of its sha256.

    Raises OSError if that fails; a part of the file may then be left.
    """
    with SyncedFile(path) as file:
        writer = _HashingWriter(file)
        try:
            torch.save(state.to_dict(), cast("IO[bytes]", writer))
        except RuntimeError as error:
            # torch reports a failed write as an internal error; the writer keeps the disk's error.
            raise writer.error or error from error
        fault_point("syncing")
        file.sync()
    return writer.sha256.hexdigest()[:DIGEST_CHARACTERS]


class _HashingWriter(io.RawIOBase):
    """Writes to a file, computes the digest, and stores the error of a failed write."""

    def __init__(self, file: SyncedFile) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            fault_point("writing")
            self.file.write(data)
        except OSError as error:
            self.error = error
            raise
        self.sha256.update(data)
        return len(data)
