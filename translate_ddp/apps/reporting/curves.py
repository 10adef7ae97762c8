"""The charts of a run's curves, over steps and over time."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.reporting.axes import Limits
from translate_ddp.apps.reporting.charts import Mark, Series, lines
from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.page_template import untrusted
from translate_ddp.apps.reporting.thinning import POINTS, few, thinned
from translate_ddp.run_record import Curve, RunRecord, Saved

MAX_MARKS = 40  # of each kind
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
    Panel("Divergence of the SimCut passes, in nats per token", {"train/divergence": "divergence"}),
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
class TimeUnit:
    """The unit of a time axis."""

    name: str
    seconds: int

    @classmethod
    def for_length(cls, seconds: float) -> "TimeUnit":
        """Hours from three hours on, minutes from three minutes on."""
        units = (cls("hours", 3600), cls("minutes", 60))
        return next((unit for unit in units if seconds >= 3 * unit.seconds), cls("seconds", 1))

    @property
    def label(self) -> str:
        return f"{self.name} of training"


@dataclass(frozen=True)
class Line:
    """A curve, the x of its points, and its name in the legend."""

    name: str
    curve: Curve
    x: np.ndarray


@dataclass(frozen=True)
class Axis:
    """The x axis of all charts of a page, from 0 to `end`."""

    label: str
    end: float
    marks: Sequence[Mark] = ()

    def chart(
        self, title: str, shown: Sequence[Line], y_from_zero: bool, points: int = POINTS
    ) -> Markup:
        """The lines, each with about so many points. One without points keeps its colour free."""
        within = visible_range((each.curve.values for each in shown), y_from_zero)
        series = [
            thin_series(each.name, each.x, each.curve.values, points, within) for each in shown
        ]
        return lines(
            title,
            series,
            self.label,
            y_from_zero=y_from_zero,
            x_range=(0.0, self.end),
            y_within=within,
            marks=self.marks,
        )


def charts(record: RunRecord, clock: Clock) -> list[tuple[Markup, Markup]]:
    """Each chart over steps and over time."""
    unit = TimeUnit.for_length(clock.until(clock.last))
    shown = {name: curve for name, curve in record.curves.items() if len(curve)}
    end = max((float(curve.steps[-1]) for curve in shown.values()), default=0.0)
    over_steps = Axis("steps", end, marks(record, lambda step, _: step))
    over_time = Axis(
        unit.label,
        clock.until(clock.last) / unit.seconds,
        marks(record, lambda _, time: clock.until(time) / unit.seconds),
    )

    def chart(axis: Axis, panel: Panel, x: Callable[[Curve], np.ndarray]) -> Markup:
        found = [
            Line(label, shown[name], x(shown[name]))
            for name, label in panel.names.items()
            if name in shown
        ]
        return axis.chart(panel.title, found, panel.y_from_zero)

    return [
        (
            chart(over_steps, panel, lambda curve: curve.steps),
            chart(over_time, panel, lambda curve: clock.seconds(curve.times) / unit.seconds),
        )
        for panel in panels(shown)
    ]


def visible_range(curves: Iterable[np.ndarray], y_from_zero: bool) -> Limits | None:
    """The range of the values without the first ones that are far out; None if all are shown.

    A run begins with a loss of 9 and a word error rate of 3, and these would flatten the rest. Far
    out is what is beyond Tukey's outer fences of its curve. They are left out only if that shows
    the others at least twice as large. Later values are never left out: a run may diverge.
    """
    found = [finite for values in curves if len(finite := values[np.isfinite(values)])]
    if not found:
        return None
    kept = [values[_first_usual(values) :] for values in found]
    full, visible = (_limits(each, y_from_zero) for each in (found, kept))
    gains = LEAST_GAIN * (visible[1] - visible[0]) <= full[1] - full[0]
    return visible if gains and visible[0] < visible[1] else None


def _first_usual(values: np.ndarray) -> int:
    """The place of the first value that is not far out."""
    first, third = np.percentile(values, (25, 75))
    reach = FENCE * (third - first)
    return int(np.argmax((values >= first - reach) & (values <= third + reach)))


def _limits(curves: Sequence[np.ndarray], y_from_zero: bool) -> Limits:
    low, high = min(map(np.min, curves)), max(map(np.max, curves))
    return min(0.0, float(low)) if y_from_zero else float(low), float(high)


def thin_series(
    name: str, x: np.ndarray, y: np.ndarray, count: int = POINTS, within: Limits | None = None
) -> Series:
    """The curve with at most about `count` points, and as many digits as a chart can show.

    The chart shows values `within` limits.
    """
    x, y = thinned(x, y, count, within)
    return Series(name, _rounded(y, Y_DIGITS), _rounded(x, X_DIGITS))


def _rounded(values: np.ndarray, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def marks(record: RunRecord, x: Callable[[int, float], float]) -> list[Mark]:
    """Where the run was resumed, skipped steps and saved; `x` of a step and a time."""
    resumed = [launch for launch in record.launches if launch.step]
    found = [
        Mark(x(each.step, each.time), "resumed", f"step {each.step:,}")
        for each in few(resumed, MAX_MARKS)
    ]
    if skipped := record.curves.get("train/skipped_steps"):
        counts = np.diff(skipped.values, prepend=0)
        for place in few(np.flatnonzero(counts > 0).tolist(), MAX_MARKS):
            step, time = int(skipped.steps[place]), float(skipped.times[place])
            text = f"{counts[place]:.0f} until step {step:,}"
            found.append(Mark(x(step, time), "skipped", text))
    found += [
        Mark(x(each.step, each.time), "saved", f"step {each.step:,}")
        for each in few(kept_saves(record), MAX_MARKS)
    ]
    return found


def kept_saves(record: RunRecord) -> list[Saved]:
    """Without those after which the run went back to an earlier step."""
    launches = sorted(record.launches, key=lambda launch: launch.time)
    least = list(accumulate((each.step for each in reversed(launches)), min))[::-1]
    times = [launch.time for launch in launches]
    following = ((saved, bisect_right(times, saved.time)) for saved in record.saved)
    return [each for each, at in following if at == len(least) or each.step <= least[at]]
