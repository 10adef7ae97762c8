"""The scripts of text, and those that a language has."""

from collections import Counter

import pytest

from translate_ddp.data.cleaning import clean_row
from translate_ddp.data.languages import accepted_scripts, count_letters, main_scripts, script_of


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("Guten Tag", "LATIN"),
        ("Привет", "CYRILLIC"),
        ("हिन्दी में", "DEVANAGARI"),
        ("مرحبا بالعالم", "ARABIC"),
        ("สวัสดี", "THAI"),
        ("ሰላም ዓለም", "ETHIOPIC"),
        ("안녕하세요", "HANGUL"),
        ("大韓民國은 民主共和國이다", "HANGUL"),
        ("日本語の文章です", "KANA"),
        ("カメラ", "KANA"),
        ("ｶﾒﾗー", "KANA"),
        ("東京都", "CJK"),
        ("人々", "CJK"),
        ("ㄅㄆㄇ注音", "CJK"),
        ("他说日语的「の」是助词，意思和中文的「的」差不多。", "CJK"),
        ("ＦＵＬＬ ｗｉｄｔｈ", "LATIN"),
        ("𝐁𝐨𝐥𝐝 𝓉ℯ𝓍𝓉", "LATIN"),
        ("ˈθiːtə ʰʷ", "LATIN"),
        ("这是iPhone 15 Pro Max", "LATIN+CJK"),
        ("Мой iPhone 15", "LATIN+CYRILLIC"),
        ("Столица России — Москва (Moscow), Россия", "CYRILLIC"),
        ("", ""),
        ("12 😀 👍🏽 ❤ … +", ""),
        ("α", ""),  # a symbol
        ("[θ]", ""),  # IPA
    ],
)
def test_main_scripts_of_text(text: str, scripts: str):
    assert main_scripts(count_letters(Counter(text))) == scripts


def test_script_of_a_letter_and_of_other_characters():
    assert [script_of(each) for each in "aßя中の1ा😀ʼ"] == [
        *("LATIN", "LATIN", "CYRILLIC", "CJK", "KANA", "", "", "", "")
    ]


def test_letters_of_addresses_do_not_count():
    row = ("请看 https://example.com/a/long/path", "अब देखो https://example.com/a/long/path")
    assert clean_row("strict", row).scripts == ("CJK", "DEVANAGARI")


@pytest.mark.parametrize(
    ("counts", "accepted"),
    [
        ({"CYRILLIC": 960, "LATIN": 30, "CJK": 10, "": 5}, ["CYRILLIC", ""]),  # not of few rows
        ({"CYRILLIC": 900, "LATIN": 90, "ARABIC": 10}, ["CYRILLIC", "LATIN"]),  # as Serbian
        (  # names in another script
            {"CYRILLIC": 900, "CYRILLIC+LATIN": 30, "LATIN+CYRILLIC": 20, "LATIN+GREEK": 5},
            ["CYRILLIC", "CYRILLIC+LATIN", "LATIN+CYRILLIC"],
        ),
        ({"KANA": 97, "CJK": 2, "LATIN": 1}, ["KANA", "CJK"]),  # ideographs are Japanese,
        ({"KANA": 2, "CJK": 97, "LATIN": 1}, ["CJK"]),  # but kana is not Chinese
        ({"": 900, "LATIN": 60, "THAI": 40}, ["", "LATIN", "THAI"]),  # of the rows with letters
        ({}, []),
        ({"": 3}, [""]),
    ],
)
def test_scripts_that_a_language_has(counts: dict[str, int], accepted: list[str]):
    assert accepted_scripts(Counter(counts)) == {*accepted}
