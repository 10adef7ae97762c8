"""The rules that decide from one row whether it is a usable pair, by level of cleaning.

It imports little, because every process of a pool imports it.
"""

import re
import unicodedata
from functools import cache
from typing import Literal, NamedTuple

from translate_ddp.data.pair_rules import (
    find_addresses,
    is_untranslated,
    lengths_differ,
    numbers_differ,
    remove_addresses,
)
from translate_ddp.data.scripts import count_letters, main_scripts
from translate_ddp.text import normalize

Level = Literal["none", "safe", "strict"]

MAX_CHARACTERS = 10_000

# Reasons to drop a row. The last four need all rows: the corpus decides them.
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
    NEAR_DUPLICATE := "near duplicate",
    ALSO_IN_VALIDATION := "also in validation",
)

SURROGATE = re.compile("[\ud800-\udfff]")  # half a character; UTF-8 cannot encode it
INVALID = re.compile("[\0\ufffd\ud800-\udfff]")  # decoders put U+FFFD in the place of invalid bytes
CONTROL = re.compile("[\x01-\x1f\x7f-\x9f]")  # normalization made tabs and line breaks blanks


class Cleaned(NamedTuple):
    """A row after normalization. UTF-8 can encode its text, also that of a dropped row."""

    src: str  # '' if the row has no text there
    tgt: str
    reason: str  # to drop it, one of REASONS; '' for a usable pair
    near: str = ""  # rows with the same key are near duplicates; '' for none, and below strict
    scripts: tuple[str, str] = ("", "")  # `main_scripts` of both sides; '' below strict


class Cleaner:
    """Normalizes a row, and decides whether it is a usable pair.

    Level none drops what cannot be trained on: no text, and invalid unicode. Level safe also drops
    text that is too long or has control characters, level strict pairs whose sides differ in
    length, numbers or addresses, or not at all.
    """

    def __init__(self, level: Level):
        self.level = level

    def __call__(self, row: tuple[str | None, str | None]) -> Cleaned:
        src, tgt = normalize(row[0] or ""), normalize(row[1] or "")
        if not src or not tgt:
            reason = NOT_TEXT if None in row else EMPTY
            return Cleaned(_encodable(src), _encodable(tgt), reason)
        both = src + tgt
        # Printable text has neither control characters nor surrogates.
        unprintable = not both.isprintable()
        if "\ufffd" in both or (unprintable and INVALID.search(both)):
            return Cleaned(_encodable(src), _encodable(tgt), INVALID_UNICODE)
        if self.level == "none":
            return Cleaned(src, tgt, "")
        if len(src) > MAX_CHARACTERS or len(tgt) > MAX_CHARACTERS:
            return Cleaned(src, tgt, TOO_LONG)
        if unprintable and CONTROL.search(both):
            return Cleaned(src, tgt, CONTROL_CHARACTERS)
        return _compare(src, tgt) if self.level == "strict" else Cleaned(src, tgt, "")


def _compare(src: str, tgt: str) -> Cleaned:
    """The pair, with the first strict rule that it breaks."""
    lower_src, lower_tgt = src.lower(), tgt.lower()
    src_letters, tgt_letters = count_letters(src), count_letters(tgt)
    if lengths_differ(src, tgt, src_letters, tgt_letters):
        return Cleaned(src, tgt, LENGTH_RATIO)
    if is_untranslated(lower_src, lower_tgt):
        return Cleaned(src, tgt, SOURCE_EQUALS_TARGET)
    addresses = find_addresses(lower_src)
    if addresses != find_addresses(lower_tgt):
        return Cleaned(src, tgt, URLS_DIFFER)
    if numbers_differ(src, tgt):
        return Cleaned(src, tgt, NUMBERS_DIFFER)
    if addresses:  # they are of no script
        src_letters = count_letters(remove_addresses(lower_src))
        tgt_letters = count_letters(remove_addresses(lower_tgt))
    scripts = main_scripts(src_letters), main_scripts(tgt_letters)
    return Cleaned(src, tgt, "", near_key(lower_src, lower_tgt), scripts)


def near_key(src: str, tgt: str) -> str:
    """The key of near duplicates of a pair in lower case: without digits, punctuation and blanks.

    It is '' if nothing else is left.
    """
    key = _letters_and_symbols(src) + "\n" + _letters_and_symbols(tgt)
    return key if len(key) > 1 else ""


def _letters_and_symbols(text: str) -> str:
    for character in set(text):
        if _is_removed(character):
            text = text.replace(character, "")
    return text


@cache
def _is_removed(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "NPZ" or category in ("Cc", "Cf")  # numbers, punctuation, blanks, unseen


def _encodable(text: str) -> str:
    return SURROGATE.sub("\ufffd", text)
