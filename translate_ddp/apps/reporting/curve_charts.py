"""The charts of the curves of runs, over steps and over time."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.reporting.page_template import untrusted
from translate_ddp.apps.reporting.run_summary import Summary
from translate_ddp.apps.reporting.svg_charts import Limits, Mark, Series, lines
from translate_ddp.run_record import Curve, RunRecord
from translate_ddp.training.metrics import OFF_TARGET, TITLES

POINTS = 400  # on a line at most: a chart is about as many pixels wide
LINE_POINTS = 4 * POINTS  # on all lines of a chart that compares runs: the page is below 1 MB
MAX_OTHERS, MAX_OTHERS_COMPARED = 12, 4  # charts of curves that PANELS does not have
NO_CURVE = Curve(np.empty(0), np.empty(0), np.empty(0))
X_DIGITS, Y_DIGITS = 8, 5  # significant ones in a chart: steps are exact
LEAST_GAIN = 2  # in the height of lines, for which the first values are not shown


@dataclass(frozen=True)
class Panel:
    """The curves that one chart shows: their names in metrics.jsonl, and in the legend."""

    title: str
    names: Mapping[str, str]
    y_from_zero: bool = True


def _scores(**labels: str) -> dict[str, str]:
    """Scores of validation, and of the average of epochs."""
    averages = {f"validation_average/{n}": f"{label}, average" for n, label in labels.items()}
    return {f"validation/{name}": label for name, label in labels.items()} | averages


OBJECTIVE = {"train/loss": "training objective", "train/nll": "training"}
PANELS = (
    Panel("Loss, in nats per token", OBJECTIVE | _scores(loss="validation"), False),
    Panel("BLEU and chrF of validation", _scores(BLEU="BLEU", chrf="chrF"), False),
    Panel("Error rates of validation", _scores(cer="characters (CER)", wer="words (WER)")),
    Panel("Off-target share of validation", {f"validation/{OFF_TARGET}": "off-target share"}),
    Panel("Divergence of SimCut, in nats per token", {"train/divergence": "divergence"}),
    Panel("Learning rate", {"train/lr": "learning rate"}),
    Panel("Gradient norm, before clipping", {"train/grad_norm": "gradient norm"}),
    Panel("Tokens per second", {"train/tokens_per_second": "tokens per second"}),
)
# Shown as the x axis, as marks, and in a table: the scores of directions.
NOT_SHOWN = re.compile(r"epoch|train/skipped_steps|validation.*/.*/.*")
OF_A_CHART = 7  # directions: with the mean, as many lines as there are colours


def panels(names: Collection[str], is_compared: bool = False, metric: str = "") -> list[Panel]:
    """The charts for curves of these names: of PANELS, and one for each other curve.

    Curves that are compared have a chart each; else the `metric` of each direction comes first.
    """
    found = [panel for panel in PANELS if not panel.names.keys().isdisjoint(names)]
    if is_compared:
        found = [
            replace(panel, title=f"{panel.title}: {label}", names={name: label})
            if len(panel.names) > 1
            else panel
            for panel in found
            for name, label in panel.names.items()
            if name in names
        ]
    else:
        own = [name for name in names if name.split("/")[::2] == ["validation", metric]]
        title, mean = f"{TITLES.get(metric, metric)} of validation, by direction", "validation/"
        for chart in range(charts := -(-len(own) // OF_A_CHART)):
            parts = {name: untrusted(name.split("/")[1]) for name in own[chart::charts]}
            found.insert(chart, Panel(title, {mean + metric: "mean"} | parts, y_from_zero=False))
    known = {name for panel in PANELS for name in panel.names}
    others = [
        Panel(untrusted(name), {name: untrusted(name)})
        for name in names
        if name not in known and not NOT_SHOWN.fullmatch(name)
    ]
    return found + others[: MAX_OTHERS_COMPARED if is_compared else MAX_OTHERS]


def curve_charts(runs: Sequence[Summary]) -> list[tuple[Markup, Markup]]:
    """Each chart over steps and over time; all end at the same step and at the same time.

    The curves of a panel share a chart if there is one run, whose events are marked. Of several
    runs, each curve has a chart with a line for each run, which keeps its colour free if a run
    lacks the curve.
    """
    unit, length = time_unit(max(run.clock.total for run in runs))
    over_steps = _charts_over("steps", runs, lambda run, steps, times: steps)
    over_time = _charts_over(
        f"{unit} of training", runs, lambda run, steps, times: run.clock.seconds(times) / length
    )
    return list(zip(over_steps, over_time, strict=True))


def _charts_over(
    label: str, runs: Sequence[Summary], place: Callable[[Summary, Any, Any], Any]
) -> list[Markup]:
    """The charts over an axis, on which `place` places the steps and times of a run."""
    first, is_compared = runs[0], len(runs) > 1
    points = LINE_POINTS // len(runs) if is_compared else POINTS
    end = max(float(place(run, run.step, np.inf)) for run in runs)
    events = [] if is_compared else run_events(first.record)
    marks = [Mark(float(place(first, step, time)), *event) for step, time, *event in events]
    known = dict.fromkeys(
        name for run in runs for name, curve in run.record.curves.items() if len(curve)
    )
    charts = []
    for panel in panels(known, is_compared, first.launch.best_metric.rpartition("/")[2]):
        shown = [
            (untrusted(run.name) or panel.names[name], run, run.record.curves.get(name, NO_CURVE))
            for run in runs
            for name in panel.names
            if name in known
        ]
        series = [
            thin_series(name, place(run, curve.steps, curve.times), curve.values, points)
            for name, run, curve in shown
        ]
        limits = visible_range([curve.values for *_, curve in shown], panel.y_from_zero)
        charts.append(lines(panel.title, series, label, marks, (0.0, end), limits))
    return charts


def run_events(record: RunRecord) -> list[tuple[int, float, str, str]]:
    """Where the run was resumed and where it skipped steps: step, time, kind and text."""
    found = [
        (launch.step, launch.time, "resumed", f"step {launch.step:,}")
        for launch in record.launches
        if launch.step
    ]
    if skipped := record.curves.get("train/skipped_steps"):
        counts = np.diff(skipped.values, prepend=0)
        for place in np.flatnonzero(counts > 0):
            step, time = int(skipped.steps[place]), float(skipped.times[place])
            found.append((step, time, "skipped", f"{counts[place]:.0f} until step {step:,}"))
    return found


def time_unit(seconds: float) -> tuple[str, int]:
    """The unit of a time axis and its seconds: hours from three hours on, then minutes."""
    units = (("hours", 3600), ("minutes", 60))
    return next((unit for unit in units if seconds >= 3 * unit[1]), ("seconds", 1))


def visible_range(curves: Sequence[np.ndarray], y_from_zero: bool) -> Limits:
    """The range of the values, or of the values after the first tenth of each curve.

    A run begins with a loss of 9 and a word error rate of 3, which would flatten the rest. They are
    left out only if that shows the others at least twice as large.
    """
    limits: list[Limits] = []
    for share in (0, 0.1):
        parts = [v[min(math.ceil(share * len(v)), len(v) - 1) :] for v in curves if len(v)]
        shown = np.concatenate([[0.0] * y_from_zero, *parts])
        shown = shown[np.isfinite(shown)]
        limits.append((float(shown.min()), float(shown.max())) if len(shown) else (0.0, 0.0))
    full, later = map(np.ptp, limits)
    return limits[bool(0 < LEAST_GAIN * later <= full)]


def thin_series(name: str, x: np.ndarray, y: np.ndarray, count: int = POINTS) -> Series:
    """The curve with about `count` points at most, and as many digits as a chart can show.

    They are the first, the last, and the lowest and the highest of each of many parts, so that
    noise looks as wide as it is. A part without a finite value is a gap.
    """
    if len(x) > count:
        is_finite = np.isfinite(y)
        low, high = np.where(is_finite, y, np.inf), np.where(is_finite, y, -np.inf)
        parts = np.array_split(np.arange(len(x)), count // 2 - 1)
        chosen = [(part[low[part].argmin()], part[high[part].argmax()]) for part in parts]
        places = np.unique([0, len(x) - 1, *np.ravel(chosen)])
        x, y = x[places], y[places]
    return Series(name, _rounded(y, Y_DIGITS), _rounded(x, X_DIGITS))


def _rounded(values: np.ndarray, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
