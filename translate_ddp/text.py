"""Rules of written text that training, translation and scores share."""

import re
import unicodedata

# No escapes of regular expressions: exported tokenizers use the same patterns in another dialect.
# Both kinds come with text that is pasted, and split words into bytes that a model hardly knows.
BLANKS = "[ \t\n\v\f\r\x1c-\x1e\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
# Soft hyphens, zero-width spaces, marks of direction, byte order marks; not the joiners U+200C and
# U+200D, which Persian and Indic scripts need.
INVISIBLE = "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"
MAX_MARKS = 1000  # combining marks in a row that are composed as they are

# ISO 639-1, 639-2/B and 639-3 codes of languages that write no blank between words. Chinese and
# Japanese write none between sentences either.
CHINESE: frozenset[str] = frozenset("zh zho chi cmn yue wuu lzh".split())
JAPANESE: frozenset[str] = frozenset(("ja", "jpn"))
SOUTHEAST_ASIAN: frozenset[str] = frozenset("th tha lo lao km khm my mya bur shn".split())
TIBETAN: frozenset[str] = frozenset("bo bod tib dz dzo".split())
GREEK: frozenset[str] = frozenset("el ell gre grc".split())
DOTTED_I: frozenset[str] = frozenset("tr tur az aze crh gag".split())  # of their own letter: i, ı
UNSPACED = CHINESE | JAPANESE | SOUTHEAST_ASIAN | TIBETAN


def normalize(text: str) -> str:
    """The text as one line in Unicode NFC: the form in which models read and write, and are scored.

    A run of blanks, tabs, line breaks, no-break and wide spaces becomes one blank; white space at
    the ends and invisible characters are removed.
    """
    # Most text has no other blanks than single ones: it is faster to see that than to replace them.
    # Invisible characters and all white space but the blank are not printable.
    if text.isprintable() and "  " not in text:
        return _compose(text).strip(" ")
    return re.sub(BLANKS, " ", _compose(re.sub(INVISIBLE, "", text))).strip()


def _compose(text: str) -> str:
    """The text in Unicode NFC, in a time in proportion to its length.

    `unicodedata` sorts a run of combining marks by insertion: 100,000 marks would take a minute.
    Long runs are sorted first, into the order that NFC has.
    """
    if len(text) > MAX_MARKS and not text.isascii():
        marks = "".join(filter(_is_mark, set(text)))
        text = re.sub(f"[{marks}]{{{MAX_MARKS},}}", _sort_marks, text) if marks else text
    return unicodedata.normalize("NFC", text)


def _is_mark(character: str) -> bool:
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0


def _sort_marks(run: re.Match[str]) -> str:
    marks = "".join(unicodedata.normalize("NFD", mark) for mark in run[0])
    return "".join(sorted(marks, key=unicodedata.combining))


def has_letter(text: str) -> bool:
    """Whether the text has a letter of any script, which numbers, symbols and emoji have not."""
    return any(map(str.isalpha, text.replace("ℹ\ufe0f", "")))  # of the emoji, only ℹ is a letter


def base_language(code: str) -> str:
    """The language of a code without region and script: zh of zh_CN and zh-Hant."""
    return re.split("[-_]", code)[0].lower()


def separates_words(language: str) -> bool:
    """Whether the language writes blanks between words."""
    return base_language(language) not in UNSPACED


def lower(text: str, language: str) -> str:
    """The text in lower case, as the language writes it."""
    if base_language(language) in DOTTED_I:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str) -> str:
    """The text in upper case, as the language writes it."""
    return (text.replace("i", "İ") if base_language(language) in DOTTED_I else text).upper()


def capital(letter: str, language: str) -> str:
    """The letter as it begins a word in title case: Fi for ﬁ; a Georgian letter as it is."""
    return "İ" if letter == "i" and base_language(language) in DOTTED_I else letter.title()
