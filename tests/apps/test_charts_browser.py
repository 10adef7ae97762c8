"""Charts in a headless Chromium: sizes, and untrusted names."""

from pathlib import Path

import pytest
from markupsafe import Markup

from tests.helpers import browser
from tests.helpers.browser import Browser
from translate_ddp.apps.reporting.page_template import Curves, HeatMap, Page, Section, render_page
from translate_ddp.apps.reporting.svg_charts import Mark, Series, lines

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.COMMAND is None, reason="Chromium is not installed"),
]
HOSTILE = "<img src=x onerror=\"document.title='x'\"><script>document.title='x'</script>"
SERIES = [
    Series("training", [8.5, 4.25, 2], [0, 500, 1000]),
    Series(HOSTILE, [30.125, 40], [400, 1000]),
]


def opened_page(page: Browser, folder: Path, html: str, width: int) -> None:
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    page.log.clear()
    page.open(path.as_uri(), width, 900)


def chart() -> Markup:
    marks = [Mark(500, "skipped", f"epoch 1 {HOSTILE}")]
    return lines("Loss", SERIES, "steps", marks=marks)


@pytest.mark.parametrize("width", [320, 768, 1440])
def test_charts_fit_the_window(chromium: Browser, tmp_path: Path, width: int):
    words = [f"word{n}" for n in range(40)]
    attention = HeatMap("Attention", words, [(word, [0.5] * 40) for word in words])
    charts = Curves([(chart(), chart())])
    html = render_page(Page("t", "", [Section("a", "A", [charts, attention])]))
    opened_page(chromium, tmp_path, html, width)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    assert chromium.evaluate("document.title") == "t" and chromium.log == []
