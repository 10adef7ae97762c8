"""Plain text and HTML in parts, translated or kept, and the words of their translations."""

import html
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from typing import NamedTuple

from translate_ddp.text import normalize, separates_words
from translate_ddp.translator import Translation

LINE_BREAK = re.compile(r"(\r\n|\r|\n)")
NOT_TRANSLATED = frozenset(("script", "style", "pre", "code", "textarea"))
WITHOUT_END = frozenset("area base br col embed hr img input link meta source track wbr".split())


@dataclass(frozen=True)
class Part:
    text: str
    is_kept: bool = False


@dataclass(frozen=True)
class Document:
    """A text whose parts follow each other."""

    parts: list[Part]
    escape: Callable[[str], str] = str  # of translations

    @property
    def texts(self) -> list[str]:
        """The parts to be translated."""
        return [part.text for part in self.parts if not part.is_kept]

    def fill(self, translations: Sequence[str]) -> str:
        """The document with a translation in the place of each text."""
        found = iter(translations)
        return "".join(
            part.text if part.is_kept else self.escape(next(found)) for part in self.parts
        )


def plain_text(text: str) -> Document:
    """Each line is a text. Line breaks and white space at the ends of lines are kept."""
    return Document([part for line in LINE_BREAK.split(text) for part in trimmed(line)])


def html_text(source: str) -> Document:
    """Each run of text between tags is a text. Tags, comments and scripts are kept.

    So are elements that HTML excludes from translation. Translations are escaped.
    """
    parser = _Runs()
    parser.feed(source)
    parser.close()
    line_starts = [0, *accumulate(len(line) for line in re.split("(?<=\n)", source))]
    starts = [line_starts[line - 1] + column for (line, column), _ in parser.found]
    # The parser passes over some broken tags without a call.
    parts = [Part(source[: starts[0] if starts else None], is_kept=True)]
    for (start, end), (_, is_text) in zip(
        pairwise([*starts, len(source)]), parser.found, strict=True
    ):
        raw = source[start:end]
        parts += trimmed(html.unescape(raw), escape) if is_text else [Part(raw, is_kept=True)]
    return Document(parts, escape)


def escape(text: str) -> str:
    return html.escape(text, quote=False)


def trimmed(text: str, escape: Callable[[str], str] = str) -> Iterator[Part]:
    """The text, and the white space around it as parts that are kept."""
    core = text.strip()
    start = text.index(core)
    yield Part(escape(text[:start]), is_kept=True)
    yield Part(core, is_kept=not core)
    yield Part(escape(text[start + len(core) :]), is_kept=True)


class _Runs(HTMLParser):
    """Finds where runs of text, tags and comments start, as line and column."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[tuple[int, int], bool]] = []  # True of a text to be translated
        self._kept = ""  # the element in which nothing is translated
        self._depth = 0  # of elements of that name

    def _add(self, is_text: bool = False) -> None:
        # A "<" that begins no tag arrives as a piece of its own.
        if not (is_text and self.found and self.found[-1][1]):
            self.found.append((self.getpos(), is_text))

    def handle_data(self, data: str) -> None:
        self._add(is_text=not self._depth)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add()
        if self._depth:
            self._depth += tag == self._kept
        elif tag not in WITHOUT_END and (tag in NOT_TRANSLATED or _is_excluded(dict(attrs))):
            self._kept, self._depth = tag, 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add()  # and opens no element

    def handle_endtag(self, tag: str) -> None:
        self._add()
        self._depth -= bool(self._depth) and tag == self._kept

    def _add_markup(self, data: str) -> None:
        self._add()

    handle_comment = handle_pi = unknown_decl = _add_markup

    def handle_decl(self, decl: str) -> None:
        self._add()


def _is_excluded(attributes: dict[str, str | None]) -> bool:
    translate, classes = (attributes.get(name) or "" for name in ("translate", "class"))
    return translate.lower() == "no" or "notranslate" in classes.split()


class Word(NamedTuple):
    """A word and the white space after it."""

    text: str
    probability: float  # of all its tokens, given the source and the words before


def words_of(translation: Translation, language: str) -> list[Word]:
    """The words of a translation; their texts joined are its text.

    In languages without spaces between words, a word is what starts with a token.
    """
    text = translation.text
    if not text:
        return []
    log_probs, starts = _by_character(translation)
    if separates_words(language):
        starts = {found.end() for found in re.finditer(r"\s+(?=\S)", text)}
    return [
        Word(text[start:end], math.exp(sum(log_probs[start:end])))
        for start, end in pairwise([*sorted({0, *starts}), len(text)])
    ]


def _by_character(translation: Translation) -> tuple[list[float], set[int]]:
    """The log-probability of the tokens that start at each character, and where tokens start.

    The text of a token may not be found in that of the translation: bytes of a character, or a mark
    that NFC composes with the letter before. Its log-probability then counts for the character at
    which the search stands.
    """
    text = translation.text
    log_probs, starts = [0.0] * len(text), set[int]()
    at = skipped = 0  # the end of the last token that was found, and characters of others since
    for sentence in translation.sentences:
        # The last token is the end of the sentence.
        for token, log_prob in zip(sentence.tokens[:-1], sentence.log_probs[:-1], strict=True):
            while at < len(text) and text[at].isspace():
                at += 1
            core = normalize(token)
            found = text.find(core, at, at + skipped + len(core)) if core else -1
            place = min(at if found < 0 else found, len(text) - 1)
            log_probs[place] += log_prob
            starts.add(place)
            if found < 0:
                skipped += len(core)
            else:
                at, skipped = found + len(core), 0
    return log_probs, starts
