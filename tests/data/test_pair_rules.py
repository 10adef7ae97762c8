"""Rules of strict cleaning: what in a pair shows that one side does not translate the other."""

import pytest

from translate_ddp.data.cleaning import (
    LENGTH_RATIO,
    MAX_CHARACTERS,
    NUMBERS_DIFFER,
    SOURCE_EQUALS_TARGET,
    URLS_DIFFER,
    Cleaner,
)


def strict(src: str, tgt: str) -> str:
    """Why strict cleaning drops the row, which must not depend on the direction."""
    reason, other = (Cleaner("strict")(row).reason for row in ((src, tgt), (tgt, src)))
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
        (  # Article 1 of the Universal Declaration of Human Rights
            "人人生而自由,在尊严和权利上一律平等。",
            "All human beings are born free and equal in dignity and rights.",
            False,
        ),
        (
            "人人生而自由,在尊严和权利上一律平等。",
            "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
            False,
        ),
        (
            "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
            "All human beings are born free and equal in dignity and rights.",
            False,
        ),
        (
            "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
            "すべての人間は、生まれながらにして自由であり、尊厳と権利とについて平等である。",
            False,
        ),
        (
            "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
            "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
            False,
        ),
    ],
)
def test_sides_of_very_different_length_are_dropped(src: str, tgt: str, differs: bool):
    assert strict(src, tgt) == (LENGTH_RATIO if differs else "")


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
