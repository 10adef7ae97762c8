"""Renders a page from a template beside the code that uses it; all values are escaped."""

from pathlib import Path
from typing import Any

from translate_ddp.console import printable

FOLDER = Path(__file__).parent
MAX_CHARACTERS = 300  # of a foreign text


def render_page(template: Path, **values: Any) -> str:
    """The page of a template, which may extend `page.html` and import `parts.html`.

    The filter `foreign` is for text that others have written: it is short, and its controls are
    escaped.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only pages need it

    environment = Environment(
        loader=FileSystemLoader([template.parent, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["foreign"] = foreign
    return environment.get_template(template.name).render(**values) + "\n"


def foreign(text: str) -> str:
    """The start of the text, with characters escaped that no page can hold, or that reorder it."""
    shown = printable(text[: MAX_CHARACTERS + 1])
    return shown if len(text) <= MAX_CHARACTERS else f"{shown[:MAX_CHARACTERS]}…"
