"""The bytes of a file, decompressed, with progress and heartbeats."""

import gzip
import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

from translate_ddp.data.rows import Advance
from translate_ddp.errors import UserError
from translate_ddp.runtime.heartbeat import heartbeat

BLOCK_BYTES = 2**20
HEAD_BYTES = 64


def _open_zstandard(file: IO[bytes]) -> Any:
    import pyarrow as pa  # here: it takes 0.1 s, and most corpora do not need it

    return pa.CompressedInputStream(file, "zstd")


DECOMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lzma.open,
    ".zst": _open_zstandard,
}
PROGRAMS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
FIRST_BYTES = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}
BINARY = re.compile(rb"[\0-\x08\x0e-\x1f]")  # bytes that text has not


def compression_of(path: Path) -> str:
    """The ending of a compressed file, such as .gz; '' if it is not compressed."""
    return path.suffix if path.suffix in DECOMPRESSORS else ""


def without_compression(path: Path) -> Path:
    return path.with_suffix("") if compression_of(path) else path


def read_bytes(path: Path, advance: Advance) -> Iterator[bytes]:
    """The content, decompressed by the ending of the name, up to 1 MiB at a time.

    `advance` receives the numbers of bytes of the file, compressed. Raises UserError if its name
    and its first bytes differ in whether it is compressed, and what the libraries raise.
    """
    done = 0
    decompress = DECOMPRESSORS.get(path.suffix, nullcontext)
    with path.open("rb") as raw:
        _check_compression(path, raw.read(HEAD_BYTES))
    with path.open("rb") as raw, decompress(raw) as file:
        while block := file.read(BLOCK_BYTES):
            heartbeat()
            position = raw.tell()
            advance(position - done)
            done = position
            yield block


def _check_compression(path: Path, head: bytes) -> None:
    ending = compression_of(path)
    if ending and not head.startswith(FIRST_BYTES[ending]) and not BINARY.search(head):
        raise UserError(
            f"{path} cannot be read: it is not compressed by {PROGRAMS[ending]}. If it is text,"
            f" rename it to {without_compression(path).name}."
        )
    for other, first_bytes in FIRST_BYTES.items():
        if not ending and head.startswith(first_bytes):
            raise UserError(
                f"{path} is compressed by {PROGRAMS[other]}: rename it to {path.name}{other}."
            )
