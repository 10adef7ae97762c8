"""Rules that decide from one row whether it is a usable pair."""

import random
import unicodedata
from itertools import combinations

import numpy as np
import pytest

from translate_ddp.data.cleaning import (
    CONTROL_CHARACTERS,
    EMPTY,
    INVALID_UNICODE,
    LABELS,
    LENGTH_RATIO,
    MAX_CHARACTERS,
    NO_LABEL,
    NOT_TEXT,
    NUMBERS_DIFFER,
    REASONS,
    SOURCE_EQUALS_TARGET,
    TOO_LONG,
    URLS_DIFFER,
    Cleaned,
    clean_row,
    clean_rows,
    labels_of,
)
from translate_ddp.settings import CleanLevel

LEVELS: list[CleanLevel] = ["none", "safe", "strict"]


def reasons(src: str | None, tgt: str | None) -> list[str]:
    """Why each level drops the row."""
    return [clean_row(level, (src, tgt)).reason for level in LEVELS]


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
        ("mark \ufdd0", "Zeichen", INVALID_UNICODE),  # stands for a span
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
    assert clean_row("safe", (" e\u0301\n", "x\t y")) == Cleaned("é", "x y", "")
    assert clean_row("none", (None, " x ")) == Cleaned("", "x", NOT_TEXT)


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
    cleaned = clean_row("strict", (src, tgt))
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
    assert clean_row("safe", ("a", "b"))[3:] == ("", ("", ""))


def test_half_a_character_of_a_dropped_row_can_be_written():
    cleaned = clean_rows("none", [("file", 7, "half \ud83d", "halb")])
    assert cleaned.lines == b"half ?\thalb\n" and cleaned.files == [("file", 1)]
    assert cleaned.records[["row", "label"]].tolist() == [(7, LABELS[INVALID_UNICODE])]


def test_random_rows_are_cleaned_without_an_error_and_once_is_enough():
    generator = random.Random(0)
    ranges = [(0, 0x250), (0x250, 0x3000), (0x3000, 0x110000), (0x30, 0x3A)]
    for _ in range(3000):
        src, tgt = (
            "".join(chr(generator.randrange(*generator.choice(ranges))) for _ in range(12))
            for _ in range(2)
        )
        found = [clean_row(level, (src, tgt)) for level in LEVELS]
        for level, cleaned in zip(LEVELS, found, strict=True):
            assert cleaned.reason in ("", *REASONS)
            assert unicodedata.is_normalized("NFC", cleaned.src + "\n" + cleaned.tgt)
            if not cleaned.reason:
                assert clean_row(level, (cleaned.src, cleaned.tgt)) == cleaned
            # A level also finds its labels among the labels of a stricter one.
            strict_label = np.array([LABELS.get(found[-1].reason, NO_LABEL)])
            assert labels_of(level, strict_label) == [LABELS.get(cleaned.reason, NO_LABEL)]
        dropped = [bool(cleaned.reason) for cleaned in found]
        assert dropped == sorted(dropped)  # a stricter level drops more


def strict(src: str, tgt: str) -> str:
    """Why strict cleaning drops the row, which must not depend on the direction."""
    reason, other = (clean_row("strict", row).reason for row in ((src, tgt), (tgt, src)))
    assert reason == other
    return reason


@pytest.mark.parametrize(
    ("src", "tgt", "same_words"),
    [
        ("Hello there", "hello THERE", True),
        ("नमस्ते दुनिया", "नमस्ते दुनिया", True),
        ("你好", "你好", True),
        ("สวัสดี", "สวัสดี", True),
        ("ПРИВЕТ", "привет", True),
        ("See https://a.org", "see https://a.org", True),
        ("Bu gecə kitab aldım", "Bu gecə kitab aldım", True),  # a letter that IPA uses, too
        ("Hello there", "Hello there!", False),
        ("नमस्ते", "नमस्ते जी", False),
        ("سلام", "ሰላም", False),
        ("42", "42", False),
    ],
)
def test_sides_of_the_same_words_are_dropped(src: str, tgt: str, same_words: bool):
    assert strict(src, tgt) == (SOURCE_EQUALS_TARGET if same_words else "")


@pytest.mark.parametrize(
    ("src", "tgt", "differs"),
    [
        ("The cat sat on the mat and went to sleep.", "@@", True),
        ("猫", "The cat sat on the mat and then it went back to sleep.", True),
        ("बिल्ली", "The cat sat on the mat and then it went back to sleep again.", True),
        ("ድመት", "The cat sat on the mat and then it went back to sleep.", True),
        ("แมว", "The cat sat on the mat and then it went back to sleep.", True),
        ("OK", "In Ordnung, so machen wir es dann eben alle zusammen.", True),
        ("Hi", "Guten Tag zusammen!", False),
        ("EU", "Europäische Union", False),
        ("画蛇添足", "to ruin the effect by adding something superfluous", False),
    ],
)
def test_sides_of_very_different_length_are_dropped(src: str, tgt: str, differs: bool):
    assert strict(src, tgt) == (LENGTH_RATIO if differs else "")


