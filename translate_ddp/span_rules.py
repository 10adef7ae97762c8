"""Where a text has spans: links, files, tags, placeholders, codes, long numbers and emoji.

A chunk is what stands between spaces, without the punctuation around it. A placeholder is a whole
chunk or no span: a half that is translated is worth nothing. Signs that ordinary words lack show
which chunk is one. Tags, emoji and others of ATOM stand alone within a chunk.
"""

import html
import re
from collections.abc import Iterable

from translate_ddp.text import has_letter

# Scripts without spaces between words, and Korean, whose particles follow a word without one.
UNSPACED_RANGES = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
UNSPACED_CHAR = re.compile(f"[{UNSPACED_RANGES}]")
BORDER = rf"\s\u200b\"“”„«»…—\u3000-\u303f\uff00-\uffef{UNSPACED_RANGES}"  # between chunks
OPENING, CLOSING = "([<'‘’¿¡*–-", ".,;:!?।॥؟،؛።)]>'’*–-"  # around a chunk
BRACKETS = "()", "[]", "<>"

DOMAINS = (  # country codes only if they are no words
    "(?:com|org|net|edu|gov|info|io|dev|eu|COM|ORG|NET|EDU|GOV|INFO|IO|DEV|EU"
    "|de|fr|nl|pl|ru|ua|cz|ch|se|dk|pt|gr|br|mx|jp|cn|kr|uk|za|ng|ke|tv)"
)
EXTENSIONS = (
    "7z|avi|bak|bmp|bz2|cfg|conf|cpp|css|csv|dll|docx?|epub|exe|gif|gz|html?|ico|ini|ipynb|iso|jar"
    "|java|jpe?g|js|json|jsx|kt|lua|md|mkv|mov|mp3|mp4|odp|ods|odt|ogg|pdf|php|png|pot|pptx?|ps1"
    "|py|rpm|rst|rtf|sgm|sh|sql|srt|svg|tar|tex|tgz|tiff?|tmx|toml|tsv|tsx|ttf|txt|vtt|wav|webm"
    "|webp|xlf|xliff|xlsx?|xml|xz|ya?ml|zip|zst"
)


def _one_of(*patterns: str) -> str:
    return "|".join(patterns)


# Braces hold two more pairs of braces. Words and spaces alone in braces are text.
NESTED_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
ICU_FORMAT = r"\s*[\w.]+\s*,\s*(?:number|date|time|spellout|ordinal|duration)\b"
PHRASE = rf"(?!{ICU_FORMAT})\s*[^\W\d_][\w'’,.!?;:()-]*+(?:\s++[\w'’,.!?;:()-]++)+\s*+\}}"
BRACES = rf"(?:(?<=[$#%@])|(?!\{{{PHRASE})){NESTED_BRACES}"
QUOTED = r"```[^`]+```|``[^`]+``|`[^`]+`|=(?:\"[^\"<>]*\"|'[^'<>]*')"

