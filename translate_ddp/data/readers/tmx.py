"""Translation memories (TMX 1.4), as streams."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl

from translate_ddp.data.languages import written
from translate_ddp.data.read_errors import explain_read_errors, list_names
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.xml_text import read_xml
from translate_ddp.data.rows import Advance, Columns
from translate_ddp.errors import UserError

# Elements whose content is formatting code of another program, not text.
CODES = frozenset(("bpt", "ept", "it", "ph", "ut"))
ENTITIES = "It may define entities of short text only: remove the others."
Unit = dict[str, str]  # language as written -> text


def read_tmx(path: Path, wanted: Wanted, advance: Advance, notices: list[str]) -> Iterator[Columns]:
    """The texts of each translation unit in the wanted languages, None where it has none.

    `en` is also any region of it, such as en-US. Text inside inline elements is kept; formatting
    codes are not. Raises UserError if the file cannot be read, or if no unit has all languages.
    """
    languages: Counter[str] = Counter()
    is_found = False

    @cache  # files have few combinations of languages
    def choose(held: tuple[str, ...]) -> list[str | None]:
        return [find_language(language, held) for language in wanted.languages]

    for units in _units(path, advance, notices):
        chosen = [choose(tuple(unit)) for unit in units]
        is_found = is_found or any(None not in codes for codes in chosen)
        if not is_found:
            languages.update(code for unit in units for code in unit)
        yield [
            [unit.get(codes[side] or "") for unit, codes in zip(units, chosen, strict=True)]
            for side in range(len(wanted.languages))
        ]
    if not is_found:
        found = list_names(f"{code} ({count:,})" for code, count in languages.most_common())
        raise UserError(
            f"{path} has no translation unit in {' and '.join(wanted.languages)}. Its languages,"
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


def _units(path: Path, advance: Advance, notices: list[str]) -> Iterator[list[Unit]]:
    from defusedxml.expatreader import DefusedExpatParser

    # Entities that a file defines could expand to any size: they raise. The document type, which
    # most files name, is not opened.
    parser = DefusedExpatParser(forbid_external=False)
    handler = _Handler()
    parser.setContentHandler(handler)
    for text in chain(read_xml(path, b"</tu>", advance, notices), [None]):
        with explain_read_errors(path, ENTITIES):
            try:
                parser.feed(text) if text is not None else parser.close()
            except SAXParseException as error:
                raise UserError(
                    f"{path} cannot be read: line {error.getLineNumber():,} is not XML:"
                    f" {error.getMessage()}. Correct it, or copy an incomplete file again."
                ) from error
        yield handler.take()


class _Handler(ContentHandler):
    """Collects the translation units."""

    def __init__(self) -> None:
        super().__init__()
        self._units: list[Unit] = []
        self._unit: Unit = {}
        self._language = ""
        self._text: list[str] | None = None  # of the open segment
        self._codes = 0  # open elements of formatting codes

    def take(self) -> list[Unit]:
        """The units since the last call."""
        units, self._units = self._units, []
        return units

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._language = attrs.get("xml:lang") or attrs.get("lang") or ""
        elif name == "seg":
            self._text, self._codes = [], 0
        elif name in CODES:
            self._codes += 1

    def endElement(self, name: str) -> None:
        if name == "tu":
            self._units.append(self._unit)
        elif name == "seg" and self._text is not None:
            if self._language:
                self._unit.setdefault(self._language, "".join(self._text))
            self._text = None
        elif name in CODES:
            self._codes -= 1

    def characters(self, content: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(content)
