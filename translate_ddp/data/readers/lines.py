"""The lines of a text file, as a stream of blocks."""

import codecs
from collections.abc import Iterator
from pathlib import Path

from translate_ddp.data.read_errors import explain_read_errors
from translate_ddp.data.readers.byte_stream import read_bytes
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.encoding import ENOUGH_LINES, InvalidLines, check_head
from translate_ddp.data.rows import Advance, Columns
from translate_ddp.errors import UserError

MAX_LINE_BYTES = 2**26  # longer ones are no sentences, and would fill the memory
DAMAGED = "The file may be damaged or incomplete: copy it again."


class TextFile:
    r"""A text file in UTF-8, whose lines end with \n, \r\n or \r, and with no other character.

    `str.splitlines` would also split at U+2028 and others, and shift one side of parallel text.
    Invalid bytes are read as U+FFFD; lines with such bytes are counted, for a notice at the end.
    """

    def __init__(self, path: Path, advance: Advance, notices: list[str]) -> None:
        self.path = path
        self.count = 0  # lines of all blocks so far
        self._advance, self._notices = advance, notices
        self._invalid = InvalidLines(path)

    def blocks(self) -> Iterator[list[str]]:
        """The lines without their ends, about 1 MiB at a time.

        Raises UserError, with the line, if the file cannot be read, if a line has more than 64 MiB,
        or if more than 1% of the lines are not UTF-8.
        """
        for block in self._whole_lines():
            lines = _split(self._decode(block))
            self.count += len(lines)
            if self.count > ENOUGH_LINES:
                self._invalid.check(self.count)
            yield lines
        self._invalid.finish(self.count, self._notices)

    def _whole_lines(self) -> Iterator[bytes]:
        """Blocks that end at the end of a line."""
        unfinished: list[bytes] = []
        size = 0
        for block in self._bytes():
            # A \r at the end may be the first half of \r\n.
            end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
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
            is_first = False
            yield block

    def _decode(self, block: bytes) -> str:
        try:
            return block.decode()
        except UnicodeDecodeError:
            lines = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            for number, line in enumerate(lines, self.count + 1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    self._invalid.add(number, line)
            return block.decode(errors="replace")


def _split(text: str) -> list[str]:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def read_lines(
    path: Path, wanted: Wanted, advance: Advance, notices: list[str]
) -> Iterator[Columns]:
    """One column: the lines of a file, in whatever language."""
    return ([lines] for lines in TextFile(path, advance, notices).blocks())