ARTICLE_1 = [  # of the Universal Declaration of Human Rights
    "All human beings are born free and equal in dignity and rights.",
    "人人生而自由,在尊严和权利上一律平等。",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "すべての人間は、生まれながらにして自由であり、尊厳と権利とについて平等である。",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
]


def test_length_of_a_sentence_depends_little_on_its_script():
    assert not any(strict(*pair) for pair in combinations(ARTICLE_1, 2))


@pytest.mark.parametrize(
    ("src", "tgt", "differ"),
    [
        ("12 dogs", "21 Hunde", True),
        ("It costs 5 €", "Es kostet 8 €", True),
        ("मेरे पास १२ किताबें हैं", "I have 13 books", True),
        ("٢٠٢٠ عام", "the year 2021", True),
        ("2019年", "2020年", True),
        ("in 1984", "damals", True),
        ("4567 men", "Männer", True),
        ("12 dogs", "zwölf Hunde", False),
        ("forty-two dogs", "42 Hunde", False),
        ("a thousand dogs", "1 000 Hunde", False),
        ("मेरे पास १२ किताबें हैं", "I have 12 books", False),
        ("عام ٢٠٢٠", "the year 2020", False),
        ("ปี ๒๕๖๓", "in 2563", False),
        ("1984 was", "一九八四年", False),
        ("256", "二百五十六", False),
        ("in 1984", "በ፲፱፻፹፬", False),
        ("1,234,567.89", "1.234.567,89", False),
        ("three of 1,234", "3 von 1234", False),
        ("1\u202f234 of six", "1'234 von 6", False),
        ("12,34,567 रुपये", "1,234,567 rupees", False),
        ("$5.00", "5 €", False),
        ("1.5 million", "1 500 000", False),
        ("15亿人", "1.5 billion people", False),
        ("10,000 people", "1万人", False),
        ("on 12/31/2020", "am 31.12.2020", False),
        ("March 3, 2020", "2020年3月3日", False),
        ("May 03", "3. Mai", False),
        ("May 3 2019", "Mai 2019", False),
        ("12/31/2015", "31.12.15", False),  # also years that may be hours
        ("3 pm in 2015", "15 Uhr im Jahr 15", False),
        ("12/31/2015", "31.12.16", True),
        ("at 3:30 pm", "um 15:30 Uhr", False),
        ("at 8 pm", "um 20 Uhr", False),
        ("5 dogs at 3 pm", "fünf Hunde um 15:00", False),
        ("at 12:30 am", "um 0:30 Uhr", False),
        ("at 12 am", "um 24 Uhr", False),
        ("at 13 am", "um 25 Uhr", True),
        ("in the 1990s", "in den 90er Jahren", False),
        ("the 21st century", "das 21. Jahrhundert", False),
        ("the 20th century", "XX век", False),
        ("9" * 9_000, "9" * 9_000 + " !", False),  # int reads at most 4,300 digits
    ],
)
def test_sides_with_other_numbers_are_dropped(src: str, tgt: str, differ: bool):
    assert strict(src, tgt) == (NUMBERS_DIFFER if differ else "")


@pytest.mark.parametrize(
    ("src", "tgt", "differ"),
    [
        ("See https://a.org/b now", "Siehe jetzt", True),
        ("See https://a.org/en", "Siehe https://a.org/de", True),
        ("Write to me@a.org", "Schreibe an you@a.org", True),
        ("看www.a.org吧", "www.b.org देखो", True),
        ("See https://a.org/b.", "Siehe (www.a.org/b)!", False),
        ("请访问https://a.org/b了解", "https://a.org/b पर जाएँ", False),
        ('<a href="https://a.org">this</a>', '<a href="https://a.org">dies</a>', False),
        ("<a href='https://a.org'>this</a>", "<a href='https://a.org'>dies</a>", False),
        ("Me@A.org and you", "Du und me@a.org", False),
        ("starts with https://", "beginnt mit https", False),
        ("@someone", "jemand", False),
    ],
)
def test_sides_with_other_addresses_are_dropped(src: str, tgt: str, differ: bool):
    assert strict(src, tgt) == (URLS_DIFFER if differ else "")


@pytest.mark.parametrize(
    "part", ["a", "a@", "http://", "1", "1,", "1 000 ", "中", "www.", "\u0301"]
)
@pytest.mark.timeout(20)  # a search that backtracks takes minutes
def test_long_runs_are_cleaned_in_linear_time(part: str):
    run = part * ((MAX_CHARACTERS - 20) // len(part))
    for _ in range(5):
        strict(f"{run} @ www. :// 1", f"{run} @ :// 2 !")
        strict(f"@ :// {run}", f"www. {run} !")
