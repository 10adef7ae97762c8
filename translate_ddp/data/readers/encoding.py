"""Files that are not UTF-8: which lines, how many, and the command that converts them."""

import re
import shlex
from pathlib import Path

from translate_ddp.data.readers.byte_stream import PROGRAMS, compression_of, without_compression
from translate_ddp.errors import UserError

INVALID_SHARE = 0.01  # of the lines; with more, the file is not read
ENOUGH_LINES = 100_000  # after which the share is that of the lines read so far
HEAD_BYTES = 2**16
BYTE_ORDER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
BLANK = re.compile(r"[ \t\r\n]")
WINDOWS_ONLY = re.compile(rb"[\x80-\x9f]")  # control characters in Latin-1, which text has not


def check_head(path: Path, head: bytes) -> None:
    """Raise UserError if a file that starts with these bytes is UTF-16 or UTF-32."""
    encoding = next((e for mark, e in BYTE_ORDER_MARKS.items() if head.startswith(mark)), "")
    for name in ("UTF-16LE", "UTF-16BE"):
        # Blanks and line breaks are in text of every script, and in no other encoding.
        text = head[:HEAD_BYTES].decode(name, "replace")
        if not encoding and len(BLANK.findall(text)) > 2 + len(text) // 100:
            encoding = name
    if encoding:
        raise UserError(
            f"{path} cannot be read: line 1 is not UTF-8, but {encoding}. Convert it:"
            f" {iconv(path, encoding)}"
        )


def iconv(path: Path, encoding: str) -> str:
    """A shell command that writes the file in UTF-8 to a new file beside it."""
    plain = without_compression(path)
    new = plain.with_name(f"{plain.stem}.utf8{plain.suffix}{compression_of(path)}")
    command = f"iconv -f {encoding} -t UTF-8"
    if ending := compression_of(path):
        program = PROGRAMS[ending]
        return f"{program} -dc {_quoted(path)} | {command} | {program} > {_quoted(new)}"
    return f"{command} {_quoted(path)} > {_quoted(new)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


class InvalidLines:
    """The lines of a file that are not UTF-8."""

    def __init__(self, path: Path, unit: str = "line") -> None:
        self.path, self.unit = path, unit
        self.first, self.count = 0, 0
        self._is_windows = False
        self.is_mixed = False  # other characters than those of ASCII are UTF-8

    def add(self, number: int, line: bytes) -> None:
        self.first = self.first or number
        self.count += 1
        self._is_windows = self._is_windows or bool(WINDOWS_ONLY.search(line))

    def check(self, total: int) -> None:
        """Raise UserError if they are too many of `total` lines."""
        if self.count > max(1, INVALID_SHARE * total):
            raise UserError(f"{self.path} cannot be read: {self.describe(total)}")

    def describe(self, total: int) -> str:
        verb = "is" if self.count == 1 else "are"
        found = f"{self.count:,} of {total:,} {self.unit}s {verb} not UTF-8, first {self.unit}"
        encoding = "WINDOWS-1252" if self._is_windows else "LATIN1"
        advice = f"If the file is {encoding}, convert it: {iconv(self.path, encoding)}"
        if self.unit != "line":  # of a table that iconv would destroy
            advice = f"If they are {encoding}, write the file again with text in UTF-8."
        elif self.is_mixed:
            advice = "Other text in it is: correct these lines, do not convert the file."
        return f"{found} {self.first:,}. {advice}"

    def finish(self, total: int, notices: list[str]) -> None:
        """Add a notice if there are a few. Raises UserError if there are many."""
        self.check(total)
        if self.count:
            notices.append(f"{self.path}: {self.describe(total)}")
