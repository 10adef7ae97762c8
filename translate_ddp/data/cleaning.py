"""The reasons for which a row could be dropped, and the level of cleaning that drops it for each.

Worker processes apply them to batches of rows. They import this module, so it imports little.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from translate_ddp.data.languages import (
    EAST_ASIAN,
    LETTERS_PER_EAST_ASIAN,
    count_letters,
    main_scripts,
)
from translate_ddp.data.pair_store import RECORD, Pair
from translate_ddp.data.rows import NumberedRow, Row
from translate_ddp.spans import MARK
from translate_ddp.text import normalize

if TYPE_CHECKING:
    from translate_ddp.settings import CleanLevel

MAX_CHARACTERS = 10_000

# Reasons to drop a row: three of every level, two of safe and strict, four of strict. The others
# need all rows: the corpus decides them.
REASONS = (
    NOT_TEXT := "not text",
    EMPTY := "empty",
    INVALID_UNICODE := "invalid unicode",
    TOO_LONG := f"over {MAX_CHARACTERS:,} characters",
    CONTROL_CHARACTERS := "control characters",
    LENGTH_RATIO := "length ratio",
    SOURCE_EQUALS_TARGET := "source equals target",
    NUMBERS_DIFFER := "numbers differ",
    URLS_DIFFER := "URLs differ",
    WRONG_SCRIPT := "wrong script",
    DUPLICATE := "duplicate",
    ONE_FOR_MANY := "one text for many",
    NEAR_DUPLICATE := "near duplicate",
    ALSO_IN_VALIDATION := "also in validation",
    ALSO_IN_EXCLUDED := "also in --exclude",
)

# The label of a row is the place of a reason in this list, or one of the next two.
LABELS = {reason: label for label, reason in enumerate(REASONS, 1)}
NO_LABEL, HELD_OUT = 0, 255  # rows for training, and for validation
LAST_LABELS: dict[CleanLevel, int] = {  # for which the level drops a row without the others
    "none": LABELS[INVALID_UNICODE],
    "safe": LABELS[CONTROL_CHARACTERS],
    "strict": LABELS[URLS_DIFFER],
}

SPLIT_SALT = b"translate_ddp"  # another salt gives another validation set
EXAMPLES = 3  # rows shown for each reason
EXAMPLE_CHARACTERS = 200

# Half a character, which UTF-8 cannot encode; decoders put U+FFFD in the place of invalid bytes.
# MARK stands for a span within this program.
INVALID = re.compile(f"[\0\ufffd\ud800-\udfff{MARK}]")
CONTROL = re.compile("[\x01-\x1f\x7f-\x9f]")  # normalization made tabs and line breaks spaces

# Moses' clean-corpus-n allows a ratio of 9 in words, Bicleaner's hard rules one of 2 in characters
# and in bytes. Chinese and Thai have no spaces between words, and Hindi takes 3 times the bytes of
# English for as many characters: so this is a ratio of characters, scaled for Chinese, Japanese and
# Korean. Short texts vary more: "EU" is "Europäische Union".
MAX_LENGTH_RATIO = 3.0
ADDED_CHARACTERS = 10  # to both sides before they are compared

NUMBER = re.compile(
    # "1,000", "1.000", "1 000" and "1'000"; then the longest number that int converts quickly
    r"\d{1,3}(?:[ ,.'’\u00a0\u2009\u202f\u066c]\d{3}(?!\d)){1,5}|\d{1,18}"
)
DIGIT = re.compile(r"\d")
# Numbers that are not written with the digits 0 to 9 of a script: Chinese and Japanese, Ethiopic.
NUMERALS = re.compile("[〇零一二三四五六七八九十百千万萬億亿]{2}|[\u1369-\u137c]")

# ASCII only: in Chinese, text follows an address without a space. HTML puts it in quotes.
ADDRESS = re.compile(
    r"(?:(?:https?|ftp)://|www\.)[a-z0-9][!#-&(-;=?-\[\]-_a-~]*"
    r"|[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+"
)
ADDRESS_START = re.compile(r"^(?:[a-z]+://)?(?:www\.)?")
ADDRESS_END = "/.,;:!?'\")]}>*_"
# Stress and length marks and letters of IPA, and text between slashes.
PHONETIC = re.compile("[\u0250-\u02af\u02c8\u02cc\u02d0\u02d1]|^/.+/$")


class Cleaned(NamedTuple):
    """A row after normalization."""

    src: str  # '' if the row has no text there
    tgt: str
    reason: str  # to drop it, one of REASONS; '' for a usable pair
    near: str = ""  # rows with the same key are near duplicates; '' for none, and below strict
    scripts: tuple[str, str] = ("", "")  # `main_scripts` of both sides; '' below strict


def clean_row(level: CleanLevel, row: Row) -> Cleaned:
    """The row, normalized, and the first reason for which the level drops it.

    Level none drops what cannot be trained on: no text, and invalid unicode. Level safe also drops
    text that is too long or has control characters, level strict pairs whose sides differ in
    length, numbers or addresses, or not at all.
    """
    src, tgt = normalize(row[0] or ""), normalize(row[1] or "")
    if not src or not tgt:
        return Cleaned(src, tgt, NOT_TEXT if None in row else EMPTY)
    both = src + tgt
    # Printable text has neither control characters nor surrogates.
    is_printable = both.isprintable()
    if "\ufffd" in both or (not is_printable and INVALID.search(both)):
        return Cleaned(src, tgt, INVALID_UNICODE)
    if level != "none" and max(len(src), len(tgt)) > MAX_CHARACTERS:
        return Cleaned(src, tgt, TOO_LONG)
    if level != "none" and not is_printable and CONTROL.search(both):
        return Cleaned(src, tgt, CONTROL_CHARACTERS)
    if level != "strict":
        return Cleaned(src, tgt, "")
    for reason, rule in STRICT_RULES.items():
        if rule(src, tgt):
            return Cleaned(src, tgt, reason)
    return Cleaned(src, tgt, "", near_key(src, tgt), (_scripts(src), _scripts(tgt)))


def lengths_differ(src: str, tgt: str) -> bool:
    """Whether one side is more than three times as long as the other, with 10 characters added."""
    shorter, longer = sorted((_scaled_length(src), _scaled_length(tgt)))
    return longer + ADDED_CHARACTERS > MAX_LENGTH_RATIO * (shorter + ADDED_CHARACTERS)


def _scaled_length(text: str) -> int:
    """The number of characters that the text would have in an alphabet."""
    if text.isascii():
        return len(text)
    letters = count_letters(Counter(text))
    return len(text) + (LETTERS_PER_EAST_ASIAN - 1) * sum(letters[each] for each in EAST_ASIAN)


def is_untranslated(src: str, tgt: str) -> bool:
    """Whether both sides are the same words, in any case.

    Numbers, emoji, URLs, e-mail addresses and IPA are the same in all languages.
    """
    lower = src.lower()
    return lower == tgt.lower() and any(
        any(map(str.isalpha, word)) and not PHONETIC.search(word)
        for word in (ADDRESS.sub("", lower) if _addresses(lower) else lower).split()
    )


def addresses_differ(src: str, tgt: str) -> bool:
    """Whether the sides have other URLs or e-mail addresses; scheme and www have no effect."""
    return _addresses(src.lower()) != _addresses(tgt.lower())


def _addresses(lower: str) -> list[str]:
    if "://" not in lower and "www." not in lower and "@" not in lower:
        return []
    return sorted(
        ADDRESS_START.sub("", each).rstrip(ADDRESS_END) for each in ADDRESS.findall(lower)
    )


def _scripts(text: str) -> str:
    """The main scripts of a text; addresses are of none."""
    if _addresses(text.lower()):
        text = ADDRESS.sub("", text.lower())
    return main_scripts(count_letters(Counter(text)))


def numbers_differ(src: str, tgt: str) -> bool:
    """Whether a number of one side is missing on the other, or another one is in its place.

    Digits of all scripts are the same. Separators, the order ("3/14" and "14.3.") and zeros ("1.5
    million" and "1,500,000") have no effect, nor have short forms (3 pm, the 90s). A number that
    the other side may have in words is not missing: up to 100, or with one digit other than 0.
    """
    if not DIGIT.search(src) and not DIGIT.search(tgt):
        return False
    src_only, tgt_only = _numbers(src), _numbers(tgt)
    for form in (int, _year_of_century, _hour_of_12):
        left = _without(src_only, tgt_only, form)
        src_only, tgt_only = left, _without(tgt_only, src_only, form)
        if form is int and _digits(src_only) == _digits(tgt_only):
            return False
    if src_only and tgt_only:
        return True
    has_numerals = NUMERALS.search(tgt if src_only else src)
    return not has_numerals and not all(map(_may_be_words, src_only + tgt_only))


def _numbers(text: str) -> list[int]:
    """The numbers other than 0, in order."""
    found = (int("".join(DIGIT.findall(each))) for each in NUMBER.findall(text))
    return list(filter(None, found))


def _without(numbers: list[int], others: list[int], form: Callable[[int], int]) -> list[int]:
    """The numbers that are not among the others, compared in a form."""
    available = Counter(map(form, others))
    left = []
    for number in numbers:
        if available[form(number)]:
            available[form(number)] -= 1
        else:
            left.append(number)
    return left


def _digits(numbers: list[int]) -> str:
    return "".join(map(str, numbers)).replace("0", "")


def _year_of_century(number: int) -> int:
    return number % 100 if 1000 <= number < 3000 else number


def _hour_of_12(number: int) -> int:
    return number % 12 if number <= 24 else number


def _may_be_words(number: int) -> bool:
    return number <= 100 or not str(number)[1:].strip("0")


# What in a pair shows that one side does not translate the other: the first reason counts.
STRICT_RULES: dict[str, Callable[[str, str], bool]] = {
    LENGTH_RATIO: lengths_differ,
    SOURCE_EQUALS_TARGET: is_untranslated,
    URLS_DIFFER: addresses_differ,
    NUMBERS_DIFFER: numbers_differ,
}


def near_key(src: str, tgt: str) -> str:
    """The key of near duplicates: the pair in lower case, without digits, punctuation and spaces.

    It is '' if nothing else is left.
    """
    key = _letters_and_symbols(src) + "\n" + _letters_and_symbols(tgt)
    return key if len(key) > 1 else ""


def _letters_and_symbols(text: str) -> str:
    text = text.lower()
    for character in set(text):
        if _is_removed(character):
            text = text.replace(character, "")
    return text


@cache
def _is_removed(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "NPZ" or category in ("Cc", "Cf")  # numbers, punctuation, spaces, unseen


@dataclass
class CleanedRows:
    """A batch of rows, normalized and labelled."""

    files: list[tuple[str, int]]  # or sheets, and how many rows are of each
    lines: bytes = b""  # as `PairStore` has them
    records: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=RECORD))
    scripts: dict[int, str] = field(default_factory=dict)  # number in the records -> name


def clean_rows(level: CleanLevel, rows: Sequence[NumberedRow]) -> CleanedRows:
    """The rows, each with a label for its first reason among the reasons of the level."""
    files = groupby(file for file, *_ in rows)
    result = CleanedRows([(file, len(list(run))) for file, run in files])
    lines, records = [], []
    for _, number, *row in rows:
        cleaned = clean_row(level, (row[0], row[1]))
        # The bytes of half a character, which is in no usable pair, are replaced.
        source, target = cleaned.src.encode(errors="replace"), cleaned.tgt.encode(errors="replace")
        line = b"%b\t%b\n" % (source, target)
        lines.append(line)
        # The same numbers in all processes.
        scripts = [zlib.crc32(script.encode()) for script in cleaned.scripts]
        result.scripts.update(zip(scripts, cleaned.scripts, strict=True))
        near = _hash(cleaned.near.encode()) if cleaned.near else 0
        hashes = _hash(source), _hash(target), _hash(line), near
        label = LABELS.get(cleaned.reason, NO_LABEL)
        records.append((len(line), *hashes, scripts, number, label))
    result.lines = b"".join(lines)
    result.records = np.array(records, dtype=RECORD)
    return result


def labels_of(level: CleanLevel, labels: np.ndarray) -> np.ndarray:
    """The labels for which the level drops rows, and 0 in the place of others."""
    return np.where(labels <= LAST_LABELS[level], labels, NO_LABEL)


def shortened(pair: Pair) -> Pair:
    """A pair to show: each side at most `EXAMPLE_CHARACTERS` long."""
    return pair[0][:EXAMPLE_CHARACTERS], pair[1][:EXAMPLE_CHARACTERS]


def _hash(data: bytes) -> int:
    digest = hashlib.blake2b(data, digest_size=8, salt=SPLIT_SALT).digest()
    return int.from_bytes(digest, "big")
