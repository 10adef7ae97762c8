"""Rules of strict cleaning: what in a pair shows that one side does not translate the other."""

import re
from collections import Counter
from collections.abc import Callable, Mapping

from translate_ddp.data.scripts import EAST_ASIAN, LETTERS_PER_EAST_ASIAN

# Moses' clean-corpus-n allows a ratio of 9 in words, Bicleaner's hard rules one of 2 in characters
# and in bytes. Chinese and Thai have no blanks between words, and Hindi takes 3 times the bytes of
# English for as many characters: so this is a ratio of characters, and those of Chinese, Japanese
# and Korean are scaled. Short texts vary more: "EU" is "Europäische Union".
MAX_LENGTH_RATIO = 3.0
ADDED_CHARACTERS = 10  # to both sides before they are compared

NUMBER = re.compile(
    # "1,000", "1.000", "1 000" and "1'000"; then the longest number that int converts quickly
    r"\d{1,3}(?:[ ,.'’\u00a0\u2009\u202f\u066c]\d{3}(?!\d)){1,5}|\d{1,18}"
)
DIGIT = re.compile(r"\d")
# Numbers that are not written with the digits 0 to 9 of a script: Chinese and Japanese, Ethiopic.
NUMERALS = re.compile("[〇零一二三四五六七八九十百千万萬億亿]{2}|[\u1369-\u137c]")

# ASCII only: in Chinese, text follows an address without a blank. HTML puts it in quotes.
ADDRESS = re.compile(
    r"(?:(?:https?|ftp)://|www\.)[a-z0-9][!#-&(-;=?-\[\]-_a-~]*"
    r"|[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+"
)
ADDRESS_START = re.compile(r"^(?:[a-z]+://)?(?:www\.)?")
ADDRESS_END = "/.,;:!?'\")]}>*_"
# Stress and length marks and letters of IPA, and text between slashes.
PHONETIC = re.compile("[\u0250-\u02af\u02c8\u02cc\u02d0\u02d1]|^/.+/$")


def find_addresses(lower: str) -> list[str]:
    """The URLs and e-mail addresses of a text in lower case, without scheme and www."""
    if "://" not in lower and "www." not in lower and "@" not in lower:
        return []
    return sorted(
        ADDRESS_START.sub("", each).rstrip(ADDRESS_END) for each in ADDRESS.findall(lower)
    )


def remove_addresses(lower: str) -> str:
    """The text, in lower case, without its URLs and e-mail addresses."""
    return ADDRESS.sub("", lower) if find_addresses(lower) else lower


def lengths_differ(
    src: str, tgt: str, src_letters: Mapping[str, int], tgt_letters: Mapping[str, int]
) -> bool:
    """Whether one side is more than three times as long as the other, with 10 characters added."""
    lengths = sorted((_scaled_length(src, src_letters), _scaled_length(tgt, tgt_letters)))
    return lengths[1] + ADDED_CHARACTERS > MAX_LENGTH_RATIO * (lengths[0] + ADDED_CHARACTERS)


def _scaled_length(text: str, letters: Mapping[str, int]) -> int:
    """The number of characters that the text would have in an alphabet."""
    if text.isascii():
        return len(text)
    east_asian = sum(letters.get(script, 0) for script in EAST_ASIAN)
    return len(text) + (LETTERS_PER_EAST_ASIAN - 1) * east_asian


def is_untranslated(src: str, tgt: str) -> bool:
    """Whether both sides, in lower case, are the same words.

    Numbers, emoji, URLs, e-mail addresses and IPA are the same in all languages.
    """
    return src == tgt and any(
        any(map(str.isalpha, word)) and not PHONETIC.search(word)
        for word in remove_addresses(src).split()
    )


def numbers_differ(src: str, tgt: str) -> bool:
    """Whether a number of one side is missing on the other, or another one is in its place.

    Digits of all scripts are the same. Separators, the order ("3/14" and "14.3.") and zeros ("1.5
    million" and "1,500,000") have no effect, nor have short forms (3 pm, the 90s). A number that
    the other side may have in words is not missing: up to 100, or with one digit other than 0.
    """
    if not DIGIT.search(src) and not DIGIT.search(tgt):
        return False
    in_src, in_tgt = _numbers(src), _numbers(tgt)
    src_only, tgt_only = _without(in_src, in_tgt), _without(in_tgt, in_src)
    if _digits(src_only) == _digits(tgt_only):
        return False
    for form in (_year_of_century, _hour_of_12):
        src_only, tgt_only = (
            _without(src_only, tgt_only, form),
            _without(tgt_only, src_only, form),
        )
    if src_only and tgt_only:
        return True
    has_numerals = NUMERALS.search(tgt if src_only else src)
    return not has_numerals and not all(map(_may_be_words, src_only + tgt_only))


def _numbers(text: str) -> list[int]:
    """The numbers other than 0, in order."""
    found = (int("".join(DIGIT.findall(each))) for each in NUMBER.findall(text))
    return list(filter(None, found))


def _without(numbers: list[int], others: list[int], form: Callable[[int], int] = int) -> list[int]:
    """The numbers but those that are among the others, too, compared in a form."""
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
