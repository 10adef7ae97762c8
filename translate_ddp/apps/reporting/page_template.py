"""Renders a page from a template beside the code that uses it; all values are escaped."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from markupsafe import Markup

from translate_ddp.console import printable

FOLDER = Path(__file__).parent
MAX_CHARACTERS = 300  # of an untrusted text


def render_page(template: Path, **values: Any) -> str:
    """The page of a template, which may extend `page.html` and import `parts.html`.

    It runs the script of its charts, if it has any, and no other, as it names its checksum.

    The filter `untrusted` is for text that others have written: it is short, and its controls are
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
    environment.filters["untrusted"] = untrusted
    environment.filters["breakable"] = breakable
    environment.filters["checksum"] = checksum
    environment.globals["charts_script"] = Markup(FOLDER.joinpath("charts.js").read_text("utf-8"))
    return environment.get_template(template.name).render(**values) + "\n"


def untrusted(text: str) -> str:
    """The start of the text, with characters escaped that no page can hold, or that reorder it."""
    shown = printable(text[: MAX_CHARACTERS + 1])
    return shown if len(text) <= MAX_CHARACTERS else f"{shown[:MAX_CHARACTERS]}…"


def breakable(name: str) -> Markup:
    """The name, with places after underscores where a line may end."""
    return Markup("_<wbr>").join(name.split("_"))


def checksum(script: str) -> Markup:
    """How a content security policy names a script that may run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Markup("'sha256-{}'").format(digest)
