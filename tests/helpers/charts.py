"""Reads the parts of charts."""

import re
import xml.etree.ElementTree as ET


def svg(chart: str) -> ET.Element:
    found = ET.fromstring(chart).find("svg")
    assert found is not None and found.get("role") == "img" and found.get("aria-label")
    return found


def size(chart: ET.Element) -> tuple[float, float]:
    width, height = chart.get("viewBox", "").split()[2:]
    return float(width), float(height)


def places(path: ET.Element) -> list[tuple[float, float]]:
    """The places of a path."""
    found = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d", ""))
    return [(float(x), float(y)) for x, y in found]


def drawn(chart: ET.Element, name: str) -> list[list[tuple[float, float]]]:
    """The places of all paths of a class, without the legend."""
    return [places(path) for path in chart.findall(f"svg/g/path[@class='{name}']")]


def texts(chart: ET.Element) -> dict[str, tuple[float, float]]:
    """The place of each text."""
    return {text.text or "": (number(text, "x"), number(text, "y")) for text in chart.iter("text")}


def marks(chart: ET.Element, kind: str) -> dict[str, float]:
    """The place of each mark of a kind by its text."""
    return {
        title.removeprefix(f"{kind}: "): places(path)[0][0]
        for path in chart.iter("path")
        if path.get("class") == f"mark {kind}" and (title := path.findtext("title"))
    }


def number(element: ET.Element, name: str) -> float:
    return float(element.get(name, ""))
