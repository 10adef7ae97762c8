"""Normal form of text, sentences of a line, and parts of long sentences."""

import random
import re
import unicodedata

import pytest

from tests.helpers.sentences import split_sentences
from translate_ddp.data.languages import is_language, spellings
from translate_ddp.data.sentences import cut, space_between
from translate_ddp.settings import CorpusConfig
from translate_ddp.text import (
    _base_of,
    base_language,
    has_letter,
    is_in_capitals,
    lacks_number,
    lower,
    normalize,
    sentence_case,
    separates_words,
)

# Format characters (Unicode's category Cf) without visible ones, tags and the joiners of letters.
INVISIBLE = {
    chr(code)
    for code in range(0x2070)
    if unicodedata.category(chr(code)) == "Cf"
    and not 0x600 <= code <= 0x605
    and code not in (0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x180E, 0x200C, 0x200D)
} | {"\ufeff"}


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (" a\tb\r\nc  d ", "a b c d"),
        ("\ufeff\u3000x\u2028y\ufeff\n", "x y"),
        ("perche\u0301", "perch\u00e9"),
        ("10\u202f000 \u00ab\u00a0oui\u00a0\u00bb", "10 000 \u00ab oui \u00bb"),
        ("\u5b57\u3000\u5b57", "\u5b57 \u5b57"),
        (" \u00a0\u2003\u200b", ""),
        ("\u200eZusammen\u00adarbeit,\u2009ja\u200f", "Zusammenarbeit, ja"),
        ("e\u00ad\u0301", "\u00e9"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937",
        ),
    ],
)
def test_normal_form_is_one_composed_line(text: str, normal: str):
    assert normalize(text) == normal


def test_normal_form_of_random_text_follows_its_definition():
    generator = random.Random(1)
    # Characters that change: spaces, invisible ones, compositions, singletons; and any others.
    special = " \t\n\x1c\x1f\x85\u00a0\u2000\u2028\u3000\ufeffe\u0301\u0323\u1100\u1161\u212a\u037e"
    ranges = [(0x20, 0x7F), (0, 0x300), (0x300, 0x3000), (0, 0x110000)]
    for _ in range(20_000):
        characters = special + "".join(chr(generator.randrange(*each)) for each in ranges)
        text = "".join(generator.choices(characters, k=generator.randrange(10)))
        visible = "".join(c for c in text if c not in INVISIBLE)
        blanked = "".join(" " if is_blank(c) else c for c in unicodedata.normalize("NFC", visible))
        assert normalize(text) == re.sub(" +", " ", blanked).strip()


def is_blank(character: str) -> bool:
    return character.isspace() and character != "\x1f"  # a separator of fields in no text


@pytest.mark.parametrize(
    ("codes", "language"),
    [
        ("de deu ger DE de_DE de-AT deu_Latn GER", "de"),
        ("zh zho chi cmn cmn_Hans zh-TW zho_Hant cn", "zh"),
        ("ar arb arb_Arab", "ar"),
        ("lv lav lvs_Latn", "lv"),
        ("sw swa swh_Latn", "sw"),
        ("sr srp srp_Cyrl sr@latin", "sr"),
        ("tl tgl fil", "tl"),
        ("tw twi twi_Latn", "tw"),
        ("he heb iw", "he"),
        ("cs ces cze cz", "cs"),
        ("yue yue_Hant", "yue"),
        ("nb nob nob_Latn", "nb"),
        ("pcm PCM", "pcm"),
        ("qxx qxx_Latn", "qxx"),
        ("klingonian", "klingonian"),
    ],
)
def test_all_codes_of_a_language_have_one_form(codes: str, language: str):
    assert {base_language(code) for code in codes.split()} == {language}


@pytest.mark.parametrize("code", ["", "-", "@", "x", "ab cd", "é", "١٢", "a" * 1000])
def test_text_that_is_no_code_is_its_own_language(code: str):
    assert base_language(code) == re.split("[-_@]", code)[0]


def test_long_text_is_no_code_that_is_kept():
    before = _base_of.cache_info().currsize
    assert base_language("Deu" + "-abcde" * 10_000) == "de"
    assert _base_of.cache_info().currsize == before
    with pytest.raises(ValueError, match=r"^'en-abcde.{1,50} is not a language code"):
        CorpusConfig(lang_src=("en" + "-abcde" * 6,))


