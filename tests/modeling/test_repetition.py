"""What is a loop in a text."""

import pytest

from translate_ddp.modeling.repetition import find_loop


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no no no no", True),
        ("he asked : no . . . yes", False),
        ("a b a b a b end", True),
        ("a b a b a", False),
        ("start a b c d a b c d a b c d", True),
        ("hahahaha", False),
        ("", False),
        ("好 好 好 好 好", True),
        ("一 二 三 四 五 六 七 八 九 十 甲 乙 丙 " * 3, False),  # thirteen words
    ],
)
def test_a_loop_is_several_words_three_times_or_one_four_times_in_a_row(text: str, expected: bool):
    assert bool(find_loop(text.split())) is expected
