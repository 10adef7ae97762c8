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
from translate_ddp.data.readers.encoding import BYTE_ORDER_MARKS, iconv
from translate_ddp.data.readers.lines import DAMAGED, TextFile
from translate_ddp.data.rows import Advance, Remark, ignore_progress
from translate_ddp.errors import UserError

FIRST_BYTES = BYTE_ORDER_MARKS | {b"<\0": "UTF-16LE", b"\0<": "UTF-16BE"}
DECLARED = re.compile(r"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
WIDE = re.compile("utf-?(16|32)|ucs|unicode|iso-10646", re.IGNORECASE)  # names of encodings
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MARKUP = re.compile(
    r"<!\[CDATA\[.*?]]>|<!--.*?-->"
    # An entity of short text. Others would be read by the parser, which raises.
    r"|<!ENTITY\s+(?P<entity>[\w:.-]+)\s+"
    r"(?P<value>\"(?:[^<&%\"]|&#\w+;){0,200}\"|'(?:[^<&%']|&#\w+;){0,200}')\s*>"
    r"|&(?!(?:amp|lt|gt|quot|apos);)(?:#(?P<number>[0-9]{1,8}|[xX][0-9a-fA-F]{1,8});|(?P<name>[\w:.-]+);)?",
    re.DOTALL,
)


def read_xml(path: Path, end: bytes, advance: Advance, notices: list[str]) -> Iterator[str]:
    """The text in parts that end with `end`, such as the end tag of a record.

    Characters that XML does not allow are dropped, a & that begins no reference is text, and named
    entities are replaced; a notice has the numbers. Raises UserError if the encoding is not the
    declared one, or if a record has more than 64 MiB.
    """
    with explain_read_errors(path, DAMAGED):
        encoding = _encoding(path, next(read_bytes(path, ignore_progress), b""))
    dropped = kept = 0
    entities: dict[str, str] = {}

    def mend(found: re.Match[str]) -> str:
        nonlocal kept
        entity, value, number, name = found.group("entity", "value", "number", "name")
        if entity:
            entities.setdefault(entity, unescape(value[1:-1]))
            return ""
        if number:
            code = int(number[1:], 16) if number[0] in "xX" else int(number)
            character = chr(code) if code <= sys.maxunicode else "\0"
            return character if ILLEGAL.match(character) else f"&#{code};"
        if found[0][0] == "<":
            return found[0]
        if name and (text := entities.get(name) or html5.get(f"{name};")):
            return escape(text, {'"': "&quot;"})
        kept += 1
        return f"&amp;{found[0][1:]}"

    file = TextFile(path, advance, notices, encoding)
    for text in file.parts(end):
        file.count += text.count("\n")
        text = MARKUP.sub(mend, text)
        if ILLEGAL.search(text):  # each half of a character may be in a reference of its own
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            text, count = ILLEGAL.subn(lambda found: " " if found[0] in "\v\f" else "", text)
            dropped += count
        yield text
    if dropped or kept:
        notices.append(
            Remark(
                f"{path}: characters that XML does not allow were dropped ({dropped:,}), and & that"
                f" begins no reference was kept as text ({kept:,})."
            )
        )


def _encoding(path: Path, head: bytes) -> str:
    """The encoding of a file. Raises UserError if its first line declares another kind."""
    actual = next((name for mark, name in FIRST_BYTES.items() if head.startswith(mark)), "")
    found = DECLARED.search(head[:1000].decode(actual or "latin-1", "replace"))
    declared = found[1] if found else actual or "UTF-8"
    if bool(actual) == bool(WIDE.match(declared)):
        return actual or codecs.lookup(declared).name
    advice = 'Write encoding="UTF-8" there.'
    if actual:
        advice = f"Convert it, so that UTF-8 is right there: {iconv(path, actual)}"
    raise UserError(
        f"{path} cannot be read: it is {actual or 'UTF-8, or another encoding of bytes'}, but its"
        f" first line declares {declared}. {advice}"
    )
