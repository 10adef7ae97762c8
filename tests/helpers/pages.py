"""Pages as a parser sees them."""

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
        """The text, with one blank between words and elements."""
        return " ".join(" ".join(self.parts).split())
