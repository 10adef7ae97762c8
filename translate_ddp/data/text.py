"""Rules of written text that training, translation and scores share."""

import re
import unicodedata

BYTE_ORDER_MARK = "\ufeff"
BLANKS = re.compile(r"[ \t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")  # not no-break or wide spaces

# ISO 639-1 and 639-3 codes of languages that write no blank between words. Chinese and Japanese
# write none between sentences either.
CHINESE: frozenset[str] = frozenset("zh zho cmn yue wuu lzh".split())
JAPANESE: frozenset[str] = frozenset(("ja", "jpn"))
SOUTHEAST_ASIAN: frozenset[str] = frozenset("th tha lo lao km khm my mya shn".split())
TIBETAN: frozenset[str] = frozenset("bo bod dz dzo".split())
UNSPACED = CHINESE | JAPANESE | SOUTHEAST_ASIAN | TIBETAN


def normalize(text: str) -> str:
    """The text as one line in Unicode NFC: the form in which models read and write, and are scored.

    A run of blanks, tabs and line breaks becomes one blank; byte order marks and white space at the
    ends are removed. Other white space, such as a no-break space, is kept.
    """
    composed = unicodedata.normalize("NFC", text.replace(BYTE_ORDER_MARK, ""))
    return BLANKS.sub(" ", composed).strip()


def base_language(code: str) -> str:
    """The language of a code without region and script: zh of zh_CN and zh-Hant."""
    return re.split("[-_]", code)[0].lower()


def separates_words(language: str) -> bool:
    """Whether the language writes blanks between words."""
    return base_language(language) not in UNSPACED
