"""Files as streams: their bytes, decompressed, and their text in UTF-8 by lines.

Both report progress and heartbeats. Errors and notices name the file, the line and the way out.
"""

import codecs
import gzip
import lzma
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

from translate_ddp.data.rows import Advance, Columns, Reading, explain_read_errors, ignore_progress
from translate_ddp.errors import UserError, cleanup
from translate_ddp.runtime.files import read_chunks
from translate_ddp.runtime.launch import read_launch
from translate_ddp.runtime.long_calls import heartbeat
from translate_ddp.text import base_language, has_letter

BLOCK_BYTES = 2**20
HEAD_BYTES = 2**16
MAX_LINE_BYTES = 2**26  # longer ones are no sentences, and would fill the memory
INVALID_SHARE = 0.01  # with a larger share of lines that are not UTF-8, the file is not read
ENOUGH_LINES = 100_000  # after which the share of the lines read so far counts
DAMAGED = "It may be damaged or incomplete: copy it again, or decompress it."


def _open_zstandard(file: IO[bytes]) -> Any:
    import pyarrow as pa  # here: it takes 0.1 s, and most corpora do not need it

    return pa.CompressedInputStream(file, "zstd")  # with a window of at most 128 MiB


class Compression(NamedTuple):
    """A format of compressed files."""

    program: str
    first_bytes: bytes
    open: Callable[[IO[bytes]], Any]


