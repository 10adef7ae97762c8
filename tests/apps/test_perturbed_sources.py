"""What is reported of input as people type it."""

from collections.abc import Sequence

import pytest

from translate_ddp.apps.commands.model_commands import Pairs
from translate_ddp.apps.commands.validate import (
    describe_perturbed,
    frequent_words,
    repeats_itself,
)
from translate_ddp.directions import LanguagePair


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("no no no no", "it", True),
        ("he asked : no . . . yes", "it", False),
        ("a b a b a b end", "it", True),
        ("a b a b a", "it", False),
        ("start a b c d a b c d a b c d", "it", True),
        ("hahahaha", "it", False),
        ("", "it", False),
        ("他说好好好好好", "zh_CN", True),
        ("哈哈哈，好", "zh_CN", False),
        ("我 的 我 的 我 的", "zh_CN", True),
        ("在一个公园里" * 2 + "。", "zh_CN", False),
        ("一二三四五六七八九十甲乙丙" * 3, "zh_CN", False),  # thirteen characters
        ("no no ", "zh_CN", False),
    ],
)
def test_repetition_is_several_words_three_times_or_one_four_times_in_a_row(
    text: str, language: str, expected: bool
):
    assert repeats_itself(text, language) is expected


def test_frequent_words_are_in_lower_case_without_punctuation_and_numbers():
    sources = ["The dog, the cat!", "«La» don't 12 12 12", "the हिन्दी भाषा। भाषा"]
    assert frequent_words(sources, "en") == ["the", "भाषा", "dog", "cat", "la", "don't", "हिन्दी"]


def test_lines_equal_those_computed_by_hand():
    asked: list[list[str]] = []

    def translate(texts: Sequence[str]) -> list[str]:
        asked.append(list(texts))
        answers = {"One two three four.": "uno due tre quattro.", "one": "uno " * 9}
        answers |= {"no no no": "no no no", "two": "d" * 33, "ONE TWO THREE FOUR.": "ma ma ma ma"}
        return [answers.get(text, "boh") for text in texts]

    sources, references = ["One two three four.", "no no no"], ["uno due tre quattro.", "no no no"]
    lines = list(
        describe_perturbed(translate, Pairs(sources, references, LanguagePair("en", "it")))
    )
    assert asked[:4] == [
        sources,
        ["one two three four.", "no no no"],
        ["ONE TWO THREE FOUR.", "NO NO NO"],
        ["One two three four", "no no no"],
    ]
    assert asked[4] == ["no", "one", "two", "three", "four"]
    assert [line.partition(":")[0] for line in lines] == [
        *("unchanged", "lower case", "upper case", "no end punctuation", "5 single words"),
    ]
    assert "BLEU 100," in lines[0] and lines[0].endswith(" 0.0% repeat themselves")
    assert "BLEU 100," not in lines[1]
    assert lines[2].endswith(" 50.0% repeat themselves")
    # "uno" nine times is 36 characters, 33 more than "one"; "d" 33 times is 30 more than "two".
    assert lines[4] == (
        "5 single words: 20.0% repeat themselves, 20.0% more than 30 characters longer"
    )
