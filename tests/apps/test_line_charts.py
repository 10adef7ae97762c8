"""Charts of lines with known values: places, gaps, dots, marks, legends, size."""

import re

import pytest

from tests.helpers.charts import drawn, number, places, size, svg, texts
from translate_ddp.apps.reporting.axes import LEFT, RIGHT
from translate_ddp.apps.reporting.charts import Mark, Series, lines
from translate_ddp.apps.reporting.svg import text_width

NAN, INF = float("nan"), float("inf")


def test_points_are_where_the_axes_say():
    series = [Series("a", [20, 60, 100], [1000, 2000, 3000]), Series("b", [40.0], [1500])]
    chart = svg(lines("Scores", series, "steps"))
    text = texts(chart)
    first, second = drawn(chart, "line")
    for (x, y), x_text, y_text in zip(first, ("1,000", "2,000"), ("20", "60"), strict=False):
        assert x == pytest.approx(text[x_text][0], abs=0.1)
        assert y == pytest.approx(text[y_text][1] - 4, abs=0.1)  # the text stands below its line
    (x0, y0), (x1, y1), _ = first
    assert second == [pytest.approx(((x0 + x1) / 2, (y0 + y1) / 2), abs=0.1)]


def test_lines_have_gaps_where_values_are_not_finite_and_a_dot_between_gaps():
    many = [float(n) for n in range(20)]
    y = [3, 2, NAN, 1, INF, *many]
    chart = svg(lines("Loss", [Series("loss", y, range(25))], "steps"))
    (line,) = (path for path in chart.iter("path") if path.get("class") == "line")
    assert re.findall("m", line.get("d", "")) == ["m"] * 3  # a start after each gap
    ((dot, _),) = drawn(chart, "dots")
    assert len(places(line)) == 23 and places(line)[2] == dot
    values = (line.get("data-y") or "").split("|")
    assert values[:3] == ["3", "2", "1"] and len(values) == 23


def test_few_points_have_dots():
    chart = svg(lines("BLEU", [Series("BLEU", [10, 20, 30], [1, 2, 3])], "steps"))
    (line,), (dots,) = drawn(chart, "line"), drawn(chart, "dots")
    assert dots[::2] == line and len(line) == 3


def test_logarithmic_axes_show_a_power_as_a_straight_line():
    x = [1, 10, 100, 1000]
    series = [Series("x^2", [each**2 for each in x], x), Series("zero", [0, 4], [0, 2])]
    chart = svg(lines("Power", series, "x", is_log=True))
    first, second = drawn(chart, "line")
    (x0, y0), (x1, y1) = first[0], first[-1]
    for place in first:
        assert place[1] == pytest.approx(y0 + (place[0] - x0) / (x1 - x0) * (y1 - y0), abs=0.15)
    assert len(second) == 1  # zero has no place


def test_the_y_axis_covers_the_given_range():
    flat = [Series("a", [10, 11], [1, 2])]
    ((_, low), (_, high)) = drawn(svg(lines("A", flat, "x", y_range=(0.1, 1000))), "line")[0]
    assert 0 < low - high < 1


def test_values_far_out_leave_the_chart_and_are_named():
    y = [9, 2, 1.5, 1.25, 1, -40]
    chart = svg(lines("Loss", [Series("a", y, range(6))], "x", y_from_zero=False, y_within=(1, 2)))
    (window,) = chart.findall("svg")
    _, top, _, height = map(float, window.get("viewBox", "").split())
    first, *between, last = (place for _, place in drawn(chart, "line")[0])
    assert first < top and last > top + height
    assert all(top < place < top + height for place in between)
    assert between == sorted(between) and between[-1] - between[0] > height / 2  # not flat
    shown = texts(chart)
    assert shown["up to 9"][1] < top + 20 and shown["down to -40"][1] > top + height - 20
    (line,) = (path for path in window.iter("path") if path.get("class") == "line")
    assert line.get("data-y") == "9|2|1.5|1.25|1|-40"


