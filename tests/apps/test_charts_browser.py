"""Charts in a headless Chromium: values at the pointer and by the keys, sizes, colours."""

from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from tests.apps.test_page_template import page_with
from tests.helpers import browser
from tests.helpers.browser import Browser
from translate_ddp.apps.reporting.page_template import Charts, HeatMap, Page, Section, render_page
from translate_ddp.apps.reporting.svg_charts import Mark, Series, bars, lines

pytestmark = pytest.mark.skipif(browser.COMMAND is None, reason="Chromium is not installed")
HOSTILE = "<img src=x onerror=\"document.title='x'\"><script>document.title='x'</script>"
READOUT = "[...document.querySelectorAll('.readout div')].map((row) => row.textContent)"
PLACES = "document.querySelector('.cursor .places').getAttribute('d').match(/M/g)"
SERIES = [
    Series("training", [8.5, 4.25, 2], [0, 500, 1000]),
    Series(HOSTILE, [30.125, 40], [400, 1000]),
]


def opened(page: Browser, folder: Path, *charts: Markup) -> None:
    opened_page(page, folder, page_with(*charts), 768)


def opened_page(page: Browser, folder: Path, html: str, width: int) -> None:
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    page.log.clear()
    page.open(path.as_uri(), width, 900)


def chart() -> Markup:
    marks = [Mark(500, "skipped", f"epoch 1 {HOSTILE}")]
    return lines("Loss", SERIES, "steps", marks=marks)


def place(page: Browser, expression: str) -> tuple[float, float]:
    """The middle of an element in the window."""
    box = page.evaluate(f"(({{x, y, width, height}}) => [x, y, width, height])({expression}"
                        ".getBoundingClientRect())")  # fmt: skip
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def move(page: Browser, x: float, y: float) -> None:
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def key(page: Browser, name: str) -> None:
    page.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name)
    page.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name)


def focus_chart(page: Browser) -> None:
    """With the second press of Tab: the first one reaches the link to the section."""
    page.press("\t")
    page.press("\t")
    assert page.evaluate("document.activeElement.tagName") == "svg"


def test_the_pointer_shows_the_values_of_all_lines_and_the_marks_there(
    chromium: Browser, tmp_path: Path
):
    opened(chromium, tmp_path, chart())
    x, y = place(chromium, "document.querySelector('.mark[data-at]')")
    move(chromium, x + 2, y - 40)
    assert chromium.evaluate(READOUT) == [
        "steps: 500",
        "training: 4.25",
        f"{HOSTILE}: 30.12 (at 400)",
        f"skipped: epoch 1 {HOSTILE}",
    ]
    line = chromium.evaluate("document.querySelector('.cursor .rule').getBoundingClientRect().x")
    assert line == pytest.approx(x, abs=1)
    move(chromium, x, 850)  # below the chart
    assert chromium.evaluate(READOUT) == []
    assert chromium.evaluate("document.title") == "t" and chromium.log == []


def test_arrow_keys_choose_the_point_and_a_screen_reader_gets_its_values(
    chromium: Browser, tmp_path: Path
):
    opened(chromium, tmp_path, chart())
    focus_chart(chromium)
    assert chromium.evaluate(READOUT)[:2] == ["steps: 1,000", "training: 2"]
    seen = []
    for name in ("ArrowLeft", "ArrowLeft", "ArrowRight", "Home", "ArrowLeft", "End"):
        key(chromium, name)
        seen.append(chromium.evaluate(READOUT)[0])
    assert seen == [f"steps: {step}" for step in ("500", "400", "500", "0", "0", "1,000")]
    slider = accessible(chromium, "slider")
    assert slider["name"]["value"] == "Loss"
    text = chromium.evaluate("document.activeElement.getAttribute('aria-valuetext')")
    assert text == f"steps: 1,000; training: 2; {HOSTILE}: 40"
    key(chromium, "Escape")
    assert chromium.evaluate(READOUT) == [] and chromium.log == []


def test_a_value_beyond_the_axis_is_shown_as_text_and_not_drawn(chromium: Browser, tmp_path: Path):
    series = [Series("a", [9, 1, 2], [0, 1, 2]), Series("b", [2, 2, 1], [0, 1, 2])]
    opened(chromium, tmp_path, lines("Loss", series, "steps", y_limits=(1, 2)))
    x, y = place(chromium, "document.querySelector('svg[data-points]')")
    move(chromium, x, y)
    assert len(chromium.evaluate(PLACES)) == 2
    focus_chart(chromium)
    key(chromium, "Home")
    assert chromium.evaluate(READOUT) == ["steps: 0", "a: 9", "b: 2"]
    assert len(chromium.evaluate(PLACES)) == 1


def accessible(page: Browser, role: str) -> dict[str, Any]:
    """The first element of a role, as a screen reader gets it."""
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    return next(node for node in nodes if node.get("role", {}).get("value") == role)


@pytest.mark.parametrize("width", [320, 768, 1440])
def test_charts_fit_the_window(chromium: Browser, tmp_path: Path, width: int):
    words = [f"word{n}" for n in range(40)]
    attention = HeatMap("Attention", words, [(word, [0.5] * 40) for word in words])
    charts = Charts([chart(), bars("Rows", {"one": 1})])
    html = render_page(Page("t", "", [Section("a", "A", [charts, attention])]))
    opened_page(chromium, tmp_path, html, width)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    left, right = chromium.evaluate(sides("figure"))
    _, y = place(chromium, "document.querySelector('svg')")
    for share in (0.2, 0.45, 0.55, 0.9):
        move(chromium, left + share * min(right - left, 540), y)
        shown = chromium.evaluate(sides(".readout"))
        assert left - 1 <= shown[0] < shown[1] <= right + 1
        assert chromium.evaluate("document.documentElement.scrollWidth") <= width


def sides(selector: str) -> str:
    """Left and right of an element in the window, as an expression."""
    box = f"document.querySelector('{selector}').getBoundingClientRect()"
    return f"(({{left, right}}) => [left, right])({box})"
