"""Untrusted text in every part of a record or corpus stays text on each kind of page."""

import json
from collections.abc import Callable, Iterator
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import browser
from tests.helpers.browser import Browser
from tests.helpers.inspected import inspected, sentences
from tests.helpers.pages import Page
from tests.helpers.records import START, write_run
from translate_ddp.apps.inspecting.inspection_report import render_inspection
from translate_ddp.apps.reporting.run_comparison import render_comparison
from translate_ddp.apps.reporting.run_page import render_run
from translate_ddp.run_record import METRICS_FILE, SETTINGS_FILE, STATUS_FILE, read_run

TEXTS = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></style></svg></textarea><!--<script>alert(1)",
    "\u202eright \u05d0\u05d1 to left\u2066",
    "\u0645\u0631\u062d\u0628\u0627 " * 200,
    "\u0645" * 1000,
    "x" * 1000,
    "javascript:alert(1) {{ 7 * 7 }} {% raw %}",
    "\0\x1b[31m\ud800",
]
NOW = START + 100_000
KEPT = ("event", "state")  # without them, a record is of another kind
FOLDER = "<script>alert(1)<\"'&\u202e\u05d0 {}"


def replace_texts(value: Any, text: Callable[[], str]) -> Any:
    """The value with untrusted text in place of all strings, also of the names in dictionaries."""
    if isinstance(value, str):
        return text()
    if isinstance(value, list):
        return [replace_texts(part, text) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        (text() if name in ("preset", "empty", "seed") else name): (
            part if name in KEPT else replace_texts(part, text)
        )
        for name, part in value.items()
    }


def write_hostile_run(folder: Path, first: int) -> None:
    """A run whose strings are the texts in turn, from `first` on."""
    write_run(folder, 3, "failed")
    texts = cycle(TEXTS[first:] + TEXTS[:first])
    for path in folder.iterdir():
        if path.suffix == ".jsonl" and path.name != METRICS_FILE:
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            changed = [replace_texts(line, lambda: next(texts)) for line in lines]
            path.write_text("".join(f"{json.dumps(line)}\n" for line in changed))
        elif path.suffix == ".json":
            changed = replace_texts(json.loads(path.read_text()), lambda: next(texts))
            path.write_text(json.dumps(changed))
    line = {"step": 540, "time": NOW} | {text: 1.0 for text in TEXTS} | {"validation/BLEU": 1.0}
    with (folder / METRICS_FILE).open("a") as file:
        file.write(f"{json.dumps(line)}\n")
    settings = {text: next(texts) for text in TEXTS} | {"dataset": TEXTS, "lang_src": TEXTS[0]}
    (folder / SETTINGS_FILE).write_text(json.dumps(settings).replace("\\ud800", ""))
    assert "state" in (folder / STATUS_FILE).read_text()


def pages(folder: Path, first: int) -> Iterator[str]:
    """The pages of a run, of a comparison, and of a corpus with these texts."""
    folders = [folder / FOLDER.format(number) for number in range(3)]
    for number, each in enumerate(folders):
        write_hostile_run(each, first + number)
    records = [read_run(each) for each in folders]
    yield render_run(records[0], NOW)
    yield render_comparison(records, NOW)
    texts = [text.replace("\0", "").replace("\ud800", "") for text in TEXTS]
    hostile = [(f"{text} {n}", f"{other} {n}") for text in texts for n, other in enumerate(texts)]
    copies = [(text, text) for text in texts for _ in range(9)]
    yield render_inspection(inspected(folder, [*sentences(300), *hostile, *copies]))


@pytest.mark.parametrize("first", range(0, len(TEXTS), 3))
def test_untrusted_text_adds_no_element_no_control_and_little_text(first: int, tmp_path: Path):
    for html in pages(tmp_path, first):
        assert not set("\0\x1b\u202e\u2066\ud800") & set(html)
        assert "x" * 301 not in html and "\u0645" * 301 not in html
        assert 20_000 < len(html.encode()) < 1_000_000
        page = Page(html)
        assert "alert(1)" in page.text
        policies = [
            attributes["content"] or ""
            for _, attributes in page.elements
            if attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        assert ["default-src 'none'" in each and "script-src" not in each for each in policies] == [
            True
        ]
        names = [name for name, _ in page.elements]
        assert not {"script", "img", "iframe", "object"} & set(names)
        assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
        links = [link for _, a in page.elements for n, link in a.items() if n in ("href", "src")]
        assert all(link == "data:," or (link or "").startswith("#") for link in links)


RECORD_ALERTS = "window.alerts = []; window.alert = (text) => alerts.push(text);"
NOT_ISOLATED = """
(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!/[\\u0590-\\u08ff]/.test(walker.currentNode.data) || parent.closest("svg")) continue;
    const isAuto = getComputedStyle(parent).unicodeBidi === "plaintext";
    if (!isAuto && !parent.closest("[dir=auto], bdi")) found.push(parent.outerHTML.slice(0, 200));
  }
  return found;
})()
"""


@pytest.mark.slow
@pytest.mark.skipif(browser.COMMAND is None, reason="Chromium is not installed")
def test_a_browser_shows_untrusted_text_as_text_that_fits_the_window(
    chromium: Browser, tmp_path: Path
):
    chromium.call("Page.addScriptToEvaluateOnNewDocument", source=RECORD_ALERTS)
    for html, size in product(pages(tmp_path, 5), [(320, 640), (1440, 900)]):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        chromium.log.clear()
        chromium.open(path.as_uri(), *size)
        chromium.wait_for("document.querySelector('main')")
        assert chromium.evaluate("alerts") == [] and chromium.log == []
        assert chromium.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert chromium.evaluate("getComputedStyle(document.body).direction") == "ltr"
        assert chromium.evaluate(NOT_ISOLATED) == []
