"""The scripts of text, and those that a language has."""

from collections import Counter

import pytest

from translate_ddp.data.cleaning import Cleaner
from translate_ddp.data.scripts import accepted_scripts, count_letters, main_scripts, script_of


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
    assert main_scripts(count_letters(text)) == scripts


def test_script_of_a_letter_and_of_other_characters():
    assert [script_of(each) for each in "aßя中の1ा😀ʼ"] == [
        *("LATIN", "LATIN", "CYRILLIC", "CJK", "KANA", "", "", "", "")
    ]


def test_letters_of_addresses_do_not_count():
    row = ("请看 https://example.com/a/long/path", "अब देखो https://example.com/a/long/path")
    assert Cleaner("strict")(row).scripts == ("CJK", "DEVANAGARI")


def test_scripts_of_few_rows_are_not_accepted():
    accepted = accepted_scripts({"CYRILLIC": 960, "LATIN": 30, "CJK": 10, "": 5})
    assert accepted == {"CYRILLIC", ""}


def test_language_of_two_scripts_is_accepted():
    serbian = {"CYRILLIC": 900, "LATIN": 90, "ARABIC": 10}
    assert accepted_scripts(serbian) == {"CYRILLIC", "LATIN"}


def test_names_in_another_script_are_accepted():
    counts = {"CYRILLIC": 900, "CYRILLIC+LATIN": 30, "LATIN+CYRILLIC": 20, "LATIN+GREEK": 5}
    assert accepted_scripts(counts) == {"CYRILLIC", "CYRILLIC+LATIN", "LATIN+CYRILLIC"}


def test_ideographs_are_japanese_but_kana_is_not_chinese():
    assert accepted_scripts({"KANA": 97, "CJK": 2, "LATIN": 1}) == {"KANA", "CJK"}
    assert accepted_scripts({"KANA": 2, "CJK": 97, "LATIN": 1}) == {"CJK"}


def test_share_of_a_script_is_one_of_the_rows_with_letters():
    assert accepted_scripts({"": 900, "LATIN": 60, "THAI": 40}) == {"", "LATIN", "THAI"}
    assert accepted_scripts(Counter()) == set()
    assert accepted_scripts({"": 3}) == {""}
