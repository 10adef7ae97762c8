"""The main facts of a run: what it trains, its state, progress, time and scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.run_record import STATUS_FILE, Curve, LaunchFacts, RunRecord
from translate_ddp.runtime.run_folder import is_in_use, read_json
from translate_ddp.training.metrics import METRICS

RECENT = 20  # records, of which the median of tokens per second is taken
KILLED = "STATUS.json says that the run is running, but no process holds the folder."


@dataclass(frozen=True)
class Score:
    """A score and the step of its validation."""

    value: float
    step: int
    epoch: float


@dataclass(frozen=True)
class Summary:
    """The facts; those that the record does not hold are empty, 0 or None."""

    languages: tuple[str, str]
    corpus: str
    preset: str
    model: str
    state: str  # as in STATUS.json, or killed, or unknown
    reason: str
    step: int
    total_steps: int
    epoch: float
    num_epochs: int
    until: float  # time: now if the run is seen to work, else the last recorded one
    elapsed_seconds: float  # of work until then, without pauses
    seconds_left: float | None  # None unless it is running
    tokens_per_second: float | None
    metric: str  # that chooses the best epoch
    best: Score | None
    last: Score | None
    signature: str  # of BLEU


def summarize(record: RunRecord, clock: Clock, now: float) -> Summary:
    """The facts at the time `now`."""
    launch, settings = last_launch(record), record.settings
    state = run_state(record.folder, record.status)
    is_at_work = state == "running" and is_in_use(record.folder)
    until = max(now, clock.last) if is_at_work else clock.last
    epochs = record.curves.get("epoch")
    logged = max(
        (int(curve.steps[-1]) for curve in record.curves.values() if len(curve)), default=0
    )
    step = max(logged, launch.step, *_later_steps(record, launch.time))
    epoch = float(epochs.values[-1]) * step / max(logged, 1) if epochs else 0.0
    num_epochs = launch.num_epochs or _integer(settings.get("num_epochs"))
    total = launch.total_steps or _total_steps(settings, step, epoch, num_epochs)
    if epoch >= num_epochs > 0:
        total = step  # of which the launch knew only an estimate
    metric = launch.best_metric or str(settings.get("best_metric", "BLEU"))
    scores = record.curves.get(f"validation/{metric}")
    return Summary(
        languages=(
            launch.lang_src or str(settings.get("lang_src", "?")),
            launch.lang_tgt or str(settings.get("lang_tgt", "?")),
        ),
        corpus=" ".join(launch.datasets) or _joined(settings.get("dataset", "")),
        preset=launch.preset or str(settings.get("preset", "")),
        model=launch.model or _model(settings),
        state=state,
        reason=str(record.status.get("reason", "")),
        step=step,
        total_steps=total,
        epoch=epoch,
        num_epochs=num_epochs,
        until=until,
        elapsed_seconds=clock.until(until),
        seconds_left=_seconds_left(record, launch, step, total) if state == "running" else None,
        tokens_per_second=_recent(record.curves.get("train/tokens_per_second"), launch),
        metric=metric,
        best=best_score(record, metric),
        last=_score(record, scores, -1) if scores else None,
        signature=record.validation.bleu_signature if record.validation else "",
    )


def _later_steps(record: RunRecord, time: float) -> list[int]:
    """The steps that were saved or stopped at since a time; not all steps are logged."""
    return [each.step for each in (*record.saved, *record.ends) if each.time >= time]


def last_launch(record: RunRecord) -> LaunchFacts:
    """The last launch; an empty one for a run of a version that recorded none."""
    return record.launches[-1] if record.launches else LaunchFacts(time=0.0, step=0)


def run_state(folder: Path, status: Mapping[str, Any] | None = None) -> str:
    """The state in STATUS.json; "killed" if that is running, but no process holds the folder."""
    if status is None:
        status = read_json(folder / STATUS_FILE)
    state = str(status.get("state", "unknown"))
    return "killed" if state == "running" and is_in_use(folder) is False else state


def best_score(record: RunRecord, metric: str) -> Score | None:
    """The best score at the end of an epoch, as the run chooses it, or of any validation.

    None without a finite one.
    """
    curve = record.curves.get(f"validation/{metric}")
    if curve is None or not np.isfinite(curve.values).any():
        return None
    higher = next((each.higher_is_better for each in METRICS if each.name == metric), True)
    ranked = np.where(np.isfinite(curve.values), curve.values if higher else -curve.values, -np.inf)
    of_epochs = np.isin(curve.steps, [each.step for each in record.saved if each.epoch is not None])
    if (np.isfinite(ranked) & of_epochs).any():
        ranked = np.where(of_epochs, ranked, -np.inf)
    return _score(record, curve, int(np.argmax(ranked)))


def epoch_at(record: RunRecord, step: int) -> float:
    """The epochs done at a step; 0.0 if the record does not say."""
    curve = record.curves.get("epoch")
    return float(np.interp(step, curve.steps, curve.values)) if curve else 0.0


def _score(record: RunRecord, curve: Curve, place: int) -> Score:
    step = int(curve.steps[place])
    return Score(float(curve.values[place]), step, epoch_at(record, step))


def _seconds_left(record: RunRecord, launch: LaunchFacts, step: int, total: int) -> float | None:
    """At the mean pace between the first and the last record of this launch."""
    losses = record.curves.get("train/loss")
    if losses is None or not total:
        return None
    places = np.flatnonzero(losses.times >= launch.time)
    if len(places) < 2:
        return None
    first, last = places[[0, -1]]
    steps, seconds = (values[last] - values[first] for values in (losses.steps, losses.times))
    if seconds <= 0:  # the clock was set back
        return None
    return float(seconds / steps * max(total - step, 0))


def _recent(curve: Curve | None, launch: LaunchFacts) -> float | None:
    """The median of the last records of the last launch, or of all if it has none."""
    if curve is None:
        return None
    of_launch = curve.values[curve.times >= launch.time]
    values = (of_launch if len(of_launch) else curve.values)[-RECENT:]
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else None


def _total_steps(settings: Mapping[str, Any], step: int, epoch: float, num_epochs: int) -> int:
    """From the steps of the epochs done: for runs that did not record it."""
    total = round(step / epoch * num_epochs) if epoch > 0 else 0
    limit = _integer(settings.get("max_steps"))
    return min(total, limit) if limit and total else total or limit


def _model(settings: Mapping[str, Any]) -> str:
    names = ("num_encoder_layers", "num_decoder_layers", "d_model")
    if not all(name in settings for name in names):
        return ""
    encoder, decoder, width = (settings[name] for name in names)
    return f"{encoder} encoder and {decoder} decoder layers, width {width}"


def _joined(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _integer(value: Any) -> int:
    return value if isinstance(value, int) else 0
