"""The figures of measurements are those of the records."""

import json
import re

import pytest

from benchmarks.common import ROOT
from benchmarks.figures import FIGURES, recipe, speed, time_to_quality

RESULTS = ROOT / "benchmarks" / "results"


@pytest.mark.parametrize("draw", [speed, recipe, time_to_quality], ids=lambda draw: draw.__name__)
def test_figure_of_the_docs_is_drawn_from_the_records(draw):
    found = (FIGURES / f"{draw.__name__}.svg").read_text(encoding="utf-8")
    assert found == draw(RESULTS), "run python -m benchmarks.figures"


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
