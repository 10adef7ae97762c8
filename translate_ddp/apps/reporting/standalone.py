"""A chart, or several, as an SVG file with its own colours, light and dark."""

import xml.etree.ElementTree as ET
from pathlib import Path

from markupsafe import Markup

STYLE = Path(__file__).with_name("charts.css")
MARGIN, GAP, HEADING = 12, 24, 24
ZOOM = 1.25  # of the size at which it is shown
FOR_SCRIPTS = ("data-x", "data-y", "data-points", "data-area", "data-at")


def standalone(*charts: Markup, columns: int = 1) -> str:
    """The content of an .svg file: the charts with their titles in rows of `columns`.

    It has a background of its own, as its colours may be dark where the page around it is light.
    """
    figures = [ET.fromstring(chart) for chart in charts]
    titles = [figure.findtext("figcaption", "") for figure in figures]
    drawings = [drawing for figure in figures if (drawing := figure.find("svg")) is not None]
    sizes = [_size(drawing) for drawing in drawings]
    column = max((width for width, _ in sizes), default=0) + GAP
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "group"})
    root.set("aria-label", "; ".join(titles))
    ET.SubElement(root, "style").text = STYLE.read_text(encoding="utf-8")
    ET.SubElement(root, "rect", {"class": "background", "width": "100%", "height": "100%"})
    y = float(MARGIN)
    for first in range(0, len(drawings), columns):
        row = range(first, min(first + columns, len(drawings)))
        for place, number in enumerate(row):
            x = MARGIN + place * column
            _add(root, drawings[number], titles[number], (x, y), sizes[number])
        y += HEADING + max(sizes[number][1] for number in row) + GAP
    width, height = 2 * MARGIN + min(columns, len(charts)) * column - GAP, y - GAP + MARGIN
    root.set("viewBox", f"0 0 {width:g} {height:g}")
    root.set("width", f"{ZOOM * width:.0f}")
    root.set("height", f"{ZOOM * height:.0f}")
    return ET.tostring(root, encoding="unicode") + "\n"


def _size(drawing: ET.Element) -> tuple[float, float]:
    width, height = drawing.get("viewBox", "").split()[2:]
    return float(width), float(height)


def _add(
    root: ET.Element,
    drawing: ET.Element,
    title: str,
    place: tuple[float, float],
    size: tuple[float, float],
) -> None:
    x, y = place
    heading = ET.SubElement(root, "text", {"class": "heading", "x": f"{x:g}", "y": f"{y + 12:g}"})
    heading.text = title
    for element in drawing.iter():
        for name in FOR_SCRIPTS:
            element.attrib.pop(name, None)
    values = {"x": x, "y": y + HEADING, "width": size[0], "height": size[1]}
    for name, value in values.items():
        drawing.set(name, f"{value:g}")
    root.append(drawing)
