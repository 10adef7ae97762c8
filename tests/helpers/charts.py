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
    """The places of a path of relative integers, in tenths."""
    steps = list(map(int, re.findall(r"-?\d+", path.get("d", ""))))
    xs, ys = (
        [sum(side[: end + 1]) / 10 for end in range(len(side))]
        for side in (steps[::2], steps[1::2])
    )
    return list(zip(xs, ys, strict=True))


def drawn(chart: ET.Element, name: str) -> list[list[tuple[float, float]]]:
    """The places of all paths of a class, without those of the legend."""
    return [
        places(path)
        for path in chart.findall(f"svg/g[@transform='scale(.1)']/path[@class='{name}']")
    ]


def texts(chart: ET.Element) -> dict[str, tuple[float, float]]:
    """The place of each text."""
    return {
        text.text or "": (float(text.get("x", "")), float(text.get("y", "")))
        for text in chart.iter("text")
    }


def rects(chart: ET.Element) -> list[ET.Element]:
    """Those with a text for the pointer: not the legend's."""
    return [rect for rect in chart.iter("rect") if rect.find("title") is not None]


def number(element: ET.Element, name: str) -> float:
    return float(element.get(name, ""))
