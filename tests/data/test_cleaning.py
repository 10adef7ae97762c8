"""Rules that decide from one row whether it is a usable pair."""

import random
import unicodedata

import pytest

from translate_ddp.data.cleaning import (
    CONTROL_CHARACTERS,
    EMPTY,
    INVALID_UNICODE,
    MAX_CHARACTERS,
    NOT_TEXT,
    REASONS,
    TOO_LONG,
    Cleaned,
    Cleaner,
    Level,
)

LEVELS: list[Level] = ["none", "safe", "strict"]


def reasons(src: str | None, tgt: str | None) -> list[str]:
    """Why each level drops the row."""
    return [Cleaner(level)((src, tgt)).reason for level in LEVELS]


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [
        (None, "ja", NOT_TEXT),
        ("", None, NOT_TEXT),
        ("", "leer", EMPTY),
        ("blank", " \t\u3000", EMPTY),
        ("nul\0", "Null", INVALID_UNICODE),
        ("nul", "\ufffd", INVALID_UNICODE),
        ("half \ud83d", "halb", INVALID_UNICODE),
    ],
)
def test_every_level_drops_what_cannot_be_trained_on(src: str | None, tgt: str | None, reason: str):
    assert reasons(src, tgt) == [reason] * 3


@pytest.mark.parametrize(
    ("src", "reason"),
    [
        ("x" * MAX_CHARACTERS + "y", TOO_LONG),
        ("बड़ा\u001b[0m", CONTROL_CHARACTERS),
        ("a\u0093quoted\u0094 word", CONTROL_CHARACTERS),  # Windows-1252 read as Latin-1
        ("delete\x7f", CONTROL_CHARACTERS),
    ],
)
def test_level_none_keeps_what_the_others_drop(src: str, reason: str):
    for row in (src, "kurz"), ("kurz", src):
        assert reasons(*row) == ["", reason, reason]


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("x" * MAX_CHARACTERS, "y" * MAX_CHARACTERS),
        ("a\ttab, \r\nlines\x85and\u2028more\ufeff", "Tab und Zeilen und mehr noch"),
        ("می\u200cخواهم \u200eX", "I want X"),  # format characters that Persian and Arabic need
        ("क्\u200dष", "ksha"),
        ("soft\u00adhyphen, no-break\u00a0space", "trait d’union, espace\u202f!"),
        ("\ue000 private use", "privat"),
        ("👩‍👩‍👧‍👦 family", "👩‍👩‍👧‍👦 Familie"),
    ],
)
def test_unusual_text_is_kept_by_every_level(src: str, tgt: str):
    assert reasons(src, tgt) == ["", "", ""]


def test_text_is_normalized_also_that_of_dropped_rows():
    assert Cleaner("safe")((" e\u0301\n", "x\t y")) == Cleaned("é", "x y", "")
    assert Cleaner("none")((None, " x ")) == Cleaned("", "x", NOT_TEXT)


def test_text_of_dropped_rows_can_be_written_as_utf_8():
    for row in ("\ud800a", "b"), (None, "\udfff"), ("", "\ud900"):
        cleaned = Cleaner("none")(row)
        assert "\ufffd" in (cleaned.src + cleaned.tgt).encode().decode()


SHARED = [  # all languages share these texts
    "https://example.com/a?b=c#d",
    "www.example.com",
    "someone@example.com",
    "See: https://example.com",
    "/kæt/",
    "ˈθiːtə",
    "[ˈɹɪvə]",
    "👍🏽 😀",
    "❤",
    "2024-05-01",
    "...",
    "1,000 + 2 = 1,002",
]


@pytest.mark.parametrize("text", [text for text in SHARED if text[0] != "S"])
def test_addresses_ipa_emoji_and_numbers_pass_unchanged(text: str):
    assert reasons(text, text) == ["", "", ""]


@pytest.mark.parametrize("text", SHARED)
def test_addresses_ipa_emoji_and_numbers_pass_within_sentences(text: str):
    assert reasons(f"Look at {text} now", f"Schau jetzt {text} an") == ["", "", ""]
    assert reasons(f"现在看{text} 吧", f"अब {text} देखो") == ["", "", ""]


def near(src: str, tgt: str) -> str:
    cleaned = Cleaner("strict")((src, tgt))
    assert not cleaned.reason
    return cleaned.near


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("Page 3 of 5", "Seite 3 von 5"), ("page 4 of 7!", "Seite 4 von 7")),
        (("तीन, बिल्ली।", "Three cats"), ("तीन बिल्ली", "three cats?")),
        (("你好，世界。", "Hello, world."), ("你好世界", "hello world")),
        (("第３章", "chapter 3"), ("第4章", "Chapter ４")),
        (("ПРИВЕТ «мир»", "سلام، دنیا؟"), ("привет мир", "سلام دنیا")),
        (("no-break\u00a0space", "ሰላም፡ ዓለም።"), ("nobreak\u200b space", "ሰላም ዓለም")),
    ],
)
def test_near_duplicates_have_the_same_key(one: tuple[str, str], other: tuple[str, str]):
    assert near(*one) == near(*other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("cat", "Katze"), ("cats", "Katze")),
        (("cat", "Katze"), ("cat", "Kater")),
        (("cat", "Katze"), ("catk", "atze")),  # the border of the sides counts
        (("कि", "that"), ("का", "that")),  # vowel signs are not punctuation
        (("ไม่", "no"), ("ไม้", "no")),  # nor are tone marks
        (("love 😀", "Liebe"), ("love 😢", "Liebe")),
        (("A+", "eins"), ("A=", "eins")),
    ],
)
def test_other_letters_and_symbols_have_another_key(one: tuple[str, str], other: tuple[str, str]):
    assert near(*one) != near(*other)


def test_rows_of_digits_and_punctuation_have_no_key_and_none_below_strict():
    assert near("12.", "(12)") == ""
    assert Cleaner("safe")(("a", "b"))[3:] == ("", ("", ""))


def test_every_reason_is_listed_once_in_the_order_of_a_report():
    assert len(set(REASONS)) == len(REASONS) == 13
    assert REASONS[-4:] == ("wrong script", "duplicate", "near duplicate", "also in validation")


def test_random_rows_are_cleaned_without_an_error_and_once_is_enough():
    generator = random.Random(0)
    cleaners = [Cleaner(level) for level in LEVELS]
    ranges = [(0, 0x250), (0x250, 0x3000), (0x3000, 0x110000), (0x30, 0x3A)]
    for _ in range(3000):
        src, tgt = (
            "".join(chr(generator.randrange(*generator.choice(ranges))) for _ in range(12))
            for _ in range(2)
        )
        found = [cleaner((src, tgt)) for cleaner in cleaners]
        for cleaner, cleaned in zip(cleaners, found, strict=True):
            assert cleaned.reason in ("", *REASONS)
            assert unicodedata.is_normalized("NFC", cleaned.src + "\n" + cleaned.tgt)
            if not cleaned.reason:
                assert cleaner((cleaned.src, cleaned.tgt)) == cleaned
        dropped = [bool(cleaned.reason) for cleaned in found]
        assert dropped == sorted(dropped)  # a stricter level drops more
