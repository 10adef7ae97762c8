"""Spans that a translation holds unchanged: what `span_rules.py` finds, and what a user names.

Spans are replaced and restored here only. A text is translated with one character, MARK, in
the place of each span; how a model learns to place them is in `data/span_pairs.py`. Inline elements
of HTML are pairs of spans, around text that is translated.
"""

import html
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html.parser import HTMLParser
from itertools import accumulate, chain, groupby, islice, pairwise
from typing import Literal, NamedTuple

from translate_ddp.errors import UserError
from translate_ddp.span_rules import EMOJI_SEQUENCE, UNSPACED_CHAR, find_spans, merged
from translate_ddp.text import normalize

MARK = "\ufdd0"  # Unicode keeps this character for use within a program
MARK_RUN = re.compile(f"{MARK}+")  # spans without text between them are one for a model
SPAN_LETTER = "\u01c0"  # a letter without case: what a span is for the rules of sentences
LINE_BREAKS = re.compile("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
# As HTML and programs write them, too: \n as two characters, but in no path and no command of TeX.
WRITTEN_BREAKS = re.compile(
    r"(?<!\w)[A-Za-z]:\\\S*(?: \S+\\\S*)*|(?<!\S)(?=\S*\\(?![nNrt])\w)\S+"
    rf"|({LINE_BREAKS.pattern}|<[bB][rR]\b[^<>]*>"
    r"|(?<!\\)(?:\\r)?\\[nN](?![a-z])|(?<=[^\s\\({$])(?:\\r)?\\[nN])"
)
# Markdown's front matter, and fenced code, which without another fence goes on to the end.
CODE = (
    r"(?ms)(\A(?:---|\+\+\+)[ \t\r]*\n.*?^(?:---|\+\+\+|\.\.\.)[ \t\r]*$"
    r"|^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(`{3,}+|~{3,}+)[^`\n]*\n.*?(?:^[ \t>]*\2[`~]*|\Z))"
)
# The lines of a paragraph or an item of a list in Markdown; no headings, tables, links, HTML, code,
# or blocks and attributes of other dialects.
ITEM = r"(?:[-+*]|\d+[.)])\s"
NO_TEXT = r"[#|<:]|!!!|===|\{[:%]|\*?\[[^\]\n]*\]:|(?:[-=*_+][ \t]*)+\r?$"
PARAGRAPH = re.compile(
    r"(?m)^[ \t]*<(?P<name>pre|script|style|textarea)\b(?s:.*?)(?:</(?P=name)>|\Z)"
    r"|^[ \t]*<[^\n]*(?:\n[^\n]*\S[^\n]*)*"
    rf"|^(?!(?: {{4}}|\t)[ \t]*+(?!{ITEM}))[ \t>]*+(?!{NO_TEXT})[^\s|][^|\n]*$"
    rf"(?P<rest>(?:\n[ \t]*+(?!{NO_TEXT}|{ITEM}|>)[^\s|][^|\n]*$)+)"
)
SOFT_BREAK = re.compile(r"(?<=[^\s\\]) ?\r?\n[ \t]*")
TABLE_ROW = re.compile(r"[ \t]*\|(?:[^|\n]*\|){2,}\s*")
Markup = Literal["text", "markdown", "html"]
Find = Callable[[str], list[tuple[int, int]]]  # where spans start and end in a text, in order
Escape = Callable[[str], str]

# Elements within a sentence, as HTML has them, and others.
INLINE = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font i img input ins kbd label mark q s samp"
    " script small span strike strong sub sup time tt u var wbr".split()
)
NOT_TRANSLATED = frozenset("script style pre code textarea".split())
WITHOUT_END = frozenset("area base br col embed hr img input link meta source track wbr".split())
HTML_ENTITY = re.compile(r"(&(?:[A-Za-z]\w{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});)")
LONG_ENTITY = re.compile(r"&(?=#\d{8})")  # is none: Python reads no number of 4,301 digits
# Also <color=red> and [b] of other markup.
ELEMENT = re.compile(
    r"<(/?)([A-Za-z][^\s/>=.]*)(?:\"[^\"]*\"|'[^']*'|[^\"'>])*?(/?)>|\[(/?)([a-z]+)(?:=[^\]]*)?()\]"
)
ALONE = 1  # the number of tags that are no half of an element, of comments and white space