def test_files_and_columns_are_named_by_any_code_of_a_language():
    assert spellings("de") == ["de", "deu", "ger", "deu_Latn"]
    for code in ("ger", "deu", "deu_Latn"):
        assert spellings(code)[0] == code and set(spellings(code)) == set(spellings("de"))
    assert set(spellings("twi")) == {"tw", "twi", "twi_Latn"}
    assert set(spellings("cs")) == {"cs", "ces", "cze", "cz", "ces_Latn"}
    assert set(spellings("tgl")) == {"tgl", "tl", "fil", "tgl_Latn"}
    assert spellings("zho_Hant") == ["zho_Hant"] and "zho_Hans" in spellings("zh")
    assert spellings("pt_BR") == ["pt_BR"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ger", True), ("LUG", True), ("German", True), ("It", False), ("the", False), ("", False)],
)
def test_codes_and_names_of_languages_are_recognised(text: str, expected: bool):
    assert is_language(text) == expected


@pytest.mark.parametrize("code", ["tr", "tur", "tur_Latn", "aze", "azj_Latn"])
def test_rules_of_a_language_hold_for_all_its_codes(code: str):
    assert lower("ISI", code) == "ısı"


@pytest.mark.parametrize(
    ("code", "expected"),
    [("en", True), ("ko", True), ("zh_CN", False), ("jpn_Jpan", False), ("TH", False)],
)
def test_languages_that_write_no_spaces_between_words(code: str, expected: bool):
    assert separates_words(code) == expected


@pytest.mark.parametrize("text", ["a", "😀 é", "中", "क", "ﬁ", "𝐀", "x" + "1" * 99])
def test_text_with_a_letter_of_any_script_has_letters(text: str):
    assert has_letter(text)


@pytest.mark.parametrize(
    "text", ["", *"😀 --- # • ? 1,234.5 … ٣ १२३ Ⅳ ½ ① ™️ 🇩🇪 5º ー".split(), "€ 100", "ℹ️ ™️"]
)
def test_text_of_digits_and_symbols_has_no_letters(text: str):
    assert not has_letter(text)
    assert split_sentences(text) == [text][: len(text)]


@pytest.mark.parametrize("line", ["", " ", "\u00a0"])
def test_empty_line_has_no_sentence(line: str):
    assert split_sentences(line) == []


def test_split_keeps_every_character_of_random_text():
    generator = random.Random(0)
    characters = "abXY .!?。？।…“”\"'()「」»«12\u00a0😀é中हिق-–"
    for _ in range(5000):
        line = normalize("".join(generator.choices(characters, k=40)))
        sentences = split_sentences(line)
        assert "".join("".join(sentences).split()) == "".join(line.split())
        assert all(sentence == sentence.strip() != "" for sentence in sentences)


def test_sentences_are_joined_as_the_language_writes_them():
    assert [space_between(code) for code in ("de", "ko", "th")] == [" "] * 3
    assert space_between("zh-Hans") == space_between("ja") == ""


def parts(text: str, limit: int) -> list[str]:
    """The parts of a text whose tokens are its characters."""
    return [text[each] for each in cut(list(text), limit)]


def test_long_sentence_is_cut_after_a_clause_else_a_word_else_anywhere():
    assert parts("abc", 3) == ["abc"]
    assert parts("aa bb, cc dd", 10) == ["aa bb,", " cc dd"]
    assert parts("a, bb cc dd", 10) == ["a, bb cc", " dd"]  # the clause is too short
    assert parts("aa bb cc", 7) == ["aa bb", " cc"]
    assert parts("aa! b, cc dd", 11) == ["aa! b,", " cc dd"]  # the sentence is too short
    assert parts("aa bb? cc, dd", 11) == ["aa bb?", " cc, dd"]
    assert parts("aa bb 3.5 dd", 9) == ["aa bb 3.5", " dd"]
    assert parts("一二三。四，五六", 7) == ["一二三。", "四，五六"]
    assert parts("abcdefgh", 3) == ["abc", "def", "gh"]
    assert parts("一二，三四五", 4) == ["一二，", "三四五"]
    assert parts("ab", 1) == ["a", "b"]


