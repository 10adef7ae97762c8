"""Small files that are replaced as a whole."""

import os
import socket
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write the file so that a reader, or a crash at any time, finds the old or the new content.

    Text is written as UTF-8. Raises OSError if that fails; the old file is then unchanged.
    """
    # On a shared disk, processes of several hosts may write the same file at the same time.
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
