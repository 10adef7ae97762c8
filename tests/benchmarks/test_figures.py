"""The figures of measurements show the values of the records."""

import json
import re

import pytest

from benchmarks.common import ROOT
from benchmarks.figures import FIGURES, speed

RESULTS = ROOT / "benchmarks" / "results"


def test_figure_of_the_docs_is_drawn_from_the_records():
    found = (FIGURES / "speed.svg").read_text(encoding="utf-8")
    assert found == speed(RESULTS), "run python -m benchmarks.figures"


def test_bars_of_speed_are_in_proportion_to_the_records():
    rows = json.loads((RESULTS / "decoding.json").read_text())["rows"]
    pace = {row["label"]: row["values"]["sentences/s"] for row in rows}
    panel = speed(RESULTS).partition("Greedy decoding")[2].partition("Beam 5")[0]
    found = re.findall(r'>([^<]+)</text><rect [^>]* width="([\d.]+)"', panel)
    bars = {label: float(width) for label, width in found}
    assert list(bars) == sorted(bars, key=lambda label: -bars[label]) and len(bars) == 5
    ours, peer = bars["translate_ddp, fp32, 1 x 2"], bars["CTranslate2, fp32, 2 x 1"]
    expected = pace["translate_ddp greedy, fp32"] / pace["CTranslate2 greedy, float32, 2 x 1"]
    assert ours / peer == pytest.approx(expected, abs=0.001)
