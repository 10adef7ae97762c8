"""The charts of a run's curves, over steps and over time."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from markupsafe import Markup

from translate_ddp.pages.charts import Mark, Series, lines
from translate_ddp.pages.page import foreign
from translate_ddp.quantities import number
from translate_ddp.reporting.clock import Clock
from translate_ddp.reporting.thinning import POINTS, thinned
from translate_ddp.run_record import Curve, RunRecord

T = TypeVar("T")

MAX_MARKS = 40  # of each kind
MAX_OTHERS = 12  # charts of curves that PANELS does not have
X_DIGITS, Y_DIGITS = 8, 5  # significant ones in a chart: steps are exact


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
    Panel("Learning rate", {"train/lr": "learning rate"}),
    Panel("Gradient norm, before clipping", {"train/grad_norm": "gradient norm"}),
    Panel("Tokens per second", {"train/tokens_per_second": "tokens per second"}),
)
# Shown as the x axis, and as marks.
NOT_SHOWN = ("epoch", "train/skipped_steps")


def panels(names: Iterable[str]) -> list[Panel]:
    """The charts for curves of these names: those of PANELS, and one for each other curve."""
    known = {name for panel in PANELS for name in panel.names} | set(NOT_SHOWN)
    names = list(names)
    found = [panel for panel in PANELS if not panel.names.keys().isdisjoint(names)]
    others = [Panel(foreign(name), {name: foreign(name)}) for name in names if name not in known]
    return found + others[:MAX_OTHERS]


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


def charts(record: RunRecord, clock: Clock) -> list[tuple[Markup, Markup]]:
    """Each chart over steps and over time."""
    unit = TimeUnit.for_length(clock.until(clock.last))
    shown = {name: curve for name, curve in record.curves.items() if len(curve)}
    end = max((float(curve.steps[-1]) for curve in shown.values()), default=0.0)
    over_steps = Axis("steps", end, lambda curve: curve.steps, marks(record, lambda step, _: step))
    over_time = Axis(
        unit.label,
        clock.until(clock.last) / unit.seconds,
        lambda curve: clock.seconds(curve.times) / unit.seconds,
        marks(record, lambda _, time: clock.until(time) / unit.seconds),
    )
    return [
        (_chart(panel, shown, over_steps), _chart(panel, shown, over_time))
        for panel in panels(shown)
    ]


@dataclass(frozen=True)
class Axis:
    """The x axis of all charts: from 0 to `end`."""

    label: str
    end: float
    x: Callable[[Curve], np.ndarray]
    marks: Sequence[Mark]


def _chart(panel: Panel, curves: Mapping[str, Curve], axis: Axis) -> Markup:
    found = {label: curves[name] for name, label in panel.names.items() if name in curves}
    series = [thin_series(label, axis.x(curve), curve.values) for label, curve in found.items()]
    described = "; ".join(f"{label}: {describe(curve)}" for label, curve in found.items())
    return lines(
        panel.title,
        [with_ends(series[0], axis.end), *series[1:]],
        axis.label,
        f"{described}.",
        y_from_zero=panel.y_from_zero,
        marks=axis.marks,
    )


def with_ends(series: Series, end: float) -> Series:
    """The series with points without a value at both ends of the axis, which then has these."""
    return Series(series.name, [math.nan, *series.y, math.nan], [0.0, *series.x, end])


def thin_series(name: str, x: np.ndarray, y: np.ndarray, count: int = POINTS) -> Series:
    """The curve with at most about `count` points, and as many digits as a chart can show."""
    x, y = thinned(x, y, count)
    return Series(name, _rounded(y, Y_DIGITS), _rounded(x, X_DIGITS))


def _rounded(values: np.ndarray, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def describe(curve: Curve) -> str:
    """`8.46 at first, 1.43 at last, 1.39 at least, 8.46 at most`."""
    values = curve.values[np.isfinite(curve.values)]
    if not len(values):
        return "no finite value"
    parts = {"first": values[0], "last": values[-1], "least": values.min(), "most": values.max()}
    return ", ".join(f"{number(float(value))} at {name}" for name, value in parts.items())


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
        for each in few(record.saved, MAX_MARKS)
    ]
    return found


def few(items: Sequence[T], count: int) -> list[T]:
    """The first, the last, and those between at about equal distances: `count` of them at most."""
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[place] for place in places.tolist()]
