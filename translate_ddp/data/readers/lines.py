"""The lines of a text file, as a stream of blocks."""

import codecs
import re
from collections.abc import Iterator
from html import unescape
from itertools import chain
from pathlib import Path

from translate_ddp.data.read_errors import explain_read_errors
from translate_ddp.data.readers.byte_stream import read_bytes
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.encoding import ENOUGH_LINES, InvalidLines, check_head
from translate_ddp.data.rows import Advance, Columns
from translate_ddp.errors import UserError

MAX_LINE_BYTES = 2**26  # longer ones are no sentences, and would fill the memory
SEGMENT_START = re.compile(r"<seg\b", re.IGNORECASE)
SEGMENT = re.compile(r"<seg\b[^>]*?(?:/>|>((?:(?!<seg\b).)*?)</seg>)", re.IGNORECASE | re.DOTALL)
TAG = re.compile("</?[a-zA-Z][^>]*>")
NOT_ASCII = re.compile("[^\0-\x7f\ufffd]")
DAMAGED = "The file may be damaged or incomplete: copy it again."


class TextFile:
    r"""A text file in UTF-8, whose lines end with \n or \r\n, or in a file without \n with \r.

    `str.splitlines` would also split at U+2028 and others, and shift one side of parallel text. So
    would a lone \r, which crawled text has within lines.
    Invalid bytes are read as U+FFFD; lines with such bytes are counted, for a notice at the end.
    """

    def __init__(
        self, path: Path, advance: Advance, notices: list[str], encoding: str = "utf-8"
    ) -> None:
        """`encoding` is that of a file which names it."""
        self.path, self._encoding = path, encoding
        self.count = 0  # lines of all blocks so far
        self._advance, self._notices = advance, notices
        self._invalid = InvalidLines(path)
        self._ends_with_cr = False  # known from the first block on

    def blocks(self) -> Iterator[list[str]]:
        """The lines without their ends, about 1 MiB at a time.

        Raises UserError, with the line, if the file cannot be read, if a line has more than 64 MiB,
        or if more than 1% of the lines are not UTF-8.
        """
        for text in self.parts(b"\n"):
            lines = self._normalize_ends(text).split("\n")
            if not lines[-1]:
                lines.pop()
            self.count += len(lines)
            yield lines

    def parts(self, end: bytes) -> Iterator[str]:
        """The text in parts of about 1 MiB that end with `end`; the caller counts the lines."""
        for block in self._whole(end):
            yield self._decode(block)
            if self.count > ENOUGH_LINES:
                self._invalid.check(self.count)
        self._invalid.finish(self.count, self._notices)

    def _whole(self, mark: bytes) -> Iterator[bytes]:
        """Blocks that end with `mark`."""
        unfinished: list[bytes] = []
        size = 0
        for block in self._bytes():
            end = block.rfind(mark) + len(mark) if mark in block else 0
            if self._ends_with_cr:  # a \r at the end of a block may be the first half of \r\n
                end = max(end, block.rfind(b"\r", 0, len(block) - 1) + 1)
            if end:
                yield b"".join([*unfinished, block[:end]])
                unfinished, size = [], 0
            unfinished.append(block[end:])
            size += len(block) - end
            if size > MAX_LINE_BYTES:
                raise UserError(
                    f"{self.path} cannot be read: line {self.count + 1:,} has more than"
                    f" {MAX_LINE_BYTES >> 20} MiB. It must have one text per line."
                )
        if size:
            yield b"".join(unfinished)

    def _bytes(self) -> Iterator[bytes]:
        blocks = read_bytes(self.path, self._advance)
        if self._encoding != "utf-8":
            texts = codecs.iterdecode(blocks, self._encoding, "surrogatepass")
            blocks = (text.encode(errors="surrogatepass") for text in texts)
        is_first = True
        while True:
            place = f"{self.path} after line {self.count:,}" if self.count else self.path
            with explain_read_errors(place, DAMAGED):
                block = next(blocks, None)
            if block is None:
                return
            if is_first:
                check_head(self.path, block)
                block = block.removeprefix(codecs.BOM_UTF8)
                self._ends_with_cr = b"\n" not in block
            is_first = False
            yield block

    def _decode(self, block: bytes) -> str:
        try:
            return block.decode()
        except UnicodeDecodeError:
            text = self._normalize_ends(block.decode(errors="surrogateescape"))
            for number, line in enumerate(text.split("\n"), self.count + 1):
                try:
                    line.encode()
                except UnicodeEncodeError:
                    self._invalid.add(number, line.encode(errors="surrogateescape"))
            text = block.decode(errors="replace")
            self._invalid.is_mixed = self._invalid.is_mixed or bool(NOT_ASCII.search(text))
            return text

    def _normalize_ends(self, text: str) -> str:
        text = text.replace("\r\n", "\n")
        return text.replace("\r", "\n") if self._ends_with_cr else text


def read_lines(
    path: Path, wanted: Wanted, advance: Advance, notices: list[str]
) -> Iterator[Columns]:
    """One column: the lines of a file, in whatever language."""
    return ([lines] for lines in TextFile(path, advance, notices).blocks())


def read_sgm(path: Path, wanted: Wanted, advance: Advance, notices: list[str]) -> Iterator[Columns]:
    """One column: the segments of a test set of WMT in SGML, in their order.

    Raises UserError if a segment is not closed, or if there is none.
    """
    rest, file, is_empty = "", TextFile(path, advance, notices), True
    for lines in chain(file.blocks(), [None]):
        text = "\n".join([rest, *(lines or ())])
        found = list(SEGMENT.finditer(text))
        end = found[-1].end() if found else 0
        is_open = lines is None and SEGMENT_START.search(text, end)
        if is_open or len(SEGMENT_START.findall(text[:end])) > len(found):
            raise UserError(f"{path} cannot be read: before line {file.count:,}, a <seg> is open.")
        rest, is_empty = text[end:], is_empty and not found
        yield [[unescape(TAG.sub("", segment[1] or "")).strip() for segment in found]]
    if is_empty:
        raise UserError(f"{path} cannot be read: it has no segments, <seg>...</seg>.")