VALUE = r"\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=]+)"
NAME = r"<[A-Za-z][^\s\"'<>]*"
MARKUP_TAG = _one_of(
    r"(?<![%<])(?:<(?=[^\s<>]*\w)[^\s<>]*+>",  # <b>, </b>, <1>; not the signs of a comparison
    rf"{NAME}(?:\s+[\w:.@-]+{VALUE})*\s*/?>",  # <a href="x">
    rf"(?<!\w){NAME}(?:\s+[\w:.@-]+(?:{VALUE})?)+\s*/?>",  # <v Name>
    r"<!--(?:(?!-->|<!--).)*+-->",
    r"<%(?:(?!%>|<%).)*+%>",
    r"<\?(?:(?!\?>|<\?).)*+\?>)",
)
IN_BRACKETS = _one_of(
    # [X14X], [url=a]; no footnote
    r"(?<![.!?…])\[(?:(?=[^\[\]\s]*+\])[^\[\]\s]*?(?:[0-9=]|[A-Z]{2})[^\[\]\s]*+",
    r"/\w+",  # [/b]
    r"\[[^\[\]\s]+\]",  # [[x]]
    r"[a-z]\w*\s[^\[\]=]*=[^\[\]]*)\]",  # [a b="c"]
    r"[\[{][a-z]+[\]}](?=.{0,300}?[\[{]/[a-z]+[\]}])",  # [b] before [/b]
)
PICTOGRAPHS = "\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
WITH_SELECTOR = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u24c2\u25aa-\u25fe\u2934\u2935\u3297\u3299"
)
JOINERS = r"[\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f]"
EMOJI_SEQUENCE = rf"(?:(?:[{PICTOGRAPHS}]|[{WITH_SELECTOR}]\ufe0f|[0-9#*]\ufe0f?\u20e3){JOINERS}*)+"
ATOM = _one_of(
    MARKUP_TAG,
    IN_BRACKETS,
    r"&(?:[A-Za-z]\w{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});",  # &nbsp;
    EMOJI_SEQUENCE,
    r"(?<=[^\s\\:/(])\\[nrtN](?![a-z]*[{\[])",  # \n, but no path and no command of TeX
    r"\\[nrtN](?![A-Za-z])",
    r"\*\|[\w:]+\|\*",  # *|NAME|*
    rf"(?<![$#%@])(?=\{{\{{?[%#/\\!]){NESTED_BRACES}",  # {% if x %}, {{/if}}
    rf"(?:(?<![\w:\\/.$%}}])|(?=\\[A-Za-z]+[\[{{]))\\[A-Za-z]\w*\*?"  # \textbf{x}
    rf"(?:\[[^\[\]]*\])?(?:{NESTED_BRACES})*",
    rf"(?<![\w&#/])#(?:[\w-]*[{UNSPACED_RANGES}][\w-]*(?:#|\b)",  # topics: #word, #話題#
    r"[^\W\d_][^\s#@.,;:!?…'\"()\[\]{}<>«»„“”‘’、。！？।]*(?:#(?!\w))?)",
    r"(?<![\w$])\$[0-9](?![\w$%/-]|[.,][0-9]| (?:[mbtr]+illion|hundred|thousand)\b)",  # $1
)
FIRST = rf"<\[{{&\\#${PICTOGRAPHS}{WITH_SELECTOR}"  # characters of an atom, without digits and *
SIGNS = rf"{FIRST}0-9*%@_=|~^/`.:"
WINDOWS_PATH = (
    r"(?<![A-Za-z0-9])(?:[A-Za-z]:|\\)\\"
    rf"(?:[^\s<>\"|?*]*?\.(?:{EXTENSIONS})(?=[{UNSPACED_RANGES}])|[^\s<>\"|?*]*[^\s<>\"|?*.,;:!)])"
)
# Most words are passed over at once. Each match succeeds, so that no text is searched twice.
SCAN = re.compile(
    rf"(?:(?:[^{BORDER}{SIGNS}]|[.:*](?!\w))++(?=[{BORDER}]|\Z)|[{BORDER}])*+"
    rf"(?:\(?(?P<path>{WINDOWS_PATH})|(?P<atom>{ATOM})"
    rf"|(?P<chunk>(?:{QUOTED}|[^{BORDER}{FIRST}\]]|\](?!\()|(?!{ATOM})(?:{BRACES}|[{FIRST}]))+)|.|\Z)",
    re.DOTALL,
)