class Span(NamedTuple):
    source: str
    target: str  # in its place in the translation
    element: int = 0  # a number over ALONE where an element starts, minus it where it ends


class Line(NamedTuple):
    """A line of a text, or a sentence of it: normalized, with a MARK for each span."""

    text: str
    spans: tuple[Span, ...] = ()

    def restored(self, escape: Escape = str) -> str:
        """The source, as it was, except for white space."""
        return restore(self.text, [span.source for span in self.spans], escape)

    def kept(self, escape: Escape = str) -> str:
        """The same with the terms of a glossary in the target language."""
        return restore(self.text, [span.target for span in self.spans], escape)

    def runs(self) -> list[tuple[Span, ...]]:
        """The spans of each run of marks, for which a model has one token."""
        spans = iter(self.spans)
        return [tuple(islice(spans, len(run))) for run in MARK_RUN.findall(self.text)]


def restore(text: str, spans: Iterable[str], escape: Escape = str) -> str:
    """The text with the spans in the places of its marks; only the text between is escaped."""
    return "".join(interleaved(text, spans, escape))


def interleaved(text: str, spans: Iterable[str], escape: Escape = str) -> list[str]:
    """What `restore` joins: texts and spans by turns."""
    first, *others = map(escape, text.split(MARK))
    return [first, *chain.from_iterable(zip(spans, others, strict=True))]


def keeps_elements(spans: Sequence[Span]) -> bool:
    """Whether elements are nested, also where only the start or the end is here."""
    numbers = [span.element for span in spans]
    starts = {number for number in numbers if number > ALONE}
    opened = sorted(-number for number in numbers if number < 0 and -number not in starts)
    for number in numbers:
        if number > ALONE:
            opened.append(number)
        elif number < 0 and (not opened or opened.pop() != -number):
            return False
    return opened == sorted(opened)  # the outer one starts first


class Protection:
    """What to protect: what `find_spans` finds, regular expressions, the terms of a glossary."""

    def __init__(
        self, protect: Sequence[str] = (), glossary: Mapping[str, str] | None = None
    ) -> None:
        """Raises UserError if an expression or a term cannot be used."""
        self._protect = protect
        self._wanted = [_wanted(expression) for expression in protect]
        self.glossary = Glossary(glossary or {})
        self.identity = [*protect, self.glossary.terms]  # on which translations depend

    def with_terms(self, terms: Mapping[str, str]) -> "Protection":
        """With more terms, which come before others of the same source."""
        return Protection(self._protect, {**self.glossary.terms, **terms}) if terms else self

    def of_targets(self) -> "Protection":
        """What to protect in a translation that is translated further: the glossary's as well."""
        found = Protection(self._protect)
        found._wanted.append(Glossary({each: each for each in self.glossary.terms.values()}).find)
        return found

    def line(self, parts: Iterable[str | Span], escape: Escape = str) -> Line:
        """The line of texts and of spans that are known already."""
        text, spans = "", list[Span]()
        for part in parts:
            for each in [part] if isinstance(part, Span) else self._divided(part, escape):
                text += MARK if isinstance(each, Span) else each
                spans += [each] if isinstance(each, Span) else []
        return Line(text, _paired(spans)) if spans else Line(text.strip())

    def _divided(self, text: str, escape: Escape) -> Iterator[str | Span]:
        """The text, normalized, and its spans. Those that overlap are one, as is a term in a link.

        A whole span that is a term is translated, by the glossary.
        """
        text = text.replace(MARK, "\ufffd")
        own = [*find_spans(text), *chain.from_iterable(find(text) for find in self._wanted)]
        text, places = _normalized(text, merged(own))
        for part, is_span in _parts(text, merged([*places, *self.glossary.find(text)])):
            yield Span(escape(part), escape(self.glossary.target(part))) if is_span else part


