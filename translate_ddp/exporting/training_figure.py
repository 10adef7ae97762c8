"""The training of a model as a figure for its card: loss and scores over the steps."""

from pathlib import Path

from translate_ddp.pages.charts import standalone
from translate_ddp.reporting.curves import Axis, Line
from translate_ddp.reporting.reading import read_curves
from translate_ddp.run_record import METRICS_FILE, Curve
from translate_ddp.training.state import RunState

FILE = "training.svg"
CHARTS = {
    "Loss, nats/token": {"training": "train/nll", "validation": "validation/loss"},
    "Scores of validation, greedy": {"BLEU": "validation/BLEU", "chrF": "validation/chrf"},
}


def training_figure(folder: Path, state: RunState) -> str:
    """The content of an SVG file: the curves of metrics.jsonl up to the step of a checkpoint.

    "" if the file in the folder is not that of the checkpoint's run, or is absent.
    """
    path, last_step = folder / METRICS_FILE, state.position.global_step
    try:
        if not state.log_offset.is_in(path.read_bytes()):
            return ""
        curves = read_curves(path, problems=[])
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
