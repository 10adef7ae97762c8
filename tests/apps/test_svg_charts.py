"""Charts: known values at known places, odd values, hostile text, files, and colours."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.charts import drawn, marks, size, svg, texts
from translate_ddp.apps.reporting.svg_charts import (
    Mark,
    Series,
    lines,
    tick_texts,
    ticks,
)

HOSTILE = "<script>alert(1)</script>\"'&<!--\u202e\x00\ud800\uffff"
SHOWN = "<script>alert(1)</script>\"'&<!--\\u202e\\x00\\ud800\ufffd"
NAN, INF = float("nan"), float("inf")


def lines_of(*series: Series, **options: Any) -> ET.Element:
    return svg(lines("Loss", series, "steps", **options))


def test_points_are_where_the_axes_say():
    chart = lines_of(Series("a", [20, 60, 100], [1000, 2000, 3000]), Series("b", [40.0], [1500]))
    text = texts(chart)
    first, second = drawn(chart, "line")
    for (x, y), x_text, y_text in zip(first, ("1,000", "2,000"), ("20", "60"), strict=False):
        assert x == pytest.approx(text[x_text][0], abs=0.1)
        assert y == pytest.approx(text[y_text][1] - 4, abs=0.1)  # the text stands below its line
    (x0, y0), (x1, y1), _ = first
    assert second == [pytest.approx(((x0 + x1) / 2, (y0 + y1) / 2), abs=0.1)]


def test_lines_have_gaps_where_values_are_not_finite_and_a_dot_after_each():
    y = [3, 2, NAN, 1, INF, *map(float, range(20))]
    chart = lines_of(Series("loss", y, range(25)))
    (path,) = (path for path in chart.iter("path") if path.get("class") == "line")
    assert path.get("d", "").count("M") == 3  # a start after each gap
    assert path.get("d", "").count("h0") == 3
    (line,) = drawn(chart, "line")
    assert len(line) == 23 and [[place] for place in line] == drawn(chart, "dots")


def test_few_points_have_dots_with_their_values():
    chart = lines_of(Series("BLEU", [10.25, 30], [1000, 3000]))
    shown = [path.findtext("title") for path in chart.iter("path") if path.get("class") == "dots"]
    assert shown == ["10.25 at 1,000", "30 at 3,000"]
    assert drawn(chart, "dots") == [[place] for place in drawn(chart, "line")[0]]
    assert not drawn(lines_of(Series("loss", range(41), range(41))), "dots")


def test_values_out_of_the_visible_range_leave_the_chart():
    y = [9, 2, 1.5, 1.25, 1, -40, 1e20]
    chart = lines_of(Series("a", y, range(7)), y_limits=(1, 2))
    (window,) = chart.findall("svg")
    _, top, _, height = map(float, window.get("viewBox", "").split())
    first, *between, last, far = (place for _, place in drawn(chart, "line")[0])
    assert first < top and last > top + height and far == -100_000  # browsers draw with 32 bits
    assert all(top < place < top + height for place in between)
    assert between == sorted(between) and between[-1] - between[0] > height / 2  # not flat


def test_marks_have_a_text_a_place_and_a_legend():
    found = [
        Mark(1000, "resumed", "launch 2"),
        Mark(500, "skipped", "1 step"),
    ]
    chart = lines_of(Series("loss", [2, 1], [0, 500]), marks=found)
    (start, _), (end, _) = drawn(chart, "line")[0]
    assert marks(chart, "skipped") == {"1 step": pytest.approx(end, abs=0.1)}
    # The axis covers the marks.
    assert marks(chart, "resumed") == {"launch 2": pytest.approx(2 * end - start, abs=0.1)}
    assert {"resumed", "skipped"} <= texts(chart).keys()


def odd_charts() -> Iterator[str]:
    for name, y, x in (
        ("one", [5.0], [7.0]),
        ("equal", [5.0, 5.0], [1.0, 2.0]),
        ("negative", [-5.0, 2.0], [1.0, 2.0]),
        ("empty", [], []),
        ("no value", [NAN, INF], [1, 2]),
        ("huge", [-3e38, 3e38], [1, 2]),
        ("tiny", [5e-324, 0], [5e-324, 0]),
        ("almost equal", [1 + 1e-15, 1], [1e15, 1e15 + 1]),
    ):
        yield lines(name, [Series("a", y, x), Series("b", y, x)], "x")


@pytest.mark.parametrize("chart", list(odd_charts()))
def test_charts_of_odd_values_stay_within_their_area(chart: str):
    found = svg(chart)
    width, height = size(found)
    for kind in ("line", "dots"):
        for x, y in (place for each in drawn(found, kind) for place in each):
            assert 0 <= x <= width and 0 <= y <= height
    for x, y in texts(found).values():
        assert 0 <= x <= width and -20 <= y <= height


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((0, 1), ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ((0, 1800), ["0", "500", "1,000", "1,500", "2,000"]),
        ((0, 12_345), ["0", "2.5k", "5k", "7.5k", "10k", "12.5k"]),
        ((41.0, 41.03), ["41", "41.01", "41.02", "41.03"]),
        ((1.41234, 1.41237), ["1.41234", "1.41235", "1.41236", "1.41237"]),
        ((-3e-7, 5e-7), ["-4e-07", "-2e-07", "0", "2e-07", "4e-07", "6e-07"]),
        ((0, 0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ((5, 5), ["5", "6", "7", "8", "9", "10"]),
        ((1, 1 + 1e-15), ["1", "1.2", "1.4", "1.6", "1.8", "2"]),
        ((-3, 17), ["-5", "0", "5", "10", "15", "20"]),
        ((5, 2e9), ["0", "500,000k", "1e+06k", "1.5e+06k", "2e+06k"]),
    ],
)
def test_ticks_are_few_round_numbers_that_cover_the_values(
    limits: tuple[float, float], expected: list[str]
):
    found = ticks(*limits)
    assert found[0] <= limits[0] + 1e-15 and found[-1] >= limits[1] - 1e-15
    assert tick_texts(found) == expected


def test_charts_escape_all_text_and_cut_long_names():
    series = [Series(HOSTILE, [1, 2], [1, 2]), Series("x" * 10_000, [1, 2], [1, 2])]
    chart = lines(HOSTILE, series, HOSTILE, marks=[Mark(1, "skipped", HOSTILE)])
    assert not re.search("<script|<!--|\u202e|\x00|\ud800|\uffff", chart)
    assert SHOWN in svg(chart).findtext("desc", "")
    assert "alert" not in re.sub("&lt;script&gt;.*?&lt;/script&gt;", "", chart)
    assert max(map(len, texts(svg(chart)))) < 60
