"""Lines of several sentences, and sentences that are too long for a model, in parts and joined.

The rules are for all languages at once and careful: a line that is not split is translated as it
is, but a sentence that is split at an abbreviation is translated wrongly.
"""

import re
from collections.abc import Iterable, Sequence

from translate_ddp.text import CHINESE, GREEK, JAPANESE, base_language

# Marks that only end sentences; text may go on without a blank. The Burmese U+104A, the Ethiopic
# U+1361 and the Tibetan U+0F0D also separate phrases.
FULL_STOPS = "。｡！？।॥؟۔።፧፨։။។៕᠃᠉᱾᱿꯫"
OPENING = r"\"'“”‘’«»‹›„‚(\[{¿¡「『（【《〈\-–—"
CLOSING = r"\"'”’»«›‹)\]}」』）】》〉"
# The Greek question mark is a semicolon. “ and ‘ close quotations in German, and open them in
# Chinese. French writes a blank before ».
SENTENCE_END, GREEK_SENTENCE_END = (
    re.compile(
        rf"([{marks}]+|[{FULL_STOPS}][{FULL_STOPS}{marks}]*)"
        rf"((?:[{CLOSING}]|(?<![{FULL_STOPS}])[“‘]|\s»(?=\s|$))*)(\s*)"
    )
    for marks in (".!?…", ".!?…;")
)
NEXT = re.compile(rf"[\s{OPENING}]*(\S?)")
LAST_WORD = re.compile(rf"[^\s{OPENING}]*$")
LONGEST_ABBREVIATION = 12

# Words before a name or a noun, which in some languages is capitalised. "No." and "art." are also
# whole sentences or their ends; before a number, no period ends a sentence.
ABBREVIATIONS = frozenset(
    """
    adm bzw ca capt cf cmdr col dhr doç dott dr dra dres drs evtl exmo fr frl gen ggf gov hr hrn
    inkl inż lt maj mevr mgr mio mlle mme mr mrd mrs ms mt prof rev sgt sig sog sr sra srta st ul
    vgl vs śp św κα κος гр им проф св тов ул акад доц д-р د أ डॉ श्री प्रो ডা ডঃ
    """.split()
)
# Words that may also end a sentence. The case of the next word decides, if the line has upper case.
UNCASED_ABBREVIATIONS = frozenset(
    """
    approx apr aug co corp dec dept ecc etc feb fig inc jan jr jul jun ltd nov oct pp sep sept sq
    tel usw vol
    """.split()
)
# Languages that write ordinal numbers with a period: "am 3. Oktober". "" is not known.
ORDINAL_PERIODS = frozenset(
    " bs cs da de et eu fi fo hr hu is lb lt lv nb nn no pl sk sl sr sv tr".split(" ")
)
CLAUSE_ENDS = frozenset(",;:—–，、；：،؛፣፤၊།·")


def split_sentences(line: str, language: str = "") -> list[str]:
    """The sentences of a line, without the blanks between them; [] of an empty line."""
    is_cased = line != line.lower()
    base = base_language(language)
    has_ordinals, is_greek = base in ORDINAL_PERIODS, base in GREEK
    starts = [0]
    for end in (GREEK_SENTENCE_END if is_greek else SENTENCE_END).finditer(line):
        if _ends_sentence(line, end, is_cased, has_ordinals):
            starts.append(end.end())
    parts = (line[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True))
    return [part.strip() for part in parts if part.strip()]


def _ends_sentence(line: str, end: re.Match[str], is_cased: bool, has_ordinals: bool) -> bool:
    """Whether the next sentence begins after `end`.

    `is_cased`: the line has upper case; `has_ordinals`: so does the language, with a period.
    """
    stop, closing, blank = end.groups()
    if stop[0] in FULL_STOPS:
        return bool(blank) or not closing  # 「行く。」と言った is one sentence
    following = NEXT.match(line, end.end())
    first = following[1] if following else ""
    if not blank or not first.isalnum():
        return False
    if is_cased and first.islower():  # as people type; but not in: "Really?" he said
        return "?" in stop and not closing
    before = line[max(0, end.start() - LONGEST_ABBREVIATION) : end.start()]
    word = found[0] if (found := LAST_WORD.search(before)) else ""
    if len(word) <= 2 and word.isdigit():
        preceding = before[: -len(word)].rstrip()
        is_item = not preceding or preceding[-1] in ".!?…:"  # "1. Go home. 2. Rest"
        if has_ordinals or is_item:
            return stop != "."
    return stop != "." or not (first.isdigit() or _is_abbreviation(word, is_cased))


def _is_abbreviation(word: str, is_cased: bool) -> bool:
    """Whether a period after this word belongs to it, as in Dr., J., U.S. and XIV."""
    if "." in word:
        return all(len(part) <= 2 and not part.isdigit() for part in word.split("."))
    return (
        word.lower() in ABBREVIATIONS
        or (not is_cased and word in UNCASED_ABBREVIATIONS)
        or (len(word) == 1 and word.lower() != word.upper())
        or re.fullmatch("[IVXLC]{2,}|[\u0e00-\u0eff]+", word) is not None  # Thai and Lao use no "."
    )


def join_sentences(sentences: Iterable[str], language: str) -> str:
    """One line of translations into `language`."""
    blank = "" if base_language(language) in CHINESE | JAPANESE else " "
    return blank.join(filter(None, sentences))


def cut(tokens: Sequence[str], limit: int) -> list[slice]:
    """Slices of at most `limit` tokens: to the end of a sentence, else clause, word or character.

    Each but the last has more than half of the limit.
    """
    starts = [0]
    while len(tokens) - starts[-1] > limit:
        latest_first = range(starts[-1] + limit, starts[-1] + limit // 2, -1)
        starts.append(max(latest_first, key=lambda at: _rank(tokens[at - 1], tokens[at])))
    return [slice(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]


def _rank(before: str, after: str) -> tuple[bool, bool, bool, bool]:
    """How well text may be cut between two tokens. U+FFFD is the text of a part of a character."""
    last, is_blank = before.rstrip()[-1:], after[:1].isspace()
    ends_sentence = last != "" and (last in FULL_STOPS or (is_blank and last in ".!?…"))
    return ends_sentence, last in CLAUSE_ENDS, is_blank, not after.startswith("\ufffd")
