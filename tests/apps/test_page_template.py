"""Pages: untrusted text, and scripts and their policy."""

import base64
import hashlib
import re

from markupsafe import Markup

from tests.helpers.pages import Page
from translate_ddp.apps.reporting import page_template
from translate_ddp.apps.reporting.page_template import (
    Charts,
    Section,
    render_page,
)
from translate_ddp.apps.reporting.svg_charts import Series, bars, lines


def page_with(*charts: Markup) -> str:
    return render_page(page_template.Page("t", "", [Section("charts", "Charts", [Charts(charts)])]))


def policy(html: str) -> dict[str, str]:
    """The content security policy of a page: the sources that each directive allows."""
    (content,) = (
        attributes["content"] or ""
        for name, attributes in Page(html).elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    return dict(part.strip().split(" ", 1) for part in content.split(";"))


def test_pages_run_the_scripts_that_their_policy_names_by_checksum():
    chart = lines("Loss", [Series("loss", [2, 1], [0, 1])], "steps")
    html = page_with(chart)
    scripts = re.findall("<script>(.*?)</script>", html, re.S)
    assert len(scripts) == 1 and "&&" in scripts[0]  # it is not escaped
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    expected = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    allowed = policy(html)
    assert allowed["script-src"] == expected and allowed["default-src"] == "'none'"
    assert "connect-src" not in allowed


def test_pages_without_charts_of_lines_have_no_script():
    html = page_with(bars("Rows", {"one": 1}))
    assert html.startswith("<!doctype html>\n")
    assert "<script" not in html and policy(html)["script-src"] == "'none'"
