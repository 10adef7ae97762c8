"""The bytes of a file, decompressed, with progress and heartbeats."""

import codecs
import gzip
import lzma
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from translate_ddp.data.rows import Advance
from translate_ddp.errors import UserError, cleanup
from translate_ddp.runtime.files import read_chunks
from translate_ddp.runtime.launch import read_launch
from translate_ddp.runtime.long_calls import heartbeat

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
ZSTD_WINDOW = 2**27  # bytes; with a larger one, the library cannot read a file
MARKUP = (".tmx", ".sgm", ".sgml")  # endings of what is read
CONVERT = "save it as text in UTF-8, one text per line, or as CSV with a column for each language"
# What the content begins with -> what it is, and what to do.
DOCUMENTS = {
    rb"PK\x03\x04": f"a zip archive, as .docx, .odt and .xlsx are: unpack it, or {CONVERT}",
    rb"BZh\d1AY&SY|7z\xbc\xaf|Rar!\x1a|.{257}ustar": "an archive: unpack it",
    rb"%PDF-|\{\\rtf|\xd0\xcf\x11\xe0": f"a document (PDF, RTF or Office): {CONVERT}",
    rb"WEBVTT|\s*1\r?\n\d\d:\d\d:\d\d[,.]\d{3} -->": f"subtitles: {CONVERT}",
    rb"SQLite format 3": "a database, as of a translation memory: export it as .tmx",
    rb'(#[^\n]*\n|\s)*msg(id|ctxt) "': f"a catalogue of gettext: {CONVERT}",
    rb"\s*(<[?!][^>]*>\s*)*<tmx\b": "a translation memory: rename it to end in .tmx",
    rb"\s*(<[?!][^>]*>\s*)*<(src|ref|tst)set\b": "an SGML test set: rename it to end in .sgm",
    rb"\s*<(\?xml\s|!doctype\s|html\b|xliff\b)": f"XML, XLIFF or HTML: {CONVERT}",
}


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
            if not done:
                _check_content(path, block)
            heartbeat()
            position = raw.tell()
            advance(position - done)
            done = position
            yield block


def _check_content(path: Path, content: bytes) -> None:
    """Raise UserError if it is neither text nor in the format of its name."""
    content = content.removeprefix(codecs.BOM_UTF8)
    ending = without_compression(path).suffix.lower()
    if content.lstrip().startswith(b"<") and ending in MARKUP:
        return
    if ending in (".html", ".htm") and re.match(rb"\s*<[a-zA-Z]", content):
        content = b"<html>" + content  # which a part of a page lacks
    for start, what in DOCUMENTS.items():
        if re.match(start, content, re.IGNORECASE | re.DOTALL):
            raise UserError(f"{path} cannot be read: it is {what}.")


@cache  # a pipe can be read once, and its path may be asked for often
def spooled(path: Path) -> Path:
    """The path, or that of a temporary copy if it is a pipe or a device; - is standard input.

    Raises UserError if several processes would read the pipe.
    """
    path = Path("/dev/stdin") if path == Path("-") else path
    if not (path.is_fifo() or path.is_char_device() or path.is_socket()):
        return path
    if read_launch(os.environ).size > 1:
        raise UserError(f"{path} is a pipe, which one process can read: write it to a file first.")
    copy = Path(cleanup.enter_context(TemporaryDirectory(prefix="translate_ddp-pipe-")), path.name)
    with copy.open("wb") as file:
        file.writelines(read_chunks(path, BLOCK_BYTES))
    with copy.open("rb") as file:
        head = file.read(HEAD_BYTES)
    ending = next((e for e, first in FIRST_BYTES.items() if head.startswith(first)), "")
    if ending in ("", compression_of(copy)):
        return copy
    return copy.rename(f"{copy}{ending}")  # the user has chosen no name


def _check_compression(path: Path, head: bytes) -> None:
    ending = compression_of(path)
    if ending and not head.startswith(FIRST_BYTES[ending]) and not BINARY.search(head):
        raise UserError(
            f"{path} cannot be read: it is not compressed by {PROGRAMS[ending]}. If it is text,"
            f" rename it to {without_compression(path).name}."
        )
    if ending == ".zst" and (window := _zstd_window(head)) > ZSTD_WINDOW:
        raise UserError(
            f"{path} cannot be read: it was compressed with a window of {window >> 20:,} MiB, and"
            f" at most {ZSTD_WINDOW >> 20} are supported. Decompress it:"
            f" zstd -d --long=31 {shlex.quote(str(path))}"
        )
    for other, first_bytes in FIRST_BYTES.items():
        if not ending and head.startswith(first_bytes):
            raise UserError(
                f"{path} is compressed by {PROGRAMS[other]}: rename it to {path.name}{other}."
            )


def _zstd_window(head: bytes) -> int:
    """The window of the first frame in bytes; see RFC 8878, 3.1.1.1."""
    flags, descriptor = head[4:6].ljust(2, b"\0")
    if flags & 32:  # a single segment: the window has the size of the content
        start = 5 + (0, 1, 2, 4)[flags & 3]
        return int.from_bytes(head[start : start + (1, 2, 4, 8)[flags >> 6]], "little")
    exponent, mantissa = divmod(descriptor, 8)
    return (8 + mantissa) << (7 + exponent)
