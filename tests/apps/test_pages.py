"""Pages: untrusted text, scripts and their policy, and the page of an inspection."""

import base64
import hashlib
import re
from pathlib import Path

from tests.apps.test_inspect import inspected, sentences
from tests.helpers.pages import HOSTILE, Page
from translate_ddp.apps.inspecting.page import render
from translate_ddp.apps.reporting.charts import Series, bars, lines
from translate_ddp.apps.reporting.page_template import render_page


def test_templates_escape_values_and_shorten_untrusted_text(tmp_path: Path):
    template = tmp_path / "small.html"
    names = ("text", "text | untrusted", "long | untrusted", "odd | untrusted")
    template.write_text("|".join(f"{{{{ {name} }}}}" for name in names))
    html = render_page(template, text=HOSTILE, long="x" * 10_000, odd="a\x00\u202eb\ud800")
    plain, untrusted, long, odd = html.strip().split("|")
    assert "<" not in plain + untrusted and Page(untrusted).text == HOSTILE
    assert long == "x" * 300 + "…" and odd == r"a\x00\u202eb\ud800"


def page_with(folder: Path, *charts: str) -> str:
    template = folder / "charts.html"
    template.write_text(
        '{% extends "page.html" %}{% block title %}t{% endblock %}{% block content %}'
        "{% for chart in charts %}{{ chart }}{% endfor %}{% endblock %}"
    )
    return render_page(template, charts=charts)


def policy(html: str) -> dict[str, str]:
    """The content security policy of a page: the sources that each directive allows."""
    (content,) = (
        attributes["content"] or ""
        for name, attributes in Page(html).elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    return dict(part.strip().split(" ", 1) for part in content.split(";"))


def test_pages_run_the_scripts_that_their_policy_names_by_checksum(tmp_path: Path):
    chart = lines("Loss", [Series("loss", [2, 1], [0, 1])], "steps")
    html = page_with(tmp_path, chart)
    scripts = re.findall("<script>(.*?)</script>", html, re.S)
    assert len(scripts) == 1 and "&&" in scripts[0]  # it is not escaped
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    expected = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    allowed = policy(html)
    assert allowed["script-src"] == expected and allowed["default-src"] == "'none'"
    assert "connect-src" not in allowed


def test_pages_without_charts_of_lines_have_no_script(tmp_path: Path):
    html = page_with(tmp_path, bars("Rows", [("one", 1, "1")]))
    assert html.startswith("<!doctype html>\n")
    assert "<script" not in html and policy(html)["script-src"] == "'none'"


def test_the_page_of_a_hostile_corpus_is_safe_and_small(tmp_path: Path):
    hostile = [
        (f"{HOSTILE} {'x' * 9_000} {n}", f"\u202eright \u05d0\u05d1 to left {n} {HOSTILE}")
        for n in range(40)
    ]
    rows = [*sentences(300), *hostile, *[("", HOSTILE)] * 30, (HOSTILE, HOSTILE)]
    html = render(inspected(tmp_path, rows))
    page = Page(html)
    assert [name for name, _ in page.elements].count("script") == 1  # that of the charts
    assert "alert(1)" in page.text
    assert len(html.encode()) < 200_000 and "\u202e" not in html
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        link = attributes.get("href")
        assert link in (None, "data:,")
    assert "http" not in re.sub("http-equiv", "", html)
    charts = [a for name, a in page.elements if name == "svg" and a.get("class") != "window"]
    assert charts and all(chart.get("role") == "img" for chart in charts)


def test_the_page_has_the_numbers_of_the_report(tmp_path: Path):
    rows = [*sentences(600), *sentences(600)[:100]]
    text = Page(render(inspected(tmp_path, rows))).text
    assert "100 of 700 (14%) rows" in text and "Problems: 1" in text
    assert "all 600 training pairs" in text and "Coverage" not in text.split("Vocabulary")[0]