LINK = re.compile(
    _one_of(
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://\S",
        r"(?<![\w@.-])www\.\w",
        r"(?<![\w.+-])(?:mailto:)?[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.\w{2,}",
        rf"(?<![\w@.-])(?:[A-Za-z0-9-]+\.)+{DOMAINS}(?![\w@-]|\.\w)",
    )
)
PLACEHOLDER = re.compile(
    _one_of(
        # %d, %(name)s; 13.5% is none
        r"(?<![0-9])%(?![0-9]{2}[0-9.,–-]*(?:['’]\w*)?\Z)(?:[@%]|[^\w\s]{0,3}\w)",
        r"%%",
        r"\$(?![A-Z]{1,3}[0-9])(?:[^\W\d]|[({])",  # $name, ${name}; $US5 is none
        r"\\[^\W_]",
        r"\{[^{}]*\}",
        r"`[^`]+`",
        r"\w::\w",
        r"\u20e3",
        r"(?<!\w)@[.:]?[^\W\d_]",  # @user
        r"\w@(?!s?\Z)[^\W\d]",  # not Spanish tod@s
        r"[^\W\d]@[0-9]",
        r"[^\W_]_+[^\W_]",  # file_name
        r"\A__\S*\w__\Z",
        r"\A#{2,}\w[^#]*##",
        r"\A:(?:[a-z]\w+|[A-Z]{2,}):?\Z",  # :name, :smile:
        r"[\w\])]=+[^\s=]",
        r"\w\^[\w({]",
        r"[^\W\d]\|\w",
        r"\A([|^])[^\W_]\w*\1\Z",  # |count|
        r"[^\W\d_]~\w",
        r"\A(?:/[^\W\d]|(?:~|\.{1,2})/[\w.])",  # /usr, ./a
        r"\A[^\W\d][\w.-]*(?:/[\w.-]+){2,}",  # a/b/c
        rf"\w\.(?:{EXTENSIONS}|{EXTENSIONS.upper()})(?!\w)",
        r"\A[a-z][\w.-]*:[0-9]{4,5}(?:/|\Z)",  # localhost:8080
        r"\A(?=(?:[^0-9]*[0-9]){4})(?:[\w-]*[^\W\d_][0-9][\w-]*",  # A1234, UUIDs, ISO-8859-1
        r"[A-Z][A-Z0-9]*(?:[/–-][A-Z0-9]+)+)\Z",
    )
)
END = re.compile(r"[^\W\d_]+[.!?…]+(?=(?:\{[0-9]*\}|%[sd])+\Z)")  # a sentence's: Read.{0} Next
SUFFIX = re.compile(r"(?:(?<=\})|(?<=%[sdi]))(?:-[a-z]{2,})+\Z")  # {n}-day

DATE_OR_TIME = r"(?:[0-9]{1,2}\.[0-9]{1,2}\.(?:[0-9]{2}){1,2}|[0-9]{4}\.[01][0-9]\.[0-3][0-9])"
LONG_NUMBER = re.compile(  # no times, thousands or decimals; of dates, years between spaces
    _one_of(
        # Versions and addresses: 1.2.3rc1, v2.0, 10.0.0.1:8080
        rf"(?<![\w.])(?!{DATE_OR_TIME}(?![\w.]*[0-9]))(?![0-9]{{1,3}}(?:\.[0-9]{{3}})+(?![0-9.]*[0-9]))"
        r"(?:[vV]?[0-9]+(?:\.[0-9]+){2,}|[vV][0-9]+\.[0-9]+)"
        r"(?:-?(?:alpha|beta|a|b|rc|dev|post)\.?[0-9]*)?(?:[:/][0-9]+)?(?!\w)",
        # Numbers with hyphens: 1-800-555-1234
        r"(?<![\w.,/-])(?!(?:[0-9]{1,2}-){2}[0-9]{2,4}(?![\w-])|[0-9]{4}-[0-9]{2}-[0-9]{2}(?![\w-]))"
        r"(?=(?:-?[0-9]){7})(?:[0-9]{3}-[0-9]{4}|[0-9]+(?:-[0-9]+){2,})(?!\w|[.,/-][0-9])",
        # Four digits or more: 12345km, 2024/2025; not 1990s
        r"(?<!\w)(?<![0-9][.,:/–-])(?<!^[.,])[0-9]{4,}(?:[/–-][0-9]{4,})*"
        r"(?![0-9_]|(?:s|er|th|st|nd|rd)(?!\w)|[.,:/–-][0-9])",
    )
)
SPACED_NUMBER = re.compile(
    r"(?=[+0A-Z])(?:"
    + _one_of(
        # +39 06 123 4567
        r"(?<![\w.+])\+[0-9]{1,3}(?=(?:[ ()/-]{0,2}[0-9]){6})(?:[ /-]?\(?[0-9]{1,12}+\)?){1,6}"
        r"(?!\w|[.,][0-9])",
        # 089 1234567; no date
        rf"(?<![^\W{UNSPACED_RANGES}])(?<![.,/-])(?!0[0-9]([ /-])[0-9]{{2}}\1[0-9]{{4}}(?![0-9]))"
        rf"(?=0(?:[ /-]?[0-9]){{7}})0[0-9]{{1,4}}(?:[ /-][0-9]{{2,8}}){{1,4}}"
        rf"(?![^\W{UNSPACED_RANGES}]|[.,/-][0-9])",
        # DE89 3704 0044 0532 0130 00
        r"(?<!\w)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4})?(?: ?[0-9]{4}){2,6}(?: ?[0-9]{1,3})?(?!\w)",
    )
    + ")"
)
# Most text has none of them: it is faster to see that than to scan it.
TRIGGER = re.compile(
    rf"[{FIRST}0-9%@_=|~^/`.:\u20e3](?:"
    + _one_of(
        rf"(?<=[{FIRST}@_=|~^/`\u20e3])",
        r"(?<=\.)\w",
        r"(?<=:)(?:[^\W\d]\w|:)",
        r"(?<=%)(?:(?<![0-9]%)|%)",
        r"(?<=[0-9])(?:[0-9]{3}|[.-][0-9]|(?<=[^\W\d_].)|(?<=\+.)|(?<=0)[0-9])",
    )
    + ")"
)


