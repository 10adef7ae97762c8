"""The text of an XML file, without what parsers reject although programs write it."""

import codecs
import re
import sys
from collections.abc import Iterator
from html import unescape
from html.entities import html5
from pathlib import Path
from xml.sax.saxutils import escape

from translate_ddp.data.read_errors import explain_read_errors
from translate_ddp.data.readers.byte_stream import read_bytes
from translate_ddp.data.readers.encoding import BYTE_ORDER_MARKS, WINDOWS_ONLY, iconv
from translate_ddp.data.readers.lines import DAMAGED, MAX_LINE_BYTES
from translate_ddp.data.rows import Advance, Remark
from translate_ddp.errors import UserError
from translate_ddp.quantities import counted

FIRST_BYTES = BYTE_ORDER_MARKS | {b"<\0": "UTF-16LE", b"\0<": "UTF-16BE"}
DECLARED = re.compile(r"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
WIDE = re.compile("utf-?(16|32)|ucs|unicode|iso-10646", re.IGNORECASE)  # names of encodings
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
INVALID = re.compile("[\udc80-\udcff]")  # a byte that could not be decoded
UTF8 = "UTF-8-sig"  # with or without a byte order mark
PREDEFINED = ("amp", "lt", "gt", "quot", "apos")
MARKUP = re.compile(
    r"<!\[CDATA\[.*?]]>"
    # An entity of short text. Others would be read by the parser, which raises.
    r"|<!ENTITY\s+(?P<entity>[\w:.-]+)\s+"
    r"(?P<value>\"(?:[^<&%\"]|&#\w+;){0,200}\"|'(?:[^<&%']|&#\w+;){0,200}')\s*>"
    r"|&(?:#(?P<number>[0-9]{1,8}|[xX][0-9a-fA-F]{1,8});|(?P<name>[\w:.-]+);)?",
    re.DOTALL,
)


def read_xml(path: Path, end: str, advance: Advance, notices: list[str]) -> Iterator[str]:
    """The text in parts that end with `end`, such as the end tag of a record.

    Characters that XML does not allow are dropped, a & that begins no reference is text, and named
    entities are replaced; a notice has the numbers. Raises UserError if the encoding is not the
    declared one, or if a record has more than 64 MiB.
    """
    blocks = read_bytes(path, advance)
    with explain_read_errors(path, DAMAGED):
        block = next(blocks, None)
    mender, rest = _Mender(path, _encoding(path, block or b"")), ""
    while block is not None:
        rest += mender.decode(block)
        complete, found, rest = rest.rpartition(end)
        yield mender.mend(complete + found)
        if len(rest) > MAX_LINE_BYTES:
            raise UserError(f"{path} cannot be read: it has no {end} in {len(rest) >> 20} MiB.")
        with explain_read_errors(path, DAMAGED):
            block = next(blocks, None)
    yield mender.mend(rest)
    notices += mender.notices()


def _encoding(path: Path, head: bytes) -> str:
    """The encoding of a file. Raises UserError if its first line declares another or unknown."""
    actual = next((name for mark, name in FIRST_BYTES.items() if head.startswith(mark)), "")
    found = DECLARED.search(head[:1000].decode(actual or "latin-1", "replace"))
    declared = found[1] if found else actual or "UTF-8"
    if actual and not WIDE.match(declared):
        raise UserError(
            f"{path} cannot be read: it is {actual}, but its first line declares {declared}."
            f" Convert it, so that it is UTF-8 and declares that: {iconv(path, actual)}"
        )
    try:
        "".encode(declared)
    except LookupError:
        declared = ""
    if not actual and (not declared or WIDE.match(declared)):
        raise UserError(
            f"{path} cannot be read: its first line declares the encoding {found and found[1]},"
            ' which it is not in. Declare the right one there, such as encoding="UTF-8".'
        )
    return actual or (UTF8 if codecs.lookup(declared).name == "utf-8" else declared)


class _Mender:
    """Decodes and mends the parts of a file, and counts what it changed."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._path, self._encoding = path, encoding
        errors = "surrogatepass" if WIDE.match(encoding) else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._invalid = self._dropped = self._bare = 0
        self._entities: dict[str, str] = {}

    def decode(self, block: bytes) -> str:
        """The text, with U+FFFD for invalid bytes, if they are few.

        Raises UserError if they are most of what is not ASCII: then the encoding is another one.
        """
        text = self._decoder.decode(block)
        if text.isascii() or not (invalid := INVALID.findall(text)):
            return text
        self._invalid += len(invalid)
        if 2 * len(invalid) > sum(character > "\x7f" for character in text):
            advice = ""
            if self._encoding == UTF8:
                found = "".join(invalid).encode(errors="surrogateescape")
                other = "WINDOWS-1252" if WINDOWS_ONLY.search(found) else "LATIN1"
                advice = f" If it is {other}, convert it: {iconv(self._path, other)}"
            raise UserError(f"{self._path} cannot be read: it is not {self._encoding}.{advice}")
        return INVALID.sub("\ufffd", text)

    def notices(self) -> Iterator[str]:
        if self._invalid:
            found = counted(self._invalid, "byte")
            yield f"{self._path}: not {self._encoding}: {found}. Correct the texts with U+FFFD."
        if self._dropped or self._bare:
            yield Remark(
                f"{self._path}: characters that XML does not allow were dropped"
                f" ({self._dropped:,}), and & without a reference was kept ({self._bare:,})."
            )

    def mend(self, text: str) -> str:
        if "&" in text or "<!" in text:
            text = MARKUP.sub(self._mend_markup, text)
        if ILLEGAL.search(text):
            # Both halves of a character may be in two references.
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            text = ILLEGAL.sub(self._drop, text)
        return text

    def _drop(self, found: re.Match[str]) -> str:
        self._dropped += 1
        return " " if found[0] in "\v\f" else ""  # white space

    def _mend_markup(self, found: re.Match[str]) -> str:
        entity, value, number, name = found.group("entity", "value", "number", "name")
        if entity:
            self._entities.setdefault(entity, unescape(value[1:-1]))
            return ""
        if number:
            code = int(number[1:], 16) if number[0] in "xX" else int(number)
            character = chr(code) if code <= sys.maxunicode else "\0"
            return character if ILLEGAL.match(character) else f"&#{code};"
        if name in PREDEFINED or found[0][0] == "<":
            return found[0]
        text = self._entities.get(name) or html5.get(f"{name};")
        if name and text:
            return escape(text, {'"': "&quot;"})
        self._bare += 1
        return f"&amp;{found[0][1:]}"
