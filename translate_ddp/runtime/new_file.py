"""The file or folder that a command makes as its --output. It replaces nothing."""

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from translate_ddp.errors import UserError
from translate_ddp.runtime.files import SyncedFile, explain_write_errors

T = TypeVar("T")


def check_new(output: Path) -> None:
    """Raise UserError if the output exists, or if there is no folder for it."""
    if output == Path("-") or output.is_fifo() or output.is_char_device():
        raise UserError(f"--output {output} is no file: pass the name of a new one.")
    if output.exists() or output.is_symlink():
        raise UserError(f"{output} exists already: delete it, or pass another --output.")
    if not output.parent.is_dir():
        raise UserError(f"There is no folder {output.parent}: create it, or pass another --output.")


def publish(output: Path, write: Callable[[Path], T]) -> T:
    """What `write` returns for a path beside `output`, which is then renamed to it.

    Nothing is left if it raises. Raises UserError if the output exists, or if the disk is full or
    not writable.
    """
    check_new(output)
    # Containers that share a disk may have the same process id.
    partial = output.with_name(f".{output.name}.{uuid.uuid4().hex[:8]}")
    try:
        with explain_write_errors(output):
            result = write(partial)
            check_new(output)  # that may have taken minutes
            partial.rename(output)
        return result
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if partial.is_file():
            partial.unlink()


def write_new(output: Path, data: bytes) -> None:
    """Write the file as a whole. Raises UserError if it exists, or if that fails."""

    def write(partial: Path) -> None:
        with SyncedFile(partial) as file:
            file.write(data)
            file.sync()

    publish(output, write)
