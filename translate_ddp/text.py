"""Rules of written text that training, translation and scores share."""

import re
import unicodedata
from contextlib import suppress
from functools import lru_cache, partial

import langcodes

# No escapes of regular expressions: exported tokenizers use the same patterns in another dialect.
# Both kinds come with text that is pasted, and split words into bytes that a model hardly knows.
WHITE_SPACE = "[ \t\n\v\f\r\x1c-\x1e\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
# Soft hyphens, zero-width spaces, marks of direction, byte order marks; not the joiners U+200C and
# U+200D, which Persian and Indic scripts need.
INVISIBLE = "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"
MAX_CODE = 35  # characters of a language code, as RFC 5646 has them; a longer text is no code

# Languages that write no space between words, as `base_language` has them. Chinese and Japanese
# write none between sentences either.
CHINESE: frozenset[str] = frozenset("zh yue wuu lzh".split())
JAPANESE: frozenset[str] = frozenset(["ja"])
SOUTHEAST_ASIAN: frozenset[str] = frozenset("th lo km my shn".split())
TIBETAN: frozenset[str] = frozenset("bo dz".split())
GREEK: frozenset[str] = frozenset("el grc".split())
DOTTED_I: frozenset[str] = frozenset("tr az crh gag".split())  # with a letter of their own: i, ı
# Marks that only end sentences; text may go on without a space. The Burmese U+104A, the Ethiopic
# U+1361 and the Tibetan U+0F0D also separate phrases.
FULL_STOPS = "。｡！？।॥؟۔።፧፨։။។៕᠃᠉᱾᱿꯫"
# What may end a sentence. A quotation mark or bracket behind it is left as it is.
END_PUNCTUATION = f".!?…‼⁇⁈⁉．;၊།{FULL_STOPS}"
# The marks of word processors and phones as marks of a keyboard.
PLAIN_MARKS = str.maketrans(
    {**dict.fromkeys("‘’ʼ´‚", "'"), **dict.fromkeys("“”„", '"'), **dict.fromkeys("‐‑–—−", "-")}
    | {"…": "..."}
)
# A number: 12, 1,234.5 and 3,5; of 3:30 and 12.5.2024 each part.
NUMERAL = re.compile(r"\d{1,3}(?:[.,'’٬ ]\d{2,3})+(?!\d)(?:[.,٫]\d+)?|\d+[.,٫]\d+(?![.,]?\d)|\d+")
OTHER_NUMERALS = re.compile(r"\b[IVXL]{2,}|[½¼¾〇一二三四五六七八九十百千万萬億亿兆십백천만억조]")
# Codes that are no ISO 639 codes, or not the usual one of the language.
OTHER_CODES = {"cn": "zh", "cz": "cs", "gr": "el", "jp": "ja", "ua": "uk", "fil": "tl"}
UNSPACED_LANGUAGES = CHINESE | JAPANESE | SOUTHEAST_ASIAN | TIBETAN


def normalize(text: str) -> str:
    """The text as one line in Unicode NFC: the form in which models read and write, and are scored.

    A run of spaces, tabs, line breaks, no-break and wide spaces becomes one space; white space at
    the ends and invisible characters are removed.
    """
    # Most text has single spaces only: it is faster to see that than to replace others.
    # Invisible characters and all white space but the space are not printable.
    if text.isprintable() and "  " not in text:
        return unicodedata.normalize("NFC", text).strip(" ")
    visible = unicodedata.normalize("NFC", re.sub(INVISIBLE, "", text))
    return re.sub(WHITE_SPACE, " ", visible).strip()


def has_letter(text: str) -> bool:
    """Whether the text has a letter of any script, which numbers, symbols and emoji have not.

    Raised letters, as in 5º, and marks that repeat or lengthen others are no letters.
    """
    found = filter(str.isalpha, text.replace("ℹ\ufe0f", ""))  # among emoji, only ℹ is a letter
    return any(c not in "ªº" and unicodedata.category(c) != "Lm" for c in found)


