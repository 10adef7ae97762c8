"""The main facts of a run: what it trains, its state, progress, time and scores."""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from translate_ddp.run_record import Curve, LaunchFacts, RunRecord
from translate_ddp.runtime.run_folder import is_in_use
from translate_ddp.training.metrics import METRICS

RECENT = 20  # records, of which the median of tokens per second is taken


@dataclass(frozen=True)
class Clock:
    """Turns times into seconds of work since the first start, without the pauses of the run."""

    starts: np.ndarray  # the time of each launch; a run that kept no events has one
    ends: np.ndarray  # the last recorded time of each launch

    @classmethod
    def of(cls, record: RunRecord, now: float = 0.0) -> "Clock":
        """`now`: the present time of a run that is at work; 0: only what is recorded counts."""
        events = [*record.launches, *record.saved, *record.notices, *record.ends]
        times = [event.time for event in events]
        times += [launch.previous for launch in record.launches if launch.previous]
        recorded = np.sort(np.concatenate([times, *(c.times for c in record.curves.values())]))
        recorded = np.append(recorded, max(now, recorded.max(initial=0.0)))
        starts = np.sort([launch.time for launch in record.launches] or recorded[:1])
        # The last time before the next launch. A clock that was set back gives no negative time.
        before = np.searchsorted(recorded, [*starts[1:], np.inf]) - 1
        return cls(starts, np.maximum(recorded[before], starts))

    def seconds(self, times: np.ndarray | float) -> np.ndarray:
        """Seconds of work until each time."""
        reached = np.clip(np.asarray(times)[..., None], self.starts, self.ends)
        return (reached - self.starts).sum(axis=-1)

    @property
    def of_launches(self) -> list[float]:
        """The seconds of work in each launch."""
        return (self.ends - self.starts).tolist()

    @property
    def total(self) -> float:
        return sum(self.of_launches)


@dataclass(frozen=True)
class Score:
    """A score and the step of its validation."""

    value: float
    step: int


@dataclass(frozen=True)
class Summary:
    """The facts; facts that the record does not hold are empty, 0 or None."""

    record: RunRecord
    name: str  # beside other runs
    launch: LaunchFacts  # the last one
    state: str  # as in STATUS.json, or killed, or unknown
    step: int
    total_steps: int
    epoch: float
    clock: Clock
    seconds_left: float | None  # None unless it is running
    tokens_per_second: float | None
    best: Score | None
    last: Score | None


def summarize(record: RunRecord, now: float, name: str = "") -> Summary:
    """The facts at the time `now`."""
    launch, state = last_launch(record), run_state(record.folder, record.status)
    is_at_work = state == "running" and is_in_use(record.folder)
    steps = [int(curve.steps[-1]) for curve in record.curves.values() if len(curve)]
    logged = max(steps, default=0)
    # Not all steps are logged, but the run saved or stopped at some of them.
    later = [each.step for each in (*record.saved, *record.ends) if each.time >= launch.time]
    step = max(logged, launch.step, *later)
    epochs = record.curves.get("epoch")
    epoch = float(epochs.values[-1]) * step / max(logged, 1) if epochs else 0.0
    # The launch knew only an estimate.
    total = step if epoch >= launch.num_epochs > 0 else launch.total_steps
    return Summary(
        record=record,
        name=name,
        launch=launch,
        state=state,
        step=step,
        total_steps=total,
        epoch=epoch,
        clock=Clock.of(record, now if is_at_work else 0.0),
        seconds_left=_seconds_left(record, launch, step, total) if state == "running" else None,
        tokens_per_second=_recent(record.curves.get("train/tokens_per_second"), launch),
        best=best_score(record, launch.best_metric),
        last=last_score(record, f"validation/{launch.best_metric}"),
    )


def last_launch(record: RunRecord) -> LaunchFacts:
    """The last launch; what the settings hold of it for a run with --no_report."""
    if record.launches:
        return record.launches[-1]
    names = ("lang_src", "lang_tgt", "preset", "best_metric")
    settings = {"best_metric": "auto"} | record.settings
    if settings["best_metric"] == "auto":
        settings["best_metric"] = "chrf" if record.directions else "BLEU"
    known: dict[str, Any] = {
        name: "+".join(value) if isinstance(value := settings.get(name, ""), list) else str(value)
        for name in names
    }
    if isinstance(datasets := settings.get("dataset"), list):
        known["datasets"] = list(map(str, datasets))
    return LaunchFacts(time=0.0, step=0, **known)


def run_state(folder: Path, status: dict[str, Any]) -> str:
    """The state in STATUS.json; "killed" if that is running, but no process holds the folder."""
    state = str(status.get("state", "unknown"))
    return "killed" if state == "running" and is_in_use(folder) is False else state


def best_score(record: RunRecord, metric: str) -> Score | None:
    """The best score at the end of an epoch, as the run chooses it, or of any validation.

    None without a finite one.
    """
    scores = [each for each in scores_of(record, f"validation/{metric}") if isfinite(each.value)]
    ends = {each.step for each in record.saved if each.epoch is not None}
    scores = [each for each in scores if each.step in ends] or scores
    name = metric.rpartition("/")[2]
    is_lower_better = any(each.name == name and not each.higher_is_better for each in METRICS)
    best = min if is_lower_better else max
    return best(scores, key=lambda each: each.value, default=None)


def last_score(record: RunRecord, name: str) -> Score | None:
    """The last value of a curve; None without one."""
    return next(reversed(scores_of(record, name)), None)


def scores_of(record: RunRecord, name: str) -> list[Score]:
    """The values of a curve."""
    if (curve := record.curves.get(name)) is None:
        return []
    return list(map(Score, curve.values.tolist(), curve.steps.astype(int).tolist()))


def _seconds_left(record: RunRecord, launch: LaunchFacts, step: int, total: int) -> float | None:
    """At the mean pace between the first and the last record of this launch."""
    losses = record.curves.get("train/loss")
    if losses is None or not total:
        return None
    is_recent = losses.times >= launch.time
    steps, times = losses.steps[is_recent], losses.times[is_recent]
    if len(steps) < 2 or times[-1] <= times[0]:  # or the clock was set back
        return None
    pace = (times[-1] - times[0]) / (steps[-1] - steps[0])
    return float(pace * max(total - step, 0))


def _recent(curve: Curve | None, launch: LaunchFacts) -> float | None:
    """The median of the last records of the last launch; None without one."""
    if curve is None:
        return None
    values = curve.values[(curve.times >= launch.time) & np.isfinite(curve.values)][-RECENT:]
    return float(np.median(values)) if len(values) else None
