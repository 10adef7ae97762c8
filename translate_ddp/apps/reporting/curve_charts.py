"""The charts of the curves of runs, over steps and over time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.reporting.page_template import untrusted
from translate_ddp.apps.reporting.run_summary import Clock
from translate_ddp.apps.reporting.svg_charts import Limits, Mark, MarkKind, Series, lines
from translate_ddp.run_record import Curve, RunRecord

POINTS = 400  # of a line at most: a chart is about as many pixels wide
MAX_OTHERS = 12  # charts of curves that PANELS does not have
X_DIGITS, Y_DIGITS = 8, 5  # significant ones in a chart: steps are exact
FENCE = 3.0  # times the distance of the quartiles (Tukey, Exploratory Data Analysis, 1977)
LEAST_GAIN = 2  # in the height of lines, for which the first values are not shown


@dataclass(frozen=True)
class Panel:
    """The curves that one chart shows: their names in metrics.jsonl, and in the legend."""

    title: str
    names: Mapping[str, str]
    y_from_zero: bool = True


PANELS = (
    Panel(
        "Loss, in nats per token",
        {
            "train/loss": "training objective",
            "train/nll": "training",
            "validation/loss": "validation",
            "validation_average/loss": "average of epochs",
        },
        y_from_zero=False,
    ),
    Panel(
        "BLEU and chrF of validation",
        {
            "validation/BLEU": "BLEU",
            "validation/chrf": "chrF",
            "validation_average/BLEU": "BLEU of the average",
            "validation_average/chrf": "chrF of the average",
        },
        y_from_zero=False,
    ),
    Panel(
        "Error rates of validation",
        {
            "validation/cer": "characters (CER)",
            "validation/wer": "words (WER)",
            "validation_average/cer": "CER of the average",
            "validation_average/wer": "WER of the average",
        },
    ),
    Panel("Divergence of SimCut, in nats per token", {"train/divergence": "divergence"}),
    Panel("Learning rate", {"train/lr": "learning rate"}),
    Panel("Gradient norm, before clipping", {"train/grad_norm": "gradient norm"}),
    Panel("Tokens per second", {"train/tokens_per_second": "tokens per second"}),
)
# Shown as the x axis, and as marks.
NOT_SHOWN = ("epoch", "train/skipped_steps")


def panels(names: Iterable[str], max_others: int = MAX_OTHERS) -> list[Panel]:
    """The charts for curves of these names: those of PANELS, and one for each other curve."""
    known = {name for panel in PANELS for name in panel.names} | set(NOT_SHOWN)
    names = list(names)
    found = [panel for panel in PANELS if not panel.names.keys().isdisjoint(names)]
    others = [
        Panel(untrusted(name), {name: untrusted(name)}) for name in names if name not in known
    ]
    return found + others[:max_others]


@dataclass(frozen=True)
class Line:
    """A curve, the seconds of training until each of its points, and its name in the legend."""

    name: str
    curve: Curve
    seconds: np.ndarray


@dataclass(frozen=True)
class Event:
    """What a mark shows, and when it happened: the step, and the seconds of training until then."""

    kind: MarkKind
    step: int
    second: float
    text: str


@dataclass(frozen=True)
class CurveCharts:
    """Draws the charts of a page, whose axes all end at the same step and at the same time."""

    last_step: float
    last_second: float
    events: Sequence[Event] = ()
    points: int = POINTS  # of each line, about

    def draw(self, title: str, shown: Sequence[Line], y_from_zero: bool) -> tuple[Markup, Markup]:
        """The chart over steps and over time. A line without points keeps its colour free."""
        unit, seconds = time_unit(self.last_second)
        steps = [line.curve.steps for line in shown]
        times = [line.seconds / seconds for line in shown]
        step_marks = [Mark(each.step, each.kind, each.text) for each in self.events]
        time_marks = [Mark(each.second / seconds, each.kind, each.text) for each in self.events]
        within = visible_range((line.curve.values for line in shown), y_from_zero)

        def chart(
            xs: Sequence[np.ndarray], label: str, end: float, marks: Sequence[Mark]
        ) -> Markup:
            series = [
                thin_series(line.name, x, line.curve.values, self.points)
                for line, x in zip(shown, xs, strict=True)
            ]
            return lines(title, series, label, y_from_zero, marks, (0.0, end), within)

        return (
            chart(steps, "steps", self.last_step, step_marks),
            chart(times, f"{unit} of training", self.last_second / seconds, time_marks),
        )


def run_charts(record: RunRecord, clock: Clock) -> list[tuple[Markup, Markup]]:
    """Each chart of a run over steps and over time."""
    shown = {name: curve for name, curve in record.curves.items() if len(curve)}
    last_step = max((float(curve.steps[-1]) for curve in shown.values()), default=0.0)
    charts = CurveCharts(last_step, clock.total, run_events(record, clock))
    found = []
    for panel in panels(shown):
        lines = [
            Line(label, shown[name], clock.seconds(shown[name].times))
            for name, label in panel.names.items()
            if name in shown
        ]
        found.append(charts.draw(panel.title, lines, panel.y_from_zero))
    return found


def run_events(record: RunRecord, clock: Clock) -> list[Event]:
    """Where the run was resumed and where it skipped steps."""
    found = [
        Event("resumed", launch.step, float(clock.seconds(launch.time)), f"step {launch.step:,}")
        for launch in record.launches
        if launch.step
    ]
    if skipped := record.curves.get("train/skipped_steps"):
        counts, seconds = np.diff(skipped.values, prepend=0), clock.seconds(skipped.times)
        for place in np.flatnonzero(counts > 0):
            step = int(skipped.steps[place])
            text = f"{counts[place]:.0f} until step {step:,}"
            found.append(Event("skipped", step, float(seconds[place]), text))
    return found


def time_unit(seconds: float) -> tuple[str, int]:
    """The unit of a time axis and its seconds: hours from three hours on, then minutes."""
    units = (("hours", 3600), ("minutes", 60))
    return next((unit for unit in units if seconds >= 3 * unit[1]), ("seconds", 1))


def visible_range(curves: Iterable[np.ndarray], y_from_zero: bool) -> Limits | None:
    """The range of the values without the first ones that are far out; None if all are shown.

    A run begins with a loss of 9 and a word error rate of 3, and these would flatten the rest. Far
    out is what is beyond Tukey's outer fences of its curve. They are left out only if that shows
    the others at least twice as large. Later values are never left out: a run may diverge.
    """
    found = [finite for values in curves if len(finite := values[np.isfinite(values)])]
    if not found:
        return None
    kept: list[np.ndarray] = []
    for values in found:
        first, third = np.percentile(values, (25, 75))
        reach = FENCE * (third - first)
        is_usual = (values >= first - reach) & (values <= third + reach)
        kept.append(values[np.argmax(is_usual) :])
    floor = [np.zeros(1)] if y_from_zero else []
    everything, usual = np.concatenate(floor + found), np.concatenate(floor + kept)
    gains = LEAST_GAIN * np.ptp(usual) <= np.ptp(everything)
    return (float(usual.min()), float(usual.max())) if gains and np.ptp(usual) else None


def thin_series(name: str, x: np.ndarray, y: np.ndarray, count: int = POINTS) -> Series:
    """The curve with about `count` points at most, and as many digits as a chart can show.

    They are the first, the last, and the lowest and the highest of each of many parts, so that
    noise looks as wide as it is. A part without a finite value is a gap.
    """
    if len(x) > count:
        chosen = {0, len(x) - 1}
        for part in np.array_split(np.arange(len(x)), count // 2 - 1):
            finite = part[np.isfinite(y[part])]
            if len(finite):
                chosen |= {int(finite[np.argmin(y[finite])]), int(finite[np.argmax(y[finite])])}
            else:
                chosen.add(int(part[0]))
        places = sorted(chosen)
        x, y = x[places], y[places]
    return Series(name, _rounded(y, Y_DIGITS), _rounded(x, X_DIGITS))


def _rounded(values: np.ndarray, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