def test_parts_hold_all_tokens_within_the_limit_and_whole_characters():
    generator = random.Random(0)
    for _ in range(300):
        text = "".join(generator.choices("ab ,", k=generator.randint(0, 60)))
        limit = generator.randint(1, 12)
        found = parts(text, limit)
        assert "".join(found) == text and max(map(len, found)) <= limit
        assert all(len(part) > limit // 2 for part in found[:-1])
    # A character of three tokens: only the first is not the replacement character.
    assert cut(["x", "é", "\ufffd", "\ufffd"] * 2, 7) == [slice(0, 5), slice(5, None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WHERE IS MY MOTHER?", True),
        ("ÉCOLE D'ÉTÉ 2024", True),
        ("ΠΟΥ ΕΙΝΑΙ", True),
        ("DIE STRAßE", True),
        ("CALLE Nº 5 MADRID", True),
        ("HAWAIʻI STATE PARK", True),
        ("PRICE: 5 €", False),  # one word: it may be an abbreviation
        ("NATO", False),
        ("The NATO", False),
        ("NHK WORLD ニュース", False),
        ("5 000 €", False),
        ("", False),
    ],
)
def test_text_in_capitals_has_several_words_and_no_other_letters(text: str, expected: bool):
    assert is_in_capitals(text) == expected


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("«WHERE» IS IT?", "en", "«Where» is it?"),
        ("İKİ IŞIK", "tr", "İki ışık"),
        ("ISI İYİ", "tr", "Isı iyi"),
        ("ΠΟΥ ΕΙΝΑΙ ΑΥΤΟΣ", "el", "Που ειναι αυτος"),
        ("3 × 4", "en", "3 × 4"),
        ("", "en", ""),
    ],
)
def test_sentence_case_has_one_capital(text: str, language: str, expected: str):
    assert sentence_case(text, language) == expected


@pytest.mark.parametrize(
    ("source", "kept", "lost"),
    [
        ("20 men", ["20 Männer", "٢٠ رجلا", "२० पुरुष"], ["Männer", "30 Männer", "02 Männer"]),
        ("0, 3 or 12 men, 2.5 m", ["keine, drei oder zwölf"], []),
        ("13 men", ["13"], ["dreizehn", "3", "a-b c"]),
        (
            "1,000 men",
            ["1.000", "1 000", "1000", "1'000", "1 Tausend"],
            ["100", "1.100", "tausend"],
        ),
        ("300 of 4000", ["300 von 4.000", "300 of 4 thousand"], ["3 von 4000", "300 von 40"]),
        ("12.75 million", ["12,75 Millionen", "12.750.000"], ["12 Millionen", "12,57 Millionen"]),
        ("20,000,000", ["20 Millionen", "2000万", "20 000 000", "2,00,00,000"], ["201", "25"]),
        ("8.50 or 0.75", ["8,5 oder 0,75", "8.5 or 75 %"], ["0,57 oder 8,5", "8,5 oder 0,705"]),
        ("at 15:45", ["um 15.45 Uhr", "15h45", "at 3:45 pm"], ["um 15 Uhr", "um 16:45"]),
        ("at 4.20 pm or 17.15", ["16.20, 5.15pm", "16:20 o 17:15"], ["4.30, 17.15", "4.20"]),
        ("on 25/05/2024", ["am 25. Mai 2024", "2024-05-25"], ["am 5. Mai 2024", "25. Mai"]),
        ("the 1990s, 2003-07", ["1990, 2003-2007", "90er, 2003"], ["1980, 2003"]),
        ("1914-18", ["1914-1918", "'14 - '18"], ["1914", "1915-1918"]),
        ("the 19th, 35,000", ["XIXe, 35000", "十九 3万5千", "3만 5천"], ["19.", "19e, 36"]),
        ("3만 5천 in 40", ["35,000 in 40", "35,000"], []),
        ("25", ["25 %", "COVID-25", "二十五", "스물다섯 백"], ["52", "5", "スズメ"]),
    ],
)
def test_numbers_over_12_are_lost_unless_they_have_another_form(
    source: str, kept: list[str], lost: list[str]
):
    assert [text for text in kept if lacks_number(source, text)] == []
    assert [text for text in lost if not lacks_number(source, text)] == []
