"""Charts: bars, histograms, heat maps, files of their own; odd values and hostile text."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

from tests.helpers.charts import drawn, number, rects, size, svg, texts
from translate_ddp import quantities
from translate_ddp.apps.reporting.axes import log_ticks, ticks
from translate_ddp.apps.reporting.charts import (
    Bar,
    Mark,
    Series,
    bars,
    compact,
    heat_map,
    histogram,
    lines,
    standalone,
)

HOSTILE = "<script>alert(1)</script>\"'&<!--\u202e\x00\ud800\uffff"
SHOWN = "<script>alert(1)</script>\"'&<!--\\u202e\\x00\\ud800\ufffd"
NAN, INF = float("nan"), float("inf")


def test_bars_are_in_proportion_to_their_values():
    chart = svg(bars("Rows", [("one", 10.0, "10"), ("two", 5.0, "5")]))
    first, second = (number(rect, "width") for rect in rects(chart))
    assert first == pytest.approx(2 * second, rel=0.01)
    assert chart.findtext("desc") == "one: 10; two: 5"


def test_negative_bars_end_and_positive_ones_start_at_zero_with_their_ranges():
    items = [Bar("a", -2, "-2", -3, -1), Bar("b", 4, "+4", 3, 5, color=1)]
    chart = svg(bars("Differences", items, legend=("validation", "test")))
    first, second = rects(chart)
    zero = number(second, "x")
    assert number(first, "x") + number(first, "width") == pytest.approx(zero, abs=0.2)
    unit = number(second, "width") / 4
    assert number(first, "width") == pytest.approx(2 * unit, abs=0.2)
    ranges = [path.get("d", "") for path in chart.iter("path") if path.get("class") == "range"]
    ends = [tuple(map(float, re.findall(r"[MH]([\d.]+)", each)[:2])) for each in ranges]
    expected = [(zero - 3 * unit, zero - unit), (zero + 3 * unit, zero + 5 * unit)]
    assert ends == [pytest.approx(each, abs=0.3) for each in expected]
    assert {"validation", "test"} <= texts(chart).keys()
    assert [rect.get("class") for rect in rects(chart)] == ["color-0", "color-1"]


def test_long_labels_of_bars_are_shown_in_full_above_them():
    label = "transformers Seq2SeqTrainer, fp32, 1 x 2"
    chart = svg(bars("Throughput", [(label, 3.0, "3"), ("short", 1.0, "1")]))
    first, second = rects(chart)
    assert texts(chart)[label][1] < number(first, "y") < texts(chart)["short"][1]
    assert texts(chart)["short"][1] < number(second, "y")


def test_the_bars_of_a_histogram_stand_between_their_edges():
    series = [Series("en", [4, 0, 8]), Series("de", [2, 2, 2])]
    found = rects(svg(histogram("Lengths", [0, 10, 20, 30], series, "characters")))
    assert len(found) == 5  # not the one without values
    heights = [number(rect, "height") for rect in found]
    assert heights[1] == pytest.approx(2 * heights[0], rel=0.01)
    assert found[1].findtext("title") == "en: 20 to 30: 8"
    bottoms = {number(rect, "y") + number(rect, "height") for rect in found}
    assert max(bottoms) - min(bottoms) < 0.3


def test_heat_maps_have_a_cell_for_each_value_that_can_be_seen():
    values = [[0.7, 0.29, 0.01], [NAN, 0.0, 1.0]]
    chart = svg(heat_map("Attention", ["das", "Haus"], ["the", "house", "."], values))
    cells = [
        (number(cell, "x"), number(cell, "y"), number(cell, "fill-opacity"), cell.findtext("title"))
        for cell in chart.iter("rect")
    ]
    assert [cell[2:] for cell in cells] == [
        (0.7, "das / the: 0.70"),
        (0.29, "das / house: 0.29"),
        (1.0, "Haus / .: 1.00"),
    ]
    assert cells[1][0] - cells[0][0] == 16 == cells[2][1] - cells[0][1]
    assert chart.findtext("desc") == "Largest value of each row: das: the 0.70; Haus: . 1.00."
    width, height = size(chart)
    assert (number(chart, "width"), number(chart, "height")) == (width, height)


def empty_and_odd_charts() -> Iterator[str]:
    yield bars("none", [])
    yield bars("zero", [("a", 0.0, "0"), ("b", NAN, "nan")])
    yield histogram("zero", [0, 1], [Series("a", [0])], "x")
    yield histogram("none", [], [Series("a", [])], "x")
    yield heat_map("none", [], [], [])
    for name, y, x in (
        ("one", [5.0], [7.0]),
        ("equal", [5.0, 5.0], [1.0, 2.0]),
        ("negative", [-5.0, 2.0], [1.0, 2.0]),
        ("empty", [], []),
        ("no value", [NAN, INF], [1, 2]),
        ("no place", [1, 2], [NAN, INF]),
        ("huge", [-1.7e308, 1.7e308, 1e299, -1e299], [1, 2, 3, 4]),
        ("tiny", [5e-324, 0], [5e-324, 0]),
        ("almost equal", [1 + 1e-15, 1], [1e15, 1e15 + 1]),
    ):
        yield lines(name, [Series("a", y, x)], "x", y_from_zero=False)
        yield lines(name, [Series("a", y, x), Series("b", y, x)], "x", is_log=True)


@pytest.mark.parametrize("chart", list(empty_and_odd_charts()))
def test_charts_of_odd_values_stay_within_their_area(chart: str):
    found = svg(chart)
    width, height = size(found)
    for kind in ("line", "dots"):
        for x, y in (place for each in drawn(found, kind) for place in each):
            assert 0 <= x <= width and 0 <= y <= height
    for x, y in texts(found).values():
        assert 0 <= x <= width and -20 <= y <= height


@pytest.mark.parametrize("limits", [(0, 1), (0, 0), (-3, 17), (1e-9, 2e-9), (5, 1.2e9)])
def test_ticks_are_few_and_cover_the_values(limits: tuple[float, float]):
    found = ticks(*limits)
    assert found[0] <= limits[0] + 1e-15 and found[-1] >= limits[1] - 1e-15
    assert 2 <= len(found) <= 8


@pytest.mark.parametrize("limits", [(8, 512), (256, 32768), (1e-9, 1e9), (3, 4), (20, 60)])
def test_logarithmic_ticks_are_few_and_between_the_limits(limits: tuple[float, float]):
    found = log_ticks(*limits)
    assert 2 <= len(found) <= 8 and found == sorted(set(found))
    assert limits[0] <= found[0] and found[-1] <= limits[1]


def test_numbers_of_axes_are_short_and_those_of_points_exact():
    shown = [compact(value) for value in (0, 0.25, 12, 1200, 45_000, 1_250_000, 2e9)]
    assert shown == ["0", "0.25", "12", "1,200", "45k", "1.25M", "2G"]
    shown = [compact(value) for value in (999.4, 999.7, 9_999, -999_999, 999_600_000)]
    assert shown == ["999", "1,000", "10k", "-1M", "1G"]
    shown = [
        quantities.number(value) for value in (0, 0.123456, 36.272, 1780, 12345.67, 71_200, NAN)
    ]
    assert shown == ["0", "0.1235", "36.27", "1,780", "12,346", "71,200", "nan"]


def test_counts_of_one_are_singular():
    shown = [quantities.counted(count, "pair") for count in (0, 1, 2, 1200)]
    assert shown == ["0 pairs", "1 pair", "2 pairs", "1,200 pairs"]


def test_charts_escape_all_text():
    series = [Series(HOSTILE, [1, 2], [1, 2]), Series("b", [1, 2], [1, 2])]
    marks = [Mark(1, "saved", HOSTILE)]
    for chart in (
        bars(HOSTILE, [(HOSTILE, 1.0, HOSTILE)], legend=(HOSTILE,)),
        histogram(HOSTILE, [0, 1, 2], series, HOSTILE, HOSTILE),
        lines(HOSTILE, series, HOSTILE, marks=marks),
        heat_map(HOSTILE, [HOSTILE], [HOSTILE], [[1.0]]),
    ):
        assert not re.search("<script|<!--|\u202e|\x00|\ud800|\uffff", chart)
        assert SHOWN in svg(chart).findtext("desc", "")
        assert "alert" not in re.sub("&lt;script&gt;.*?&lt;/script&gt;", "", chart)
        file = ET.fromstring(standalone(chart))
        assert not [each for each in file.iter() if each.tag.endswith("script")]


def test_very_long_names_are_cut():
    long = "x" * 10_000
    chart = svg(lines("Loss", [Series(long, [1, 2], [1, 2])] * 2, "steps"))
    assert max(map(len, texts(chart))) < 60
    chart = svg(heat_map("Attention", [long], [long], [[1.0]]))
    assert max(map(len, texts(chart))) < 20 and size(chart)[0] < 500


def test_a_file_of_its_own_has_all_charts_with_their_colours_and_titles():
    first = lines("Loss", [Series("a", [2, 1], [0, 1])], "steps")
    second = bars("Rows", [("one", 1.0, "1")])
    root = ET.fromstring(standalone(first, second, columns=2))
    space = "{http://www.w3.org/2000/svg}"
    drawings = root.findall(f"{space}svg")
    assert [float(each.get("width", "")) for each in drawings] == [size(svg(first))[0]] * 2
    assert number(drawings[1], "x") >= number(drawings[0], "x") + number(drawings[0], "width")
    assert "prefers-color-scheme: dark" in (root.findtext(f"{space}style") or "")
    titles = [text.text for text in root.findall(f"{space}text")]
    assert titles == ["Loss", "Rows"] and root.get("aria-label") == "Loss; Rows"
    assert not [name for each in root.iter() for name in each.attrib if name.startswith("data-")]
