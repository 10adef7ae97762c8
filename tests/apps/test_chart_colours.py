"""The colours of charts: contrast, and distances also for colour-blind readers."""

import re

import numpy as np
import pytest

from translate_ddp.apps.reporting.standalone import STYLE

# Machado, Oliveira, Fernandes 2009, at full severity, for linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# Ottosson 2020: OKLab, in which distances are about those that are seen.
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
OKABE_ITO = 0.072  # least distance in that palette of eight, the usual one


def palettes() -> list[dict[str, np.ndarray]]:
    """Light and dark: the colours by name, as linear RGB."""
    found = []
    for block in re.findall(r":root \{(.*?)\}", STYLE.read_text(encoding="utf-8"), re.S):
        pairs = re.findall(r"--([\w-]+): #(\w{6});", block)
        found.append({name: linear(value) for name, value in pairs})
    return found


def linear(hexadecimal: str) -> np.ndarray:
    values = np.array([int(hexadecimal[place : place + 2], 16) for place in (0, 2, 4)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """As in WCAG 2."""
    low, high = sorted(float(color @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", palettes(), ids=["light", "dark"])
def test_eight_colours_have_a_contrast_of_three_to_one(palette: dict[str, np.ndarray]):
    lines = [palette[f"color-{number}"] for number in range(8)]
    assert min(contrast(color, palette["card"]) for color in lines) >= 3
    assert min(contrast(palette[name], palette["card"]) for name in ("text", "muted")) >= 4.5


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("palette", palettes(), ids=["light", "dark"])
def test_eight_colours_differ_more_than_those_of_the_usual_palette(
    palette: dict[str, np.ndarray], vision: str
):
    colors = np.stack([palette[f"color-{number}"] for number in range(8)])
    seen = np.clip(colors @ VISION[vision].T, 0, 1)
    lab = np.cbrt(seen @ TO_CONES.T) @ TO_LAB.T
    distances = np.linalg.norm(lab[:, None] - lab[None], axis=-1)
    assert distances[~np.eye(8, dtype=bool)].min() > OKABE_ITO


def test_all_lines_but_the_first_have_dashes_of_their_own():
    dashes = re.findall(r"--dash: ([^;]+);", STYLE.read_text(encoding="utf-8"))
    assert dashes[0] == "none" and len(set(dashes)) == len(dashes) == 8
