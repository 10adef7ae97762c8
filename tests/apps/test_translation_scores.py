"""Marked differences against hand-worked ones, and the worst sentences against sacreBLEU."""

import random

import pytest
import sacrebleu

from tests.helpers.texts import ODD_TEXTS, SCRIPTS
from translate_ddp.apps.reporting.page_template import MAX_CHARACTERS
from translate_ddp.apps.reporting.translation_scores import marked, split_words, worst
from translate_ddp.run_record import TextRow
from translate_ddp.text import normalize

RANDOM = random.Random(0)
WORDS = "the old man reads a long letter in his garden and then goes home".split()


def rows_of(count: int) -> list[TextRow]:
    """Sentences of 3 to 20 words, whose translations have some other words."""
    rows = []
    for _ in range(count):
        words = RANDOM.choices(WORDS, k=RANDOM.randint(3, 20))
        others = [RANDOM.choice(WORDS) if RANDOM.random() < 0.3 else word for word in words]
        rows.append((" ".join(words) + ".", " ".join(words).upper(), " ".join(others).upper()))
    return rows


@pytest.mark.parametrize(
    ("reference", "text", "expected"),
    [
        ("the old man", "the old man", [("the old man", False)]),
        ("the old man", "the young man", [("the ", False), ("young", True), (" man", False)]),
        ("a b c", "a x y c", [("a ", False), ("x y", True), (" c", False)]),
        ("a b c", "a c", [("a c", False)]),
        ("a dog", "a dog.", [("a dog", False), (".", True)]),
        ("The dog", "the dog", [("the", True), (" dog", False)]),
        ("我们去公园", "我们去花园", [("我们去", False), ("花", True), ("园", False)]),
        ("हिन्दी भाषा", "हिन्दू भाषा", [("हिन्दू", True), (" भाषा", False)]),
        ("a", "", []),
        ("", "a b", [("a b", True)]),
        ("a b", "  a \t b\n", [("a b", False)]),
    ],
)
def test_words_that_the_reference_lacks_are_marked(
    reference: str, text: str, expected: list[tuple[str, bool]]
):
    assert marked(reference, text) == expected


@pytest.mark.parametrize("text", [*SCRIPTS, *ODD_TEXTS])
def test_marked_parts_make_up_the_normalized_text(text: str):
    shown = "".join(part for part, _ in marked(SCRIPTS[0], text))
    whole = normalize(text)
    assert shown == (whole if len(whole) <= 300 else f"{whole[:300]}…")
    assert "".join(split_words(text)) == text
    assert not any(differs for _, differs in marked(text, text))


def test_differences_of_long_texts_are_found_up_to_the_shown_length():
    words = [f"w{number}" for number in range(3000)]
    other = [*words[:5], "X", *words[6:]]
    found = marked(" ".join(words), " ".join(other))
    assert [part for part, differs in found if differs] == ["X"]
    assert "".join(part for part, _ in found) == " ".join(other)[:MAX_CHARACTERS] + "…"


def test_the_worst_sentences_are_those_of_lowest_sentence_chrf():
    rows = rows_of(50)
    expected = sorted((sacrebleu.sentence_chrf(row[2], [row[1]]).score, row) for row in rows)
    found = worst(rows, 5)
    assert found == expected[:5] and found[0][0] < found[-1][0]
    assert worst([], 5) == []
