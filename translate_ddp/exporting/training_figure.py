"""The training of a model as a figure for its card: loss and scores over the steps."""

from pathlib import Path

from translate_ddp.pages.charts import standalone
from translate_ddp.reporting.curves import Axis, Line
from translate_ddp.reporting.reading import read_curves
from translate_ddp.run_record import METRICS_FILE, Curve

FILE = "training.svg"
CHARTS = {
    "Loss, nats/token": {"training": "train/nll", "validation": "validation/loss"},
    "Scores of validation, greedy": {"BLEU": "validation/BLEU", "chrF": "validation/chrf"},
}


def training_figure(folder: Path, last_step: int) -> str:
    """The content of an SVG file: the curves of metrics.jsonl up to a step.

    "" if the folder has none.
    """
    try:
        curves = read_curves(folder / METRICS_FILE, problems=[])
    except OSError:
        return ""  # the checkpoint was copied without its run
    axis = Axis("steps", float(last_step))
    charts = []
    for title, names in CHARTS.items():
        shown = [
            Line(name, curve, curve.steps)
            for name, key in names.items()
            if key in curves and len(curve := _until(curves[key], last_step))
        ]
        if shown:
            charts.append(axis.chart(title, shown, y_from_zero=False))
    return standalone(*charts, columns=len(charts)) if charts else ""


def _until(curve: Curve, last_step: int) -> Curve:
    is_kept = curve.steps <= last_step
    return Curve(curve.steps[is_kept], curve.times[is_kept], curve.values[is_kept])
