"""Numbers and counts as short text."""

import math

from translate_ddp.quantities import counted, number


def test_numbers_have_four_significant_digits_or_are_whole():
    shown = [number(value) for value in (0, 0.123456, 36.272, 1780, 12345.67, 71_200, math.nan)]
    assert shown == ["0", "0.1235", "36.27", "1,780", "12,346", "71,200", "nan"]


def test_counts_of_one_are_singular():
    shown = [counted(count, "pair") for count in (0, 1, 2, 1200)]
    assert shown == ["0 pairs", "1 pair", "2 pairs", "1,200 pairs"]
