"""Drawings as SVG files that follow the light or dark mode of the reader's browser.

All text is escaped. A phone shows a drawing at half of its width, so no text is smaller than 15
pixels.
"""

from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs/figures"
RADIUS = 6  # of corners
PARTS = {"fill": 0, "edge": 1}  # of the colours below
LIGHT = {
    "data": ("#dbeafe", "#1d4ed8"),
    "model": ("#dcfce7", "#15803d"),
    "train": ("#ffedd5", "#c2410c"),
    "world": ("#ede9fe", "#6d28d9"),
    "note": ("#f3f4f6", "#6b7280"),
    "page": ("#ffffff", "#d1d5db"),
    "text": ("#1f2937", "#4b5563"),  # strong, weak
}
DARK = {
    "data": ("#172b52", "#79a8ff"),
    "model": ("#12351f", "#5fd38a"),
    "train": ("#47260f", "#ff9f5a"),
    "world": ("#302258", "#b79cff"),
    "note": ("#262d36", "#8b949e"),
    "page": ("#0d1117", "#3d444d"),
    "text": ("#e6edf3", "#a9b4c0"),
}
SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SHAPES = """
text { font-family: SANS; fill: var(--text-fill); }
.weak { fill: var(--text-edge); }
.mono { font-family: MONO; white-space: pre; }
.line { fill: none; stroke: var(--text-edge); stroke-width: 1.8; }
.tip { fill: var(--text-edge); }
"""


def style() -> str:
    """The colours of both modes, and the classes that use them."""
    modes = [
        "".join(
            f"--{name}-{part}: {colors[k]}; "
            for name, colors in mode.items()
            for part, k in PARTS.items()
        )
        for mode in (LIGHT, DARK)
    ]
    kinds = "\n".join(
        f".{name} {{ fill: var(--{name}-fill); stroke: var(--{name}-edge); }}"
        for name in LIGHT
        if name != "text"
    )
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {modes[1]}}} }}"
    shapes = SHAPES.replace("SANS", SANS).replace("MONO", MONO)
    return f":root {{ {modes[0]}}}\n{dark}\n{kinds}{shapes}"


class Drawing:
    """An SVG. Places are in pixels from the upper left corner."""

    def __init__(self, title: str, width: float) -> None:
        self.title, self.width = title, width
        self.styles = [style()]
        self.shapes = list[str]()

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        self.shapes.append(rectangle(x, y, width, height, kind))

    def text(self, x: float, y: float, text: str, size: int = 15, **options: str) -> None:
        """A line of text from `x`, on the base line `y`; options are attributes of SVG.

        An underscore in the name of an option stands for a hyphen, `of` for `class`.
        """
        options["class"] = options.pop("of", "")
        given = "".join(
            f' {name.replace("_", "-")}="{value}"' for name, value in options.items() if value
        )
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}"{given}>{escape(text, False)}</text>'
        )

    def middle(self, x: float, y: float, text: str, **options: str) -> None:
        """A line of text around `x`."""
        self.text(x, y, text, 15, text_anchor="middle", **options)

    def arrow(self, *places: tuple[float, float]) -> None:
        """A line through these places with a tip at its end."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in places)
        self.shapes.append(f'<path d="{path}" class="line" marker-end="url(#end)"/>')

    def render(self, height: float) -> str:
        """The file, on a background of its own: a page may have another mode than the browser."""
        size = f'viewBox="0 0 {self.width:g} {height:g}" width="{self.width:g}" height="{height:g}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(self.title)}</title>",
            *("<style>", *self.styles, "</style>"),
            '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="5.5"'
            ' markerHeight="5.5" orient="auto-start-reverse">'
            '<path d="M0 0L10 5L0 10z" class="tip"/></marker></defs>',
            rectangle(0.5, 0.5, self.width - 1, height - 1, "page"),
            *(*self.shapes, "</svg>"),
        ]
        return "\n".join(lines) + "\n"


def rectangle(x: float, y: float, width: float, height: float, kind: str) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="{min(RADIUS, height / 4):g}" class="{kind}" stroke-width="1.5"/>'
