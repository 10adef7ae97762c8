"""Pages of sections, each of which has tables, texts and charts; all text is escaped."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from translate_ddp.console import printable

FOLDER = Path(__file__).parent
MAX_CHARACTERS = 300  # shown of an untrusted text


@dataclass(frozen=True)
class Paragraph:
    """A text, or HTML as `Markup`."""

    content: str


@dataclass(frozen=True)
class Values:
    """Names and values."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Cells of untrusted text. Of `numbers`, all columns but the first are right-aligned."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    has_numbers: bool = False
    short_columns: int = 0  # the first ones, whose cells stay on one line


@dataclass(frozen=True)
class Curves:
    """Each chart over steps and over time, between which the reader chooses."""

    charts: Sequence[tuple[Markup, Markup]]


@dataclass(frozen=True)
class HeatMap:
    """Shares of a whole, 0 to 1, for each row and column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]


@dataclass(frozen=True)
class Sample:
    """A sentence and its translations: a name of each, its parts, and whether they differ."""

    source: str
    reference: str
    versions: Sequence[tuple[str, Sequence[tuple[str, bool]]]]


@dataclass(frozen=True)
class Samples:
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Details:
    """Blocks that are shown on request."""

    summary: str
    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class Problem:
    """What is wrong, what to do, and pairs that have the problem."""

    what: str
    advice: str = ""  # a sentence
    examples: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Problems:
    problems: Sequence[Problem]
    columns: Sequence[str] = ()  # headings of the examples


Block = Paragraph | Values | Table | Curves | HeatMap | Samples | Details | Problems


@dataclass(frozen=True)
class Section:
    """A part of a page, left out if it has no blocks."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    title: str
    subtitle: str
    sections: Sequence[Section]
    tiles: Sequence[tuple[str, str]] = field(default_factory=list)  # names and values
    top: Sequence[Block] = ()  # before the sections
    is_loaded_again: bool = False  # once a minute


def render_page(page: Page) -> str:
    """The HTML of the page, complete in itself and without a script."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only pages need it

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"untrusted": untrusted, "breakable": breakable}
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template("page_template.html").render(page=page) + "\n"


def untrusted(text: str) -> str:
    """The start of the text, with characters escaped that no page can hold, or that reorder it."""
    shown = printable(text[: MAX_CHARACTERS + 1])
    return shown if len(text) <= MAX_CHARACTERS else f"{shown[:MAX_CHARACTERS]}…"


def breakable(name: str) -> Markup:
    """The name, with places after underscores where a line may end."""
    return Markup("_<wbr>").join(name.split("_"))