def lacks_number(source: str, translation: str) -> bool:
    """Whether a number over 12 of the source is in no form in the translation.

    Forms differ in digits, separators, zeros (25 million), hours (15:00, 3 pm) and years ('90).
    Texts with other numerals (XIX, 百) are not searched: these may be any number.
    """
    if OTHER_NUMERALS.search(f"{source} {translation}"):
        return False
    plain = partial(re.sub, r"\d", lambda digit: str(int(digit[0])))  # digits of any script
    source, translation = plain(source), plain(translation)
    runs = {*re.findall(r"\d+", translation)}
    given = runs | {run[2:] for run in runs if len(run) == 4}
    given |= {str(int(run) + 12) for run in runs if len(run) < 3 and int(run) < 12}
    values = [*map(_scientific, NUMERAL.findall(translation))]
    for number in NUMERAL.findall(source):
        large = [run for run in re.findall(r"\d+", number) if (len(run), run) > (2, "12")]
        if not all(run in given or (len(run) == 4 and run[2:] in runs) for run in large):
            digits, power = _scientific(number)  # no word means ten or a hundred times as much
            if not any(d == digits and abs(p - power) not in (1, 2) for d, p in values):
                return True
    return False


def _scientific(number: str) -> tuple[str, int]:
    """The significant digits of a number, and the power of ten of the last of them."""
    *whole, last = re.findall(r"\d+", number)
    places = len(last) if whole and len(last) != 3 else 0
    digits = "".join([*whole, last])
    return digits.strip("0"), len(digits) - len(digits.rstrip("0")) - places


def base_language(code: str) -> str:
    """The language of a code in one form, which all rules about languages use.

    It is the shortest ISO 639 code, of the macrolanguage if there is one, without region and
    script: de of de_DE, deu, ger and deu_Latn; zh of zh-Hant and cmn_Hans; sr of sr@latin. A code
    that ISO 639 does not have stays as it is, in lower case.
    """
    return (_base_of if len(code) <= MAX_CODE else _base_of.__wrapped__)(code)


@lru_cache(maxsize=1024)  # for codes, not for long texts
def _base_of(code: str) -> str:
    base = re.split("[-_@]", code)[0].lower()
    with suppress(langcodes.LanguageTagError):
        language = langcodes.get(base)
        if len(language.language or "") > 2:
            language = language.prefer_macrolanguage()
        base = language.language or base
    return OTHER_CODES.get(base, base)


def separates_words(language: str) -> bool:
    """Whether the language writes spaces between words."""
    return base_language(language) not in UNSPACED_LANGUAGES


def lower(text: str, language: str) -> str:
    """The text in lower case, as the language writes it."""
    if base_language(language) in DOTTED_I:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str) -> str:
    """The text in upper case, as the language writes it."""
    return (text.replace("i", "İ") if base_language(language) in DOTTED_I else text).upper()


def is_in_capitals(text: str) -> bool:
    """Whether several words have letters, and all letters are capitals, as in some headings."""
    text = text.replace("ß", "")  # whose capital is hardly used
    has_capitals_only = all(map(str.isupper, filter(has_letter, text)))
    return has_capitals_only and sum(map(has_letter, text.split())) > 1


def sentence_case(text: str, language: str) -> str:
    """The text in lower case, with a capital for its first letter."""
    text = lower(text, language)
    first = next((at for at, letter in enumerate(text) if letter.isalpha()), 0)
    return text[:first] + capital(text[first : first + 1], language) + text[first + 1 :]


def title(text: str, language: str) -> str:
    """The text with the first letter of each word in upper case."""
    return re.sub(r"(?<!\S)\w", lambda letter: capital(letter[0], language), text)


def capital(letter: str, language: str) -> str:
    """The letter as it begins a word in title case: Fi for ﬁ; a Georgian letter as it is."""
    return "İ" if letter == "i" and base_language(language) in DOTTED_I else letter.title()


def remove_end_punctuation(text: str) -> str:
    """The text without the punctuation at its end, unless it is nothing else."""
    return text.rstrip(END_PUNCTUATION + " ") or text


def direction_tag(lang_tgt: str) -> str:
    """`>>it<<`, the tag of sources to translate into Italian, as in OPUS-MT."""
    return f">>{lang_tgt}<<"