def find_spans(text: str) -> list[tuple[int, int]]:
    """Where spans start and end in a text, in order. The time is in proportion to its length."""
    trigger = TRIGGER.search(text)
    if not trigger:
        return []
    found = list[tuple[int, int]]()
    for match in SCAN.finditer(text, text.rfind(" ", 0, trigger.start()) + 1):
        if match.lastgroup == "chunk":
            start = match.start("chunk")
            found += [(start + first, start + last) for first, last in _in_chunk(match["chunk"])]
        # &uuml; is a letter.
        elif (kind := match.lastgroup) and not (
            match[kind][0] == "&" and has_letter(html.unescape(match[kind]))
        ):
            found.append(match.span(kind))
    return merged([*found, *(each.span() for each in SPACED_NUMBER.finditer(text))])


def merged(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The places in order; overlapping places are one."""
    found = list[tuple[int, int]]()
    for start, end in sorted(places):
        if found and start < found[-1][1]:
            first, last = found.pop()
            start, end = first, max(last, end)
        found.append((start, end))
    return found


def _in_chunk(chunk: str) -> list[tuple[int, int]]:
    """The spans of a chunk: all of it but the punctuation around, the end of it, or its numbers."""
    start, end = len(chunk) - len(chunk.lstrip(OPENING)), len(chunk.rstrip(CLOSING))
    if end - start < 2:
        return []
    for opening, closing in BRACKETS:  # that belong to the chunk if both do
        missing = chunk.count(opening, start, end) - chunk.count(closing, start, end)
        while missing > 0 and chunk.startswith(closing, end):
            end, missing = end + 1, missing - 1
        while missing < 0 and chunk.endswith(opening, 0, start):
            start, missing = start - 1, missing + 1
    start -= 2 * chunk.endswith("--", 0, start)  # --flag
    end += chunk.startswith(":", start) and chunk.startswith(":", end)
    end -= 2 * chunk.endswith(("'s", "’s"), start, end)
    if sentence := END.match(chunk, start, end):
        start = sentence.end()
    core = chunk[start:end]
    if link := LINK.search(core):
        return [(start + link.start(), end)]
    if PLACEHOLDER.search(core):
        suffix = SUFFIX.search(core)
        return [(start, start + suffix.start() if suffix else end)]
    return [(start + each.start(), start + each.end()) for each in LONG_NUMBER.finditer(core)]
