"""Texts in markup: translation memories (TMX 1.4) and test sets of WMT (SGML), as streams.

They are read by patterns, not by a parser of XML, which rejects what programs write (a plain &,
control characters) and which entities of a file could make expand to any size: these are an error.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape, unescape
from itertools import chain
from pathlib import Path

from translate_ddp.data.languages import written
from translate_ddp.data.readers.streams import (
    DAMAGED,
    MAX_LINE_BYTES,
    TextFile,
    encoding_of,
    first_bytes,
)
from translate_ddp.data.rows import Columns, Reading, explain_read_errors, list_names
from translate_ddp.errors import NoSuchPair, UserError

FLAGS = re.IGNORECASE | re.DOTALL
DECLARED = re.compile(r"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
WIDE = re.compile("utf-?(16|32)|ucs|unicode|iso-10646", re.IGNORECASE)  # names of encodings
# Sections whose markup is text, and comments. Either may hold the start of the other.
LITERAL = re.compile(r"<!\[CDATA\[(.*?)]]>|<!--.*?-->", re.DOTALL)
OPEN_LITERAL = re.compile(r"<!(?:\[CDATA\[|--)")
ATTRIBUTES = r"""(?:[^<>"']|"[^<"]*"|'[^<']*')*"""  # their values may have a >
SEGMENT = re.compile(rf"<seg\b{ATTRIBUTES}?(?:/>|>(.*?)</seg\s*>)", FLAGS)
UNIT = re.compile(rf"<tu\b{ATTRIBUTES}>(.*?)</tu\s*>", FLAGS)
VARIANT = re.compile(rf"<tuv\b({ATTRIBUTES})>(.*?)</tuv\s*>", FLAGS)
LANGUAGE = re.compile(r"\b(?:xml:)?lang\s*=\s*[\"']([^\"']*)", re.IGNORECASE)
# Elements whose content is formatting code of another program, not text; the inner ones first.
CODES = re.compile(rf"<(bpt|ept|it|ph|ut)\b{ATTRIBUTES}?(?:/>|>(?:(?!<\1\b).)*?</\1\s*>)", FLAGS)
# Other text in angle brackets, such as an address, stays text.
TAG = re.compile(
    r"""</?[a-z][\w:-]*(?:\s+[\w:.-]+\s*=\s*(?:"[^<"]*"|'[^<']*'))*\s*/?>""", re.IGNORECASE
)
REFERENCE = re.compile("&(?:#[0-9]{1,8}|#x[0-9a-f]{1,8}|[a-z][a-z0-9]*);", re.IGNORECASE)
Unit = dict[str, str]  # language as written -> text


def read_sgm(reading: Reading) -> Iterator[Columns]:
    """One column: the segments of a test set of WMT in SGML, in their order.

    Raises UserError if a segment is not closed, or if there is none.
    """
    is_empty = True
    for segments in _elements(reading, "seg", SEGMENT):
        is_empty = is_empty and not segments
        yield [[_text(segment).strip() for segment in segments]]
    if is_empty:
        raise UserError(f"{reading.path} cannot be read: it has no segments, <seg>...</seg>.")


def read_tmx(reading: Reading) -> Iterator[Columns]:
    """The texts of each translation unit in the wanted languages, None where it has none.

    `en` is also any region of it, such as en-US. Text inside inline elements is kept; formatting
    codes are not. Raises UserError if the file cannot be read, or if no unit has all languages.
    """
    wanted = reading.wanted.languages
    languages: Counter[str] = Counter()
    is_found = False

    @cache  # files have few combinations of languages
    def choose(held: tuple[str, ...]) -> list[str | None]:
        return [find_language(language, held) for language in wanted]

    for elements in _elements(reading, "tu", UNIT, root="tmx"):
        units = list(map(_unit, elements))
        chosen = [choose(tuple(unit)) for unit in units]
        is_found = is_found or any(None not in codes for codes in chosen)
        if not is_found:
            languages.update(code for unit in units for code in unit)
        yield [
            [unit.get(codes[side] or "") for unit, codes in zip(units, chosen, strict=True)]
            for side in range(len(wanted))
        ]
    if not is_found:
        found = list_names(f"{code} ({count:,})" for code, count in languages.most_common())
        raise NoSuchPair(
            f"{reading.path} has no translation unit in {' and '.join(wanted)}. Its languages,"
            f" with the numbers of their texts: {found}."
        )


def find_language(wanted: str, held: Sequence[str]) -> str | None:
    """The first of the codes that is the wanted language, or else a region or script of it."""
    codes = [_plain(code) for code in written(wanted)]
    exact = (code for code in held if _plain(code) in codes)
    part = (code for code in held if _plain(code).startswith(tuple(f"{c}-" for c in codes)))
    return next(exact, None) or next(part, None)


def _plain(code: str) -> str:
    return code.lower().replace("_", "-").replace("@", "-")


def _elements(
    reading: Reading, name: str, element: re.Pattern[str], root: str = ""
) -> Iterator[list[str]]:
    """The contents of the elements of this name, in batches.

    Raises UserError if one of them, or the root, is not closed.
    """
    path, start = reading.path, re.compile(rf"<{name}\b", re.IGNORECASE)
    file, rest, is_complete = TextFile(reading, _encoding(path)), "", False
    for part in chain(file.parts(b">"), [None]):
        text = LITERAL.sub(_escaped, rest + (part or "").replace("\r\n", "\n"))
        if "<!ENTITY" in text:
            raise UserError(
                f"{path} cannot be read: it defines entities of its own. Write their texts out."
            )
        is_complete = is_complete or f"</{root}" in text
        opened = OPEN_LITERAL.search(text)
        found = list(element.finditer(text, 0, opened.start() if opened else len(text)))
        end = found[-1].end() if found else 0
        rest = text[end:] if opened or start.search(text, end) else ""
        is_open = len(start.findall(text, 0, end)) > len(found) or len(rest) > MAX_LINE_BYTES
        if is_open or (part is None and (rest or not is_complete)):
            tag = f"<{name}>" if is_open or rest else f"<{root}>"
            raise UserError(
                f"{path} cannot be read: before line {file.count + 1:,}, a {tag} is not closed."
                " Correct it, or copy an incomplete file again."
            )
        yield [each[1] or "" for each in found]


def _unit(content: str) -> Unit:
    """The texts of a translation unit, of each language the first."""
    texts: Unit = {}
    for attributes, variant in VARIANT.findall(content):
        language, segment = LANGUAGE.search(attributes), SEGMENT.search(variant)
        if language and segment:
            text, codes = segment[1] or "", 1
            while codes:
                text, codes = CODES.subn("", text)
            texts.setdefault(language[1], _text(text))
    return texts


def _text(markup: str) -> str:
    """Without tags, and with characters in the place of references; other & are text."""
    return REFERENCE.sub(lambda found: unescape(found[0]), TAG.sub("", markup))


def _escaped(found: re.Match[str]) -> str:
    return escape(found[1], quote=False) if found[1] else ""


def _encoding(path: Path) -> str:
    """The encoding of a file that its first bytes or its first line show; '' for UTF-8."""
    head = first_bytes(path)
    if actual := encoding_of(head):
        return actual
    found = DECLARED.search(head[:1000].decode("latin-1"))
    with explain_read_errors(path, DAMAGED):
        declared = "utf-8" if found is None or WIDE.match(found[1]) else found[1]
        name = codecs.lookup(declared).name
    return "" if name in ("utf-8", "ascii") else name
