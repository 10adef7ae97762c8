"""Pages: charts with known values, foreign text, and the page of an inspection."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.test_inspect import inspected, sentences
from translate_ddp.inspecting.page import render
from translate_ddp.pages.charts import HEIGHT, WIDTH, Series, bars, compact, histogram, lines, ticks
from translate_ddp.pages.page import render_page

HOSTILE = "<script>alert(1)</script>\"'&<!--"


class Page(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def svg(chart: str) -> ET.Element:
    found = ET.fromstring(chart).find("svg")
    assert found is not None and found.get("role") == "img" and found.get("aria-label")
    return found


def test_bars_are_in_proportion_to_their_values():
    chart = svg(bars("Rows", [("one", 10.0, "10"), ("two", 5.0, "5")]))
    first, second = (float(rect.get("width", "")) for rect in chart.findall("rect"))
    assert first == pytest.approx(2 * second, rel=0.01)
    assert chart.findtext("desc") == "one: 10; two: 5"


def test_the_bars_of_a_histogram_stand_between_their_edges():
    series = [Series("en", [4, 0, 8]), Series("de", [2, 2, 2])]
    chart = svg(histogram("Lengths", [0, 10, 20, 30], series, "characters"))
    drawn = [rect for rect in chart.findall("rect") if rect.find("title") is not None]
    assert len(drawn) == 5  # not the one without values
    heights = [float(rect.get("height", "")) for rect in drawn]
    assert heights[1] == pytest.approx(2 * heights[0], rel=0.01)
    assert drawn[1].findtext("title") == "en: 20 to 30: 8"
    bottoms = {float(r.get("y", "")) + float(r.get("height", "")) for r in drawn}
    assert max(bottoms) - min(bottoms) < 0.3


def test_lines_have_gaps_where_values_are_not_finite():
    chart = svg(lines("Loss", [Series("loss", [3, 2, float("nan"), 1], [0, 1, 2, 3])], "steps"))
    path = chart.find("path")
    assert path is not None
    assert re.findall("[ML]", path.get("d", "")) == ["M", "L", "M"]


def test_charts_of_few_or_equal_values_stay_within_their_area():
    charts = [
        bars("none", []),
        bars("zero", [("a", 0.0, "0")]),
        histogram("zero", [0, 1], [Series("a", [0])], "x"),
        lines("one", [Series("a", [5.0], [7.0])], "x"),
        lines("equal", [Series("a", [5.0, 5.0], [1.0, 2.0])], "x", y_from_zero=False),
        lines("negative", [Series("a", [-5.0, 2.0], [1.0, 2.0])], "x"),
        lines("empty", [Series("a", [], [])], "x"),
    ]
    for chart in map(svg, charts):
        for element in chart.iter():
            assert 0 <= float(element.get("x", "0")) <= WIDTH
            assert -1 <= float(element.get("y", "0")) <= HEIGHT
        paths = " ".join(path.get("d", "") for path in chart.findall("path"))
        numbers = re.findall(r"[ML](\S+) (\S+)", paths)
        assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in numbers)


@pytest.mark.parametrize("limits", [(0, 1), (0, 0), (-3, 17), (1e-9, 2e-9), (5, 1.2e9)])
def test_ticks_are_few_and_cover_the_values(limits: tuple[float, float]):
    found = ticks(*limits)
    assert found[0] <= limits[0] + 1e-15 and found[-1] >= limits[1] - 1e-15
    assert 2 <= len(found) <= 8


def test_numbers_of_axes_are_short():
    shown = [compact(value) for value in (0, 0.25, 12, 1200, 45_000, 1_250_000, 2e9)]
    assert shown == ["0", "0.25", "12", "1,200", "45k", "1.25M", "2G"]


def test_charts_escape_all_text():
    series = [Series(HOSTILE, [1, 2], [1, 2]), Series("b", [1, 2], [1, 2])]
    for chart in (
        bars(HOSTILE, [(HOSTILE, 1.0, HOSTILE)], HOSTILE),
        histogram(HOSTILE, [0, 1, 2], series, HOSTILE, HOSTILE),
        lines(HOSTILE, series, HOSTILE, HOSTILE),
    ):
        assert "<script" not in chart and "<!--" not in chart
        assert svg(chart).findtext("desc") == HOSTILE


def test_templates_escape_values_and_shorten_foreign_text(tmp_path: Path):
    template = tmp_path / "small.html"
    template.write_text("{{ text }}|{{ text | foreign }}|{{ long | foreign }}|{{ odd | foreign }}")
    html = render_page(template, text=HOSTILE, long="x" * 10_000, odd="a\x00\u202eb\ud800")
    plain, foreign, long, odd = html.strip().split("|")
    assert "<" not in plain + foreign and Page(foreign).text == HOSTILE
    assert long == "x" * 300 + "…" and odd == r"a\x00\u202eb\ud800"


def test_the_page_of_a_hostile_corpus_is_safe_and_small(tmp_path: Path):
    hostile = [
        (f"{HOSTILE} {'x' * 9_000} {n}", f"\u202eright \u05d0\u05d1 to left {n} {HOSTILE}")
        for n in range(40)
    ]
    rows = [*sentences(300), *hostile, *[("", HOSTILE)] * 30, (HOSTILE, HOSTILE)]
    html = render(inspected(tmp_path, rows))
    page = Page(html)
    names = {name for name, _ in page.elements}
    assert "script" not in names and "alert(1)" in page.text
    assert len(html.encode()) < 200_000 and "\u202e" not in html
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        link = attributes.get("href")
        assert link in (None, "data:,")
    assert "http" not in re.sub("http-equiv", "", html)
    assert [a for name, a in page.elements if name == "svg"]
    assert all(a.get("role") == "img" for name, a in page.elements if name == "svg")


def test_the_page_has_the_numbers_of_the_report(tmp_path: Path):
    rows = [*sentences(600), *sentences(600)[:100]]
    text = Page(render(inspected(tmp_path, rows))).text
    assert "100 of 700 (14%) rows" in text and "Problems: 1" in text
    assert "all 600 training pairs" in text and "Coverage" not in text.split("Vocabulary")[0]
