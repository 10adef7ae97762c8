"""The writing systems of text, which show rows in the wrong language."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import cache

from translate_ddp.text import base_language

# Unicode has no property of this name in Python, but names begin with the script. These do not.
SCRIPTS_BY_FIRST_WORD = {
    "BOPOMOFO": "CJK",
    "IDEOGRAPHIC": "CJK",  # the iteration mark
    "HIRAGANA": "KANA",  # Japanese mixes both
    "HENTAIGANA": "KANA",
    "KATAKANA": "KANA",
    "MODIFIER": "",  # apostrophes, and stress and length in IPA
}
EAST_ASIAN = ("CJK", "KANA", "HANGUL")  # a character is a word or a syllable
LETTERS_PER_EAST_ASIAN = 3  # an English text has 3 characters per Chinese one, 2.3 per Japanese one
MIXED = ("KANA", "HANGUL")  # Japanese and Korean text holds ideographs, too

# Languages that are written in one script. `main_scripts` has the names of the scripts.
SCRIPT_OF = {
    code: entry.split()[0]
    for entry in """
    LATIN en de fr it es pt nl sv da nb nn no pl cs sk ro hu fi tr et lv lt sl hr ca gl eu ga cy is
    id ms vi sw tl af sq mt yo ig ha so xh zu, CYRILLIC ru uk be bg mk ky, GREEK el, ARABIC ar fa
    ur ps, HEBREW he yi, DEVANAGARI hi mr ne, BENGALI bn as, TAMIL ta, TELUGU te, KANNADA kn,
    MALAYALAM ml, GUJARATI gu, GURMUKHI pa, SINHALA si, THAI th, LAO lo, KHMER km, MYANMAR my,
    GEORGIAN ka, ARMENIAN hy, ETHIOPIC am ti, HANGUL ko, KANA ja, CJK zh yue
    """.split(",")
    for code in entry.split()[1:]
}
SCRIPT_SUBTAG = re.compile(r"[-_][A-Za-z]{4}(?![A-Za-z])")

# Names, units and citations in another script stand in text of all languages, and are not short
# beside a short sentence. Chinese text may also cite some kana or Hangul.
MIN_SHARE_OF_LETTERS = 0.2
# Fewer are a symbol ("α") or IPA ("[θ]"), which stand in text of all languages, too.
MIN_LETTERS = 3
# Serbian, Uzbek and others are written in two scripts. Rows in a wrong language should be fewer.
MIN_SHARE_OF_ROWS = 0.05


@cache
def script_of(character: str) -> str:
    """The script of a letter: LATIN, CYRILLIC, CJK, KANA, ...; '' for what is not a letter."""
    if not character.isalpha():
        return ""
    # The compatible form of full-width, half-width, mathematical and raised letters is plain.
    plain = unicodedata.normalize("NFKC", character)[0]
    first = unicodedata.name(plain, "").replace("-", " ").split(" ")[0]
    return SCRIPTS_BY_FIRST_WORD.get(first, first)


def count_letters(text: str) -> Counter[str]:
    """The number of letters by script."""
    if text.isascii():
        letters = sum(map(str.isalpha, text))
        return Counter(LATIN=letters) if letters else Counter()
    return letters_by_script(Counter(text))


def letters_by_script(characters: Mapping[str, int]) -> Counter[str]:
    """The number of letters by script, given the number of each character."""
    counts: Counter[str] = Counter()
    for character, times in characters.items():
        if script := script_of(character):
            counts[script] += times
    return counts


def main_scripts(letters: Mapping[str, int]) -> str:
    """The scripts with a fifth or more of the letters, given their numbers, as 'CYRILLIC+LATIN'.

    The one of most letters comes first; '' if there are fewer than three letters. Those of Chinese,
    Japanese and Korean count as three. With kana or Hangul, ideographs are Japanese or Korean: such
    text is KANA or HANGUL.
    """
    weights = {
        script: number * (LETTERS_PER_EAST_ASIAN if script in EAST_ASIAN else 1)
        for script, number in letters.items()
    }
    for script in MIXED:
        with_ideographs = weights.get(script, 0) + weights.get("CJK", 0)
        if weights.get(script, 0) > MIN_SHARE_OF_LETTERS * with_ideographs:
            weights[script] = with_ideographs
            weights.pop("CJK", None)
    total = sum(weights.values())
    if total < MIN_LETTERS:
        return ""
    main = [script for script in weights if weights[script] >= MIN_SHARE_OF_LETTERS * total]
    return "+".join(sorted(main, key=lambda script: (-weights[script], script)))


def usual_scripts(language: str) -> set[str]:
    """The scripts of a language, as `script_of` has them; none if it may have several."""
    script = "" if SCRIPT_SUBTAG.search(language) else SCRIPT_OF.get(base_language(language), "")
    return {script, "CJK"} if script in MIXED else {script} - {""}


def accepted_scripts(counts: Mapping[str, int]) -> set[str]:
    """Those `main_scripts` that a language has, given the number of its rows with each.

    A script of the language comes first in 5% or more of the rows that have one. A row is accepted
    if it has such a script among others, or none. Rows of Japanese may be ideographs only.
    """
    first: Counter[str] = Counter()
    for scripts, rows in counts.items():
        if scripts:
            first[scripts.split("+")[0]] += rows
    own = {script for script, rows in first.items() if rows >= MIN_SHARE_OF_ROWS * first.total()}
    if "KANA" in own:
        own.add("CJK")
    return {scripts for scripts in counts if not scripts or own.intersection(scripts.split("+"))}
