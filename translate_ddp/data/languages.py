"""What is known of languages: their codes and names, the scripts of text, and its language."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cache
from itertools import chain, product
from typing import Any

import langcodes
from langcodes.registry_parser import parse_registry

from translate_ddp.text import OTHER_CODES, base_language, normalize

# Where the first name in IANA's registry is not the usual one: of languages, scripts and regions.
USUAL_NAMES = {
    entry.partition("=")[0]: entry.partition("=")[2].split("/")
    for entry in """
    dv=Divehi el=Greek fy=Frisian gd=Gaelic ky=Kyrgyz nb=Norwegian nn=Nynorsk or=Odia pa=Punjabi
    ps=Pashto st=Sotho tn=Setswana ug=Uyghur Hans=Simplified Hant=Traditional AU=Australian
    BR=Brazilian CA=Canadian ES=European GB=British/UK MX=Mexican PT=European US=American
    """.split()
}
SEPARATORS = re.compile(r"[\s_.:,/()\[\]@-]+")  # between words of a name, and parts of a code
LONGEST_NAME = 6  # words of a language's name
REGIONAL = re.compile("[a-z]{2,3}([-_][A-Z][a-z]{3})?([-_]([A-Z]{2}|[0-9]{3}))?")

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

SCANNED_CHARACTERS = 300  # at the start of a text, which identify its language
# The log-odds grow with the text, but its words are not independent: the odds of a clear text are
# at least this value times the root of its bytes (py3langid scales its probabilities in this way).
CLEAR = math.log(9)


def spellings(code: str) -> list[str]:
    """The code, and the other codes of the language: de, deu, ger and deu_Latn, in any order.

    A code with a region, or with a script that is not the usual one, has no others.
    """
    base, codes = base_language(code), [code]
    with suppress(LookupError, langcodes.LanguageTagError):  # it is not in ISO 639
        language = langcodes.Language.make(base)
        with_script = f"{language.to_alpha3('T')}_{language.maximize().script}"
        if code.isalpha() or code.replace("-", "_") == with_script:
            codes += [base, language.to_alpha3("T"), language.to_alpha3("B"), with_script]
            codes += [other for other, usual in OTHER_CODES.items() if usual == base]
    return list(dict.fromkeys(codes))


def written(code: str) -> list[str]:
    """How names of files and columns write a code: of zh_CN also zh-CN, zh-cn, zho_CN, ..."""
    base, *part = re.split("[_@-]", code, maxsplit=1)
    parts = {text: None for each in part for text in (each, each.lower(), each.upper())}
    bases = filter(str.isalpha, spellings(base))
    found = (f"{b}{s}{p}" for b in bases for s in "_-@" for p in parts)
    return list(dict.fromkeys([*spellings(code), *found]))


@cache
def column_names(code: str) -> list[str]:
    """What a column of the language is usually called: its codes, and its English names.

    Codes of two letters come last: `id` and `no` are also names of columns with numbers. With a
    region or script, all names have it, as `Portuguese (Brazil)` and `Brazilian Portuguese`.
    """
    base, *parts = re.split("[_@-]", code)
    codes, names = written(code), registered("language").get(base_language(base), [])
    if parts:
        has_scripts = SCRIPT_OF.get(base_language(base), "CJK") == "CJK"
        if has_scripts and parts[0].upper() in registered("region"):  # zh_TW is written in Hant
            parts.append(langcodes.get(f"{base}-{parts[0]}").maximize().script or "")
            codes += written(f"{base}_{parts[-1]}")
        places = registered("region") | registered("script")
        keys = chain.from_iterable((part, part.upper(), part.title()) for part in parts)
        pairs = product(names, chain(parts, *(places.get(key, []) for key in keys)))
        names = [text for name, part in pairs for text in (f"{name} {part}", f"{part} {name}")]
    return sorted([*codes, *names], key=lambda name: len(name) == 2)


def folded(name: str) -> str:
    """The name in lower case, with one space between its words: `pt br` for `pt-BR`."""
    return SEPARATORS.sub(" ", normalize(name).casefold()).strip()


@cache
def folded_names(code: str) -> frozenset[str]:
    """The `column_names` of a code, `folded`."""
    return frozenset(map(folded, column_names(code)))


def names_other(text: str, code: str) -> bool:
    """Whether a text has a longer name that is of another language: Norwegian Nynorsk, not nb."""
    words, base = folded(text).split(), base_language(code)
    places = ((at, n) for n in range(2, LONGEST_NAME + 1) for at in range(len(words) - n + 1))
    names = (" ".join(words[at : at + n]) for at, n in places)
    return any(base_language(language_codes().get(name, base)) != base for name in names)


def variant_of(text: str, code: str) -> str | None:
    """The region or script of a code of this language, '' of its name or a code without; else None.

    A code with a region or script has no others.
    """
    if folded(text) in folded_names(code):
        return ""
    base, *parts = SEPARATORS.split(text)
    is_plain = REGIONAL.fullmatch(text) and len(SEPARATORS.split(code)) == 1
    return " ".join(parts) if is_plain and base_language(base) == base_language(code) else None


def is_language(text: str) -> bool:
    """Whether the text is an English name of a language, in any case, or a code such as it or IT.

    `It` is a word. A region may follow, as in `pt_BR` and `Portuguese (Brazil)`.
    """
    is_plain = text in (text.lower(), text.upper()) or REGIONAL.fullmatch(text)
    base = base_language(text) if is_plain else ""
    is_code = len(base) == 2 and len(spellings(base)) > 1
    return is_code or len(language_codes().get(folded(text.partition(" (")[0]), "")) == 2


def language_name(code: str) -> str:
    """The English name of a language without its region, or its code if the name is not known."""
    return registered("language").get(base_language(code), [code])[0]


@cache
def language_codes() -> dict[str, str]:
    """The codes of languages by their English names, `folded`; of several the shortest."""
    named = sorted(registered("language").items(), key=lambda item: -len(item[0]))
    return {folded(name): code for code, names in named for name in names}


@cache
def registered(kind: str) -> dict[str, list[str]]:
    """The names of languages, regions or scripts in IANA's registry, by code; takes 0.1 s."""
    rows = (row for row in parse_registry() if row["Type"] == kind)
    names = {row["Subtag"]: [re.split(r" \(|,", n)[0] for n in row["Description"]] for row in rows}
    return {code: [*USUAL_NAMES.get(code, []), *names[code]] for code in names}