COMPRESSIONS = {
    ".gz": Compression("gzip", b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    ".xz": Compression("xz", b"\xfd7zXZ\0", lzma.open),
    ".zst": Compression("zstd", b"\x28\xb5\x2f\xfd", _open_zstandard),
}
MARKUP = (".tmx", ".sgm", ".sgml")  # endings of what is read
CONVERT = "save it as text in UTF-8, one text per line, or as CSV with a column for each language"
# The name of a file that Office or LibreOffice keeps beside an open document.
LOCK = re.compile(r"(?:~\$|\.~lock\.)(.+?)#?")
AS_SPREADSHEET = "save a spreadsheet as .xlsx or .ods"
# What the content begins with -> what it is, and what to do.
DOCUMENTS = {
    rb"version https://git-lfs|(\.\./)*\.git/annex/|/annex/objects/": "a pointer to what"
    " Git LFS or git-annex keeps elsewhere: run git lfs pull, or git annex get, in its folder",
    rb"PK\x03\x04": f"a zip archive, as .docx and .xlsx are: {AS_SPREADSHEET}, unpack it, or"
    f" {CONVERT}",
    rb"BZh\d1AY&SY|7z\xbc\xaf|Rar!\x1a|.{257}ustar": "an archive: unpack it",
    rb"%PDF-|\{\\rtf": f"a document (PDF or RTF): {CONVERT}",
    rb"\xd0\xcf\x11\xe0": f"an old .xls or .doc, or has a password: {AS_SPREADSHEET}, without a"
    f" password, or {CONVERT}",
    rb"WEBVTT|\[Script Info\]|\s*(\d+\s*\n)?\[?(\d+:)?\d+:\d\d[,.]\d+( *-->|,\d)"
    rb"|\s*[\[{]\d+[\]}][\[{]\d*[\]}]": f"subtitles: {CONVERT}",
    rb"SQLite format 3": "a database, as of a translation memory: export it as .tmx",
    rb'(#[^\n]*\n|\s)*msg(id|ctxt) "': f"a catalogue of gettext: {CONVERT}",
    rb"\s*(<[?!][^>]*>\s*)*<tmx\b": "a translation memory: rename it to end in .tmx",
    rb"\s*(<[?!][^>]*>\s*)*<(src|ref|tst)set\b": "an SGML test set: rename it to end in .sgm",
    # In a first line without text, any element is the root of a document.
    rb"\s*<(\?xml\s|!doctype\s|html\b|xliff\b|!--|[a-z][^<>]*>[ \t\r]*\n\s*<[a-z!])": "XML, XLIFF"
    f" or HTML: {CONVERT}",
}
# Files whose texts have keys, times or code, and how their lines begin.
KEYED = """arb ass cfg conf env ftl ini js lrc php plist po pot properties resx smi srt ssa strings
    sub tex toml ttml vtt xhtml xlf xml yaml yml""".split()
KEY = re.compile(
    r"""(?x)\s*(?:-\s+)?(?:(?:[\w.-]{2,}|"[^"]+"|'[^']+')\s*=(?!=)  # greeting = Good morning
        |["'][^"']+["']\s*:\s                                   # "greeting": "Good morning"
        |[a-z][\w-]*(?:\.[\w-]+)+:\s                            # menu.greeting: Good morning
        |[a-z][\w-]*:\s+["'|>&{[]                               # greeting: "Good morning"
        |\[\d+:\d\d[.:]\d+)                                     # [00:12.00]Good morning
        |\s+(?:-\s+)?[a-z][\w-]*:(?:\s|\Z)                      # indented greeting: Good morning
    """
)
COMMENT = re.compile(r"\s*(?:[#;!]|//|/\*)")
TRIED_LINES = 1000
BYTE_ORDER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
SPACE = re.compile(r"[ \t\r\n]")
TO_UTF8 = "convert it: iconv -f {} -t UTF-8 FILE > NEW"
# The encoding in which Windows programs, such as Excel, write a language; others: WINDOWS-1252.
ENCODINGS = {
    code: entry.split()[0]
    for entry in """
    WINDOWS-1250 bs cs hr hu pl ro sk sl sr_Latn, WINDOWS-1251 be bg kk ky mk mn ru sr tg uk,
    WINDOWS-1253 el, WINDOWS-1254 az tr, WINDOWS-1255 he yi, WINDOWS-1256 ar fa ur,
    WINDOWS-1257 et lt lv, WINDOWS-1258 vi, CP874 th, CP932 ja, CP949 ko, GB18030 zh,
    CP950 zh_TW zh_HK zh_Hant
    """.split(",")
    for code in entry.split()[1:]
}
MIXED = 0.5  # valid characters outside ASCII per invalid byte; a wrong encoding has at most 0.2


def compression_of(path: Path) -> str:
    """The ending of a compressed file, such as .gz; '' if it is not compressed."""
    return path.suffix if path.suffix in COMPRESSIONS else ""


def without_compression(path: Path) -> Path:
    return path.with_suffix("") if compression_of(path) else path


def read_bytes(path: Path, advance: Advance) -> Iterator[bytes]:
    """The content, decompressed by the ending of the name, up to 1 MiB at a time.

    `advance` receives the numbers of bytes of the file, compressed. Raises UserError if its name
    and its first bytes differ in whether it is compressed, and what the libraries raise.
    """
    with path.open("rb") as raw:
        head, done = raw.peek(HEAD_BYTES), 0
        is_compressed = _check_compression(path, head)
        with COMPRESSIONS[path.suffix].open(raw) if is_compressed else raw as file:
            while block := file.read(BLOCK_BYTES):
                if not done:
                    check_content(path, block)
                heartbeat()
                position = raw.tell()
                advance(position - done)
                done = position
                yield block


def first_bytes(path: Path) -> bytes:
    """Up to 1 MiB of the content. Raises UserError if it cannot be read."""
    with explain_read_errors(path, DAMAGED):
        return next(read_bytes(path, ignore_progress), b"")


def _check_compression(path: Path, head: bytes) -> bool:
    """Whether the file is compressed. Raises UserError if its name differs from its content."""
    ending = compression_of(path)
    actual = next((e for e, each in COMPRESSIONS.items() if head.startswith(each.first_bytes)), "")
    if ending and ending != actual:
        check_content(path, head)
        raise UserError(
            f"{path} cannot be read: it is not compressed by {COMPRESSIONS[ending].program}. If it"
            f" is text, rename it to {without_compression(path).name}."
        )
    if actual and not ending:
        program = COMPRESSIONS[actual].program
        raise UserError(f"{path} is compressed by {program}: rename it to {path.name}{actual}.")
    return bool(ending)


def check_content(path: Path, content: bytes) -> None:
    """Raise UserError if it is neither text nor in the format of its name."""
    if lock := LOCK.fullmatch(path.name):
        raise UserError(
            f"{path} is no corpus: a program keeps it while {lock[1]} is open. Pass {lock[1]}."
        )
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
    """The path, or a temporary copy's path for a pipe or a device; - is standard input.

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
    for ending, each in COMPRESSIONS.items():
        if head.startswith(each.first_bytes) and not compression_of(copy):
            return copy.rename(f"{copy}{ending}")  # the user has chosen no name
    return copy


def encoding_of(head: bytes) -> str:
    """UTF-16, UTF-16LE, UTF-16BE or UTF-32 of a file that starts with these bytes; else ''."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding
    for encoding in ("UTF-16LE", "UTF-16BE"):
        # Spaces and line breaks are in text of every script, and in no other encoding.
        text = head[:HEAD_BYTES].decode(encoding, "replace")
        if len(SPACE.findall(text)) > 2 + len(text) // 100:
            return encoding
    return ""


class TextFile:
    r"""A text file in UTF-8, whose lines end with \n or \r\n, or in a file without \n with \r.

    `str.splitlines` would also split at U+2028 and others, and shift one side of parallel text. So
    would a lone \r, which crawled text has within lines.
    Invalid bytes are read as U+FFFD; lines with such bytes are counted, for a notice at the end.
    """

    def __init__(self, reading: Reading, encoding: str = "") -> None:
        """`encoding`: the one that the file names, if it is not UTF-8."""
        self.path, self.count = reading.path, 0  # lines of all blocks so far
        self._reading, self._encoding = reading, encoding
        self._ends_with_cr = False  # known from the first block on
        self._invalid: dict[int, None] = {}  # the numbers of lines that are not UTF-8, in order
        self._is_mixed = False  # characters outside ASCII are UTF-8

    def blocks(self) -> Iterator[list[str]]:
        """The lines without their ends, about 1 MiB at a time.

        Raises UserError, with the line, if the file cannot be read, if a line has more than 64 MiB,
        or if more than 1% of the lines are not UTF-8.
        """
        for text in self._texts(b"\n"):
            lines = self._normalize_ends(text).split("\n")
            if not lines[-1]:
                lines.pop()
            self.count += len(lines)
            yield lines
        self._report_invalid_lines(is_end=True)

    def parts(self, end: bytes) -> Iterator[str]:
        """The text in parts of about 1 MiB that end with `end`. Raises as `blocks`."""
        for text in self._texts(end):
            self.count += text.count("\n")
            yield text
        self._report_invalid_lines(is_end=True)

    def _texts(self, end: bytes) -> Iterator[str]:
        for block in self._whole(end):
            yield self._decode(block)
            if self.count > ENOUGH_LINES:
                self._report_invalid_lines()

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
        blocks = read_bytes(self.path, self._reading.advance)
        if self._encoding:
            texts = codecs.iterdecode(blocks, self._encoding, "replace")
            blocks = (text.encode() for text in texts)
        is_first = True
        while True:
            place = f"{self.path} after line {self.count:,}" if self.count else self.path
            with explain_read_errors(place, DAMAGED):
                block = next(blocks, None)
            if block is None:
                return
            if is_first and (encoding := encoding_of(block)):
                raise UserError(
                    f"{self.path} cannot be read: line 1 is not UTF-8, but {encoding}:"
                    f" {TO_UTF8.format(encoding)}"
                )
            if is_first:
                block = block.removeprefix(codecs.BOM_UTF8)
                self._ends_with_cr = b"\n" not in block
            is_first = False
            yield block

    def _decode(self, block: bytes) -> str:
        try:
            return block.decode()
        except UnicodeDecodeError:
            marked = self._normalize_ends(block.decode(errors="surrogateescape"))
            numbered = enumerate(marked.split("\n"), self.count + 1)
            self._invalid |= {n: None for n, line in numbered if re.search("[\udc80-\udcff]", line)}
            invalid = len(re.findall("[\udc80-\udcff]", marked))
            others = len(re.findall("[^\0-\x7f\udc80-\udcff]", marked))
            self._is_mixed = self._is_mixed or others > MIXED * invalid
            return block.decode(errors="replace")

    def _normalize_ends(self, text: str) -> str:
        text = text.replace("\r\n", "\n")
        return text.replace("\r", "\n") if self._ends_with_cr else text

    def _report_invalid_lines(self, is_end: bool = False) -> None:
        """Raise UserError if too many lines are not UTF-8; add a notice of a few at the end."""
        if not self._invalid:
            return
        codes = [code.replace("-", "_") for code in self._reading.wanted.languages]
        forms = chain.from_iterable((code, base_language(code)) for code in codes)
        encoding = next((ENCODINGS[form] for form in forms if form in ENCODINGS), "WINDOWS-1252")
        advice = f"If it is {encoding}, {TO_UTF8.format(encoding)}"
        if self._is_mixed:
            advice = "Other text in it is: correct these lines, do not convert the file."
        number, first = len(self._invalid), next(iter(self._invalid))
        verb = "is" if number == 1 else "are"
        found = (
            f"{number:,} of {self.count:,} lines {verb} not UTF-8, first line {first:,}. {advice}"
        )
        if number > max(1, INVALID_SHARE * self.count):
            raise UserError(f"{self.path} cannot be read: {found}")
        if is_end:
            self._reading.notices.append(f"{self.path}: {found}")


def read_lines(reading: Reading) -> Iterator[Columns]:
    """One column: the lines of a file, in whatever language.

    Raises UserError if keys, times or code are beside the texts, which would be translated too: by
    the name of the file, or in half of its first lines that are no comments.
    """
    ending = without_compression(reading.path).name.lower().rpartition(".")[2]  # also of .env
    lines = first_bytes(reading.path).decode(errors="replace").splitlines()[:TRIED_LINES]
    tried = [line for line in lines if has_letter(line) and not COMMENT.match(line)]
    is_keyed = sum(KEY.match(line) is not None for line in tried) >= max(2, len(tried) / 2)
    if is_keyed or (ending in KEYED and ending not in reading.wanted.languages):
        raise UserError(f"{reading.path} cannot be read: it has keys, times or code: {CONVERT}.")
    return ([lines] for lines in TextFile(reading).blocks())
