"""Whether a pair has its languages in the right columns, by scripts and frequent words."""

import re
from collections.abc import Sequence

from translate_ddp.data.scripts import MIXED, count_letters, main_scripts
from translate_ddp.text import base_language

# Languages that are written in one script. `main_scripts` has the names of the scripts.
LANGUAGES_OF_SCRIPT = {
    "LATIN": "en de fr it es pt nl sv da nb nn no pl cs sk ro hu fi tr et lv lt sl hr ca gl eu ga"
    " cy is id ms vi sw tl af sq mt yo ig ha so xh zu",
    "CYRILLIC": "ru uk be bg mk ky",
    "GREEK": "el",
    "ARABIC": "ar fa ur ps",
    "HEBREW": "he yi",
    "DEVANAGARI": "hi mr ne",
    "BENGALI": "bn as",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "KHMER": "km",
    "MYANMAR": "my",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am ti",
    "HANGUL": "ko",
    "KANA": "ja",
    "CJK": "zh yue",
}
SCRIPT_OF = {
    code: script for script, codes in LANGUAGES_OF_SCRIPT.items() for code in codes.split()
}

# Articles, pronouns, prepositions and conjunctions: a sentence of some words has one or more.
WORDS_OF = {
    "en": "the of and to is with that for was are this it you have not from they he she",
    "de": "der die und das den ist mit ein eine nicht zu von auf im sich dem einen ich sie wir",
    "fr": "le les des et est une dans pour que qui sur pas du au je vous nous avec",
    "it": "il di che è per una con non sono della del gli nel si un ha questo",
    "es": "el los las que una con por para es en no se y su está lo del",
    "pt": "o que não uma com para os em é do da dos na um está ele",
    "nl": "het een van en dat niet op te met zijn voor ik de aan er",
    "sv": "och att det är som en på för inte av jag med till den ett",
    "da": "og at det er en på for ikke af jeg med til den et",
    "pl": "nie się na że jest do to w z jak co tak po",
    "cs": "že se na je to v a s pro jako ale jsem není",
    "ro": "și nu este în la cu pe care pentru din să un o",
    "hu": "a az és hogy nem egy is van meg ez de",
    "fi": "ja on ei se että hän oli mutta kun niin minä",
    "tr": "bir ve bu için değil ile ne çok var ben gibi",
}
WORD = re.compile(r"[^\W\d_]+")
SCRIPT_SUBTAG = re.compile(r"[-_][A-Za-z]{4}(?![A-Za-z])")
SCANNED_CHARACTERS = 1_000  # of a side


def usual_scripts(language: str) -> set[str]:
    """The scripts of a language, as `script_of` has them; none if it may have several."""
    script = "" if SCRIPT_SUBTAG.search(language) else SCRIPT_OF.get(base_language(language), "")
    if script in MIXED:
        return {script, "CJK"}
    return {script} if script else set()


class Direction:
    """Compares the sides of a pair with two languages."""

    def __init__(self, languages: tuple[str, str]) -> None:
        source, target = map(base_language, languages)
        names_script = any(SCRIPT_SUBTAG.search(code) for code in languages)  # as zh-Latn
        self._scripts = [] if names_script else [SCRIPT_OF.get(c, "") for c in (source, target)]
        words = [set(WORDS_OF.get(code, "").split()) for code in (source, target)]
        self._words = words[0] - words[1], words[1] - words[0]

    def __call__(self, pair: tuple[str, str]) -> int:
        """1 if the sides are in the languages of their columns, -1 if in each other's, else 0.

        Both sides must show it: by their script, or by words that only one of the languages has.
        """
        sides = [text[:SCANNED_CHARACTERS] for text in pair]
        if all(self._scripts) and len(set(self._scripts)) == 2:
            found = [main_scripts(count_letters(side)) for side in sides]
            return self._order(found == self._scripts, found[::-1] == self._scripts)
        if not all(self._words):
            return 0
        words = [set(WORD.findall(side.lower())) for side in sides]
        return self._order(self._are(words), self._are(words[::-1]))

    @staticmethod
    def _order(is_right: bool, is_swapped: bool) -> int:
        return int(is_right) - int(is_swapped)

    def _are(self, words: Sequence[set[str]]) -> bool:
        """Whether each side has words of its language, and none of the other one."""
        return all(
            words[side] & self._words[side] and not words[side] & self._words[1 - side]
            for side in range(2)
        )
