"""Pages as a parser sees them."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

HOSTILE = "<script>alert(1)</script>\"'&<!--"


class Page(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.parts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    @property
    def text(self) -> str:
        """The text, with one space between words and elements."""
        return " ".join(" ".join(self.parts).split())


def section(html: str, name: str) -> ET.Element | None:
    """The section of the page with that id; None if there is none."""
    found = re.search(rf'<section id="{name}">.*?</section>', html, re.S)
    return ET.fromstring(re.sub("<wbr>|<input.*?>", "", found[0])) if found else None


def tables(element: ET.Element) -> list[list[list[str]]]:
    """The texts of the cells of each table: rows of cells."""
    return [
        [[_text(cell) for cell in row] for row in table.iter("tr")]
        for table in element.iter("table")
    ]


def values(element: ET.Element) -> list[list[tuple[str, str]]]:
    """The names and values of each list."""
    return [
        list(zip(map(_text, found.iter("dt")), map(_text, found.iter("dd")), strict=True))
        for found in element.iter("dl")
    ]


def captions(element: ET.Element) -> list[str]:
    """The titles of the charts."""
    return [_text(caption) for caption in element.iter("figcaption")]


def _text(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())
