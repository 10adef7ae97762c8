"""The training of a model as a figure for its card: loss and scores over the steps."""

from pathlib import Path

import numpy as np

from translate_ddp.pages.charts import Series, lines, standalone
from translate_ddp.reporting.reading import read_run
from translate_ddp.run_record import Curve

FILE = "training.svg"
POINTS = 300  # of a line; the chart is about as wide
CHARTS = {
    "Loss, nats/token": {"training": "train/nll", "validation": "validation/loss"},
    "Scores of validation, greedy": {"BLEU": "validation/BLEU", "chrF": "validation/chrf"},
}


def training_figure(folder: Path, last_step: int) -> str:
    """The content of an SVG file: the curves of metrics.jsonl up to a step.

    "" if the folder has none.
    """
    try:
        curves = read_run(folder).curves
    except OSError:
        return ""  # the checkpoint was copied without its run
    charts = []
    for title, names in CHARTS.items():
        series = [
            _series(name, curves[key], last_step) for name, key in names.items() if key in curves
        ]
        if any(each.x for each in series):
            charts.append(lines(title, series, "steps"))
    return standalone(*charts, columns=len(charts)) if charts else ""


def _series(name: str, curve: Curve, last_step: int) -> Series:
    """The values up to a step; of many, the means of consecutive ones."""
    known = np.isfinite(curve.values) & (curve.steps <= last_step)
    if not known.any():
        return Series(name, [])
    parts = min(int(known.sum()), POINTS)
    x, y = (
        [float(part.mean()) for part in np.array_split(each[known], parts)]
        for each in (curve.steps, curve.values)
    )
    return Series(name, y, x)