def _wanted(expression: str) -> Find:
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise UserError(f"--protect {expression!r} is no regular expression: {error}.") from error
    if pattern.search(""):
        raise UserError(f"--protect {expression!r} matches an empty text: write what it must have.")
    return lambda text: [each.span() for each in pattern.finditer(text) if each[0]]


def _parts(text: str, places: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """The parts of a text that are not empty, and whether each is one of the places."""
    ends = [0, *chain.from_iterable(places), len(text)]
    for number, (start, end) in enumerate(pairwise(ends)):
        if start < end:
            yield text[start:end], number % 2 == 1


def _normalized(text: str, places: Sequence[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """The text, normalized except in these places, and where they are in it."""
    found, moved = "", list[tuple[int, int]]()
    for part, is_span in _parts(text, places):
        start = len(found)
        found += part if is_span else _with_spaces(part)
        moved += [(start, len(found))] if is_span else []
    return found, moved


def _with_spaces(text: str) -> str:
    """The text, normalized, with a space where it had white space at its ends."""
    core = normalize(text)
    if not core:
        return " " * any(map(str.isspace, text))
    return " " * text[0].isspace() + core + " " * text[-1].isspace()


def _paired(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The spans with the numbers of elements, of which outer ones have lower numbers.

    The other half of a tag may be in another line. Those that cross an element here stand alone.
    """
    numbers, opened, count = list[int](), list[tuple[str, int]](), Counter[str]()
    for at, span in enumerate(spans):
        tag = ELEMENT.fullmatch(span.source)
        is_outside = tag or span.source.startswith("<!--") or is_space(span.source)
        number = ALONE if is_outside else 0
        end, name, empty = [tag[n] or tag[n + 3] or "" for n in (1, 2, 3)] if tag else ("", "", "/")
        name = name.lower()
        if not (end or empty or name in WITHOUT_END):
            number = len(spans) + ALONE + 1 + at
            opened.append((name, at))
            count[name] += 1
        elif end and not opened:
            number = at - len(spans) - ALONE
        elif end and count[name]:
            while (start := opened.pop())[0] != name:
                numbers[start[1]] = ALONE
                count[start[0]] -= 1
            number = -numbers[start[1]]
            count[name] -= 1
        numbers.append(number)
    return tuple(span._replace(element=n) for span, n in zip(spans, numbers, strict=True))


def is_space(text: str) -> bool:
    """Whether it is an entity of white space, such as &nbsp;, or an invisible character."""
    return text[:1] == "&" and not normalize(_unescape(text))


def _unescape(text: str) -> str:
    return html.unescape(LONG_ENTITY.sub("&amp;", text))


def sentences_of_line(
    line: Line, find: Callable[[str], list[slice]], escape: Escape = str
) -> list[str | Line]:
    """The sentences that `find` finds in a line, and what stands between them as texts.

    Tags do not count for the rules of sentences; emoji are themselves, other spans words. A
    sentence has the tags of the elements of which it has a part only.
    """
    text, marks = line.text, [mark.start() for mark in re.finditer(MARK, line.text)]
    spans = dict(zip(marks, line.spans, strict=True))
    elements = {
        at: span.element for at, span in spans.items() if span.element and not is_space(span.source)
    }
    places = [at for at in range(len(text)) if at not in elements]
    plain = "".join(_word(spans[at]) if at in spans else text[at] for at in places)
    at_number = {number: at for at, number in elements.items()}

    def partner(at: int) -> int:
        return at_number.get(-elements[at], -1) if at in elements else -1

    def part_of(start: int, end: int) -> Line:
        first, after = bisect_left(marks, start), bisect_left(marks, end)
        return Line(text[start:end], line.spans[first:after])

    found, last = list[str | Line](), 0
    for part in find(plain):
        start, end = places[part.start], places[part.stop - 1] + 1
        while start <= partner(start - 1) < end:
            start -= 1
        while start <= partner(end) < end:
            end += 1
        found += [part_of(last, start).kept(escape), part_of(start, end)]
        last = end
    return [*found, part_of(last, len(text)).kept(escape)]


def _word(span: Span) -> str:
    """What a span is for the rules of sentences."""
    if is_space(span.source):
        return " "
    return "\u263a" if re.match(EMOJI_SEQUENCE, span.source) else SPAN_LETTER


class Glossary:
    """Terms and what they are in the translation.

    A term in lower case is found in any case, another one as it is written. Terms are whole words,
    the longest first; in scripts without spaces between words, and in Korean, any part of a text.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        self.terms = terms_of(terms)
        self._lengths = sorted({*map(len, self.terms)}, reverse=True)

    def find(self, text: str) -> list[tuple[int, int]]:
        found, last = list[tuple[int, int]](), 0
        for at in range(len(text) if self.terms else 0):
            if at < last or is_within_word(text, at):
                continue
            for end in (at + length for length in self._lengths):
                source = text[at:end]
                is_term = source in self.terms or source.lower() in self.terms
                if is_term and not is_within_word(text, end):
                    found.append((at, end))
                    last = end
                    break
        return found

    def target(self, source: str) -> str:
        """The translation of a term, with its capital; another text as it is."""
        if found := self.terms.get(source):
            return found
        found = self.terms.get(source.lower(), source)
        return found[0].upper() + found[1:] if source[0].isupper() else found


def is_within_word(text: str, at: int) -> bool:
    """Whether the characters before and after this place are of one word."""
    around = text[at - 1 : at + 1] if at else ""
    return len(around) == 2 and all(
        unicodedata.category(each)[0] in "LNM" and not UNSPACED_CHAR.match(each) for each in around
    )


def terms_of(glossary: object) -> dict[str, str]:
    """Terms and their translations: an object of JSON, or lines with a tab between the two.

    Raises UserError if there is another kind of line, or a term has two translations.
    """
    pairs = list[Sequence[object]]()
    if isinstance(glossary, Mapping):
        pairs = [*glossary.items()]
    elif isinstance(glossary, str):
        pairs = [line.split("\t") for line in glossary.splitlines() if line.strip()]
    else:
        raise UserError(f"it is no object and no text, but {type(glossary).__name__}.")
    terms: dict[str, str] = {}
    for number, pair in enumerate(pairs, 1):
        # JSON may hold lone surrogates, which cannot be written.
        valid = (each.encode("utf-8", "replace").decode() for each in pair if isinstance(each, str))
        texts = list(map(normalize, valid))
        if len(pair) != 2 or len(texts) != 2 or not all(texts):
            raise UserError(
                f"entry {number} must be a term, a tab and its translation, but is {pair!r:.80}."
            )
        if terms.setdefault(texts[0], texts[1]) != texts[1]:
            raise UserError(f"{texts[0]!r} has two translations.")
    return terms


# --- lines ---


def texts_of(text: str, markup: Markup) -> str:
    """What of a text is translated, without tags."""
    lines = (line for line in lines_of(text, markup) if not isinstance(line, str))
    return " ".join(part for line in lines for part in line if isinstance(part, str))


def lines_of(
    text: str, markup: Markup = "text", whole: bool = False
) -> Iterator[str | list[str | Span]]:
    """What is kept of a text: breaks, white space, HTML; and its lines, as texts and tags.

    A plain text is one line if `whole`. Its lines end at <br> and at written breaks, too.
    """
    lines = {"text": partial(_text_lines, whole=whole), "markdown": _markdown_lines}
    for line in lines.get(markup, _html_lines)(text):
        if isinstance(line, str):
            yield line
            continue
        before = after = ""
        if isinstance(first := line[0], str):
            line[0] = first.lstrip()
            before = first[: len(first) - len(line[0])]
        if isinstance(last := line[-1], str):
            line[-1] = last.rstrip()
            after = last[len(line[-1]) :]
        yield from (before, line, after)


def _text_lines(text: str, whole: bool = False) -> Iterator[str | list[str | Span]]:
    start = 0
    text = LINE_BREAKS.sub(" ", text) if whole else text
    for found in () if whole else WRITTEN_BREAKS.finditer(text):
        if found[1]:
            yield [text[start : found.start()]]
            yield found[1]
            start = found.end()
    yield [text[start:]]


def _joined(found: re.Match[str]) -> str:
    return SOFT_BREAK.sub(" ", found[0]) if found["rest"] else found[0]


def _markdown_lines(source: str) -> Iterator[str | list[str | Span]]:
    """Paragraphs and cells of tables are lines. Fenced code and front matter are kept."""
    for number, part in enumerate(re.split(CODE, source)):  # text, code, its fence, text, ...
        if number % 3 == 1:
            yield part
        elif number % 3 == 0:
            text = PARAGRAPH.sub(_joined, part)
            for line in _text_lines(text):
                if isinstance(line, str) or not TABLE_ROW.fullmatch(str(line[0])):
                    yield line
                    continue
                for at, cell in enumerate(re.split(r"((?<!\\)\|)", str(line[0]))):
                    yield cell if at % 2 else [cell]


def _html_lines(source: str) -> Iterator[str | list[str | Span]]:
    """Blocks are lines. Comments, scripts, and what HTML excludes from translation are kept."""
    parser = _Parser()
    parser.feed(LONG_ENTITY.sub("x", source))
    parser.end()
    line_starts = [0, *accumulate(len(line) for line in re.split("(?<=\n)", source))]
    starts = [line_starts[line - 1] + column for (line, column), _ in parser.found]
    line = list[str | Span]()
    # The parser passes over some broken tags without a call.
    yield source[: starts[0] if starts else None]
    for (start, end), (_, kind) in zip(pairwise([*starts, len(source)]), parser.found, strict=True):
        raw = source[start:end]
        if kind == "text":
            for spaces, parts in groupby(filter(None, HTML_ENTITY.split(raw)), is_space):
                if spaces:
                    line += [Span(part, part) for part in parts]
                else:
                    before = line.pop() if line and isinstance(line[-1], str) else ""
                    line.append("".join([str(before), *map(_unescape, parts)]))
        elif kind == "inline":
            line.append(Span(raw, raw))
        else:
            yield from [line] * bool(line)
            yield raw
            line = []
    yield from [line] * bool(line)


class _Parser(HTMLParser):
    """Finds where texts, inline tags and others start, as line and column."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[tuple[int, int], str]] = []
        self._kept = ""  # the element in which nothing is translated
        self._depth = 0  # open elements of that name

    def _add(self, kind: str) -> None:
        # A "<" that begins no tag arrives as a piece of its own.
        if not self._depth and not (kind == "text" and self.found and self.found[-1][1] == "text"):
            self.found.append((self.getpos(), kind))

    def _add_tag(self, tag: str) -> None:
        self._add("inline" if tag in INLINE else "block")

    def end(self) -> None:
        """Find what the unfinished rest is; `close` takes a time quadratic in its length."""
        if rest := self.rawdata:
            self._add("block" if rest.startswith(("<!--", "<?")) or ">" in rest else "text")

    def handle_data(self, data: str) -> None:
        self._add("text")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add_tag(tag)
        if self._depth:
            self._depth += tag == self._kept
        elif tag not in WITHOUT_END and (tag in NOT_TRANSLATED or _is_excluded(dict(attrs))):
            self._kept, self._depth = tag, 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add_tag(tag)  # and opens no element

    def handle_endtag(self, tag: str) -> None:
        if self._depth:
            self._depth -= tag == self._kept
        else:
            self._add_tag(tag)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:  # <![unknown[
            return self.parse_bogus_comment(i)

    def _add_markup(self, data: str) -> None:
        self._add("inline")

    handle_comment = handle_pi = unknown_decl = _add_markup

    def handle_decl(self, decl: str) -> None:
        self._add("block")


def _is_excluded(attributes: dict[str, str | None]) -> bool:
    translate, classes = (attributes.get(name) or "" for name in ("translate", "class"))
    return translate.lower() == "no" or "notranslate" in classes.split()