def test_values_below_a_negative_end_of_the_axis_and_very_far_ones_are_named():
    series = [Series("a", [-9, 1, -1, 0.5, 1e20], range(5))]
    chart = svg(lines("A", series, "x", y_from_zero=False, y_within=(-1, 1)))
    assert {"down to -9", "up to 1e+11G"} <= texts(chart).keys()
    # Browsers draw with 32 bits.
    assert min(y for _, y in drawn(chart, "line")[0]) == -100_000


def test_the_only_point_is_in_the_middle_and_the_last_label_is_not_cut_off():
    chart = svg(lines("A", [Series("a", [5], [7])], "x"))
    width, _ = size(chart)
    [[(x, _)]] = drawn(chart, "line")
    assert x == (LEFT + width - RIGHT) / 2
    chart = svg(lines("A", [Series("a", [5, 6], [0, 8000])], "x"))
    assert texts(chart)["8,000"][0] + text_width("8,000") / 2 < width + 0.1


def test_a_chart_from_zero_stays_so_when_it_is_cut():
    chart = svg(lines("Rate", [Series("a", [3, 0.3, 0.2], range(3))], "x", y_within=(0.2, 0.3)))
    assert "0" in texts(chart) and "up to 3" in texts(chart)
    assert not any(text.startswith("down") for text in texts(chart))


@pytest.mark.parametrize("within", [None, (0, 5), (7, 8)])
def test_a_range_that_cuts_nothing_or_everything_changes_nothing(
    within: tuple[float, float] | None,
):
    series = [Series("a", [1, 2, 3], range(3))]
    full = lines("A", series, "x", y_from_zero=False)
    assert lines("A", series, "x", y_from_zero=False, y_within=within) == full


def test_marks_have_a_shape_of_their_kind_a_text_and_a_place():
    marks = [
        Mark(0, "saved", "epoch 1"),
        Mark(1000, "resumed", "launch 2"),
        Mark(500, "skipped", "1 step"),
        Mark(NAN, "saved", "nowhere"),
    ]
    chart = svg(lines("Loss", [Series("loss", [2, 1], [0, 500])], "steps", marks=marks))
    found = {
        path.get("class"): (number(path, "data-at"), path.findtext("title"))
        for path in chart.iter("path")
        if path.get("data-at")
    }
    (line,) = drawn(chart, "line")
    end = 2 * line[1][0] - line[0][0]  # the axis covers the marks
    assert found == {
        "mark saved": (pytest.approx(line[0][0], abs=0.1), "saved: epoch 1"),
        "mark resumed": (pytest.approx(end, abs=0.1), "resumed: launch 2"),
        "mark skipped": (pytest.approx(line[1][0], abs=0.1), "skipped: 1 step"),
    }
    assert {"saved", "resumed", "skipped"} <= texts(chart).keys()  # the legend


def test_marks_that_are_close_are_one():
    marks = [Mark(step, "saved", f"step {step}") for step in range(10_000)]
    chart = lines("Loss", [Series("loss", [2, 1], [0, 9_999])], "steps", marks=marks)
    titles = [
        path.findtext("title") or "" for path in svg(chart).iter("path") if path.get("data-at")
    ]
    assert len(titles) < 70 and titles[0].startswith("saved: step 0 and ")
    named = len(titles) + sum(int(n) for t in titles for n in re.findall(r"and (\d+) more", t))
    assert named == 10_000


def test_legends_of_many_long_names_stay_within_the_chart():
    series = [Series(f"runs/experiment {n} 模型", [n, n + 1], [0, 1]) for n in range(8)]
    chart = svg(lines("Loss", series, "steps"))
    rows = set()
    for group in chart.findall("g"):
        moved = re.fullmatch(r"translate\(([\d.]+) (\d+)\)", group.get("transform", ""))
        if moved and (text := group.find("text")) is not None:
            rows.add(moved[2])
            assert float(moved[1]) + 26 + 7 * len(text.text or "") <= size(chart)[0]
    assert len(rows) > 2
    assert max(map(int, rows)) < min(y for _, y in drawn(chart, "line")[7])


def test_eight_lines_of_400_points_take_at_most_60_kilobytes():
    series = [
        Series(
            f"run {n}", [8 + n + 0.123 * (step % 17) for step in range(400)], range(n, 71_200, 178)
        )
        for n in range(8)
    ]
    assert len(lines("Loss", series, "steps").encode()) < 61_440