@cache
def script_of(character: str) -> str:
    """The script of a letter: LATIN, CYRILLIC, CJK, KANA, ...; '' for what is not a letter."""
    if not character.isalpha():
        return ""
    # The compatible form of full-width, half-width, mathematical and raised letters is plain.
    plain = unicodedata.normalize("NFKC", character)[0]
    first = unicodedata.name(plain, "").replace("-", " ").split(" ")[0]
    return SCRIPTS_BY_FIRST_WORD.get(first, first)


def count_letters(characters: Mapping[str, int]) -> Counter[str]:
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
    """The `main_scripts` that a language has, given the number of its rows with each.

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


@cache
def language_identifier() -> Any:
    """The model of py3langid: loaded in 0.7 s, without a network; 70 MiB until it is cleared."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


class Direction:
    """Compares texts with two languages, if py3langid knows both."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._identifier = copy(language_identifier())
        self._codes = [base_language(code) for code in languages]
        self.unknown = [code for code in self._codes if code not in self._identifier.labels]
        if not self.unknown:
            self._identifier.set_languages(self._codes)

    def lean(self, text: str) -> float:
        """The log-odds of the first language and the second; 0: one is unknown."""
        if self.unknown:
            return 0.0
        scores = dict(self._identifier.rank(text))
        return scores[self._codes[0]] - scores[self._codes[1]]

    def __call__(self, pair: tuple[str, str]) -> int:
        """1 if the sides are in the languages of their columns, -1 if in each other's, else 0.

        Both sides must show it clearly.
        """
        texts = [text[:SCANNED_CHARACTERS] for text in pair]
        src, tgt = (self.lean(text) / math.sqrt(len(text.encode()) or 1) for text in texts)
        return int(src >= CLEAR and tgt <= -CLEAR) - int(tgt >= CLEAR and src <= -CLEAR)
