"""Pages: no script, and a policy without one."""

from tests.helpers.pages import Page
from translate_ddp.apps.reporting import page_template
from translate_ddp.apps.reporting.page_template import (
    Curves,
    Section,
    render_page,
)
from translate_ddp.apps.reporting.svg_charts import Series, lines


def policy(html: str) -> dict[str, str]:
    """The content security policy of a page: the sources that each directive allows."""
    (content,) = (
        attributes["content"] or ""
        for name, attributes in Page(html).elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    return dict(part.strip().split(" ", 1) for part in content.split(";"))


def test_pages_run_no_script():
    chart = lines("Loss", [Series("loss", [2, 1], [0, 1])], "steps")
    curves = Section("curves", "Curves", [Curves([(chart, chart)])])
    html = render_page(page_template.Page("t", "", [curves]))
    assert html.startswith("<!doctype html>\n") and "<script" not in html
    assert policy(html)["default-src"] == "'none'" and "script-src" not in policy(html)
