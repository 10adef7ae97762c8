"""The tables of a run's report: data, settings, environment, checkpoints, launches and cost."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.page_template import untrusted
from translate_ddp.apps.reporting.summary import best_score, epoch_at, last_launch
from translate_ddp.apps.reporting.table import Table
from translate_ddp.presets import changed_settings
from translate_ddp.quantities import describe_seconds, number, size
from translate_ddp.run_record import Curve, LaunchFacts, RunRecord
from translate_ddp.settings import Config
from translate_ddp.training.checkpoint_name import parse_name
from translate_ddp.training.metrics import METRICS

MAX_ROWS = 50  # of launches and checkpoints
MAX_NOTICES = 100
OF_100 = ("BLEU", "chrf")  # scores from 0 to 100

Rows = list[tuple[str, str]]


def scores(record: RunRecord, metric: str) -> Table:
    """The scores at the best and the last validation, and those of the average."""
    names = [each.name for each in METRICS if f"validation/{each.name}" in record.curves]
    names.sort(key=lambda name: name != metric)  # the first one is seen on a phone
    best = best_score(record, metric)
    found = [("best", "validation", best.step)] if best else []
    for title, group in (("last", "validation"), ("average", "validation_average")):
        curves = [record.curves[name] for name in record.curves if name.startswith(f"{group}/")]
        step = max((int(curve.steps[-1]) for curve in curves if len(curve)), default=None)
        found += [(title, group, step)] if step is not None else []
    rows = [
        [
            f"{title}: epoch {number(round(epoch_at(record, step), 2))}",
            *(_at(record, f"{group}/{name}", step) for name in names),
        ]
        for title, group, step in found
    ]
    return Table(["", *map(label, names)], rows)


def label(metric: str) -> str:
    """The metric's name as it is usually written."""
    names = {"loss": "loss (nats/token)", "chrf": "chrF", "cer": "CER", "wer": "WER"}
    return names.get(metric, metric)


def _at(record: RunRecord, name: str, step: int) -> str:
    value = value_at(record.curves.get(name), step)
    return "" if value is None else score_text(name.partition("/")[2], value)


def score_text(metric: str, value: float) -> str:
    """With two decimals if it is from 0 to 100, as papers have it: `41.64`, `0.4627`."""
    return f"{value:.2f}" if metric in OF_100 else number(value)


def value_at(curve: Curve | None, step: int) -> float | None:
    """The value at this step; None if there is none."""
    places = np.flatnonzero(curve.steps == step) if curve else []
    return float(curve.values[places[0]]) if curve and len(places) else None


def data(launch: LaunchFacts) -> Rows:
    """Sizes of the corpus; empty for a run that did not record them."""
    if not launch.train_pairs:
        return []
    dropped = sum(launch.dropped.values())
    return [
        ("training pairs", f"{launch.train_pairs:,}"),
        ("validation pairs", f"{launch.validation_pairs:,}"),
        ("dropped rows", f"{dropped:,}"),
        ("vocabulary", f"{launch.vocab_size:,} tokens"),
        ("padding", f"{launch.padding:.1%} of the tokens of a step"),
    ]


def settings(record: RunRecord) -> Rows:
    """The settings that differ from the preset, as flags have them."""
    changed = last_launch(record).changed
    if not record.launches:  # a version that did not record them
        names = {part: asdict(value).keys() for part, value in vars(Config()).items()}
        parts = {
            part: {name: record.settings[name] for name in of_part if name in record.settings}
            for part, of_part in names.items()
        }
        changed = changed_settings(parts)
    return [(name, flag_text(value)) for name, value in changed.items()]


def all_settings(record: RunRecord) -> Rows:
    """Those of config.yaml."""
    return [(name, flag_text(value) or "–") for name, value in record.settings.items()]


def flag_text(value: Any) -> str:
    """The value of a setting, as a flag has it."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def environment(launch: LaunchFacts) -> Rows:
    """Versions, precision and ranks of the last launch; empty if it did not record them."""
    rows = [
        ("model", f"{launch.parameters:,} parameters" if launch.parameters else ""),
        ("precision", launch.precision),
        ("versions", _versions(launch)),
        ("ranks", ranks(launch) if launch.ranks else ""),
        *(("", rank) for rank in launch.ranks[:MAX_ROWS]),
    ]
    return [(name, value) for name, value in rows if value]


def _versions(launch: LaunchFacts) -> str:
    versions = {
        "translate_ddp": launch.version,
        "torch": launch.torch,
        "Python": launch.python,
    }
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def ranks(launch: LaunchFacts) -> str:
    """`8 on 2 nodes`, `1`."""
    nodes = f" on {launch.nodes:,} nodes" if launch.nodes > 1 else ""
    return f"{launch.world_size:,}{nodes}"


def checkpoints(record: RunRecord, metric: str) -> tuple[Table, str]:
    """The files that exist, the newest first, and a sentence on those that are gone."""
    best = best_score(record, metric)
    rows, names = [], set()
    for path in sorted(record.folder.glob("*.pt")):
        if (found := parse_name(path)) is None:
            continue
        names.add(path.name)
        score = value_at(record.curves.get(f"validation/{metric}"), found.step)
        is_best = best is not None and found.step == best.step and found.epoch is not None
        shown = "" if score is None else score_text(metric, score) + (" (best)" if is_best else "")
        epoch = "" if found.epoch is None else str(found.epoch)
        cells = [epoch, f"{found.step:,}", _file_size(path), shown, path.name]
        rows.append((found.order, cells))
    rows = [cells for _, cells in sorted(rows, reverse=True)]
    gone = [saved for saved in record.saved if saved.name not in names]
    line = ""
    if gone:
        others = "1 other is" if len(gone) == 1 else f"{len(gone):,} others are"
        line = f"{others} no longer in the folder."
    if len(rows) > MAX_ROWS:
        line = f"The newest {MAX_ROWS} of {len(rows):,}. {line}".rstrip()
    return Table(["epoch", "step", "size", untrusted(label(metric)), "file"], rows[:MAX_ROWS]), line


def _file_size(path: Path) -> str:
    try:
        return size(path.stat().st_size)
    except OSError:  # deleted since
        return ""


def launches(record: RunRecord, clock: Clock, until: float, state: str) -> Table:
    """When each launch began and how it ended, the last ones."""
    rows = []
    for place, seconds in enumerate(clock.of_launches(record.launches, until)):
        launch, following = record.launches[place], record.launches[place + 1 : place + 2]
        next_time = following[0].time if following else float("inf")
        ends = [end for end in record.ends if launch.time <= end.time < next_time]
        ended = "without a record: killed, or its machine was lost" if following else state
        if ends:
            ended = f"{ends[-1].state}: {ends[-1].reason}".removesuffix(": ")
        device = {"cuda": "GPU", "cpu": "CPU"}.get(launch.device, launch.device)
        where = f"{ranks(launch)} × {device}" if device else ranks(launch)
        begun = [utc(launch.time), f"{launch.step:,}"]
        rows.append([*begun, where, describe_seconds(seconds), ended])
    return Table(["start (UTC)", "from step", "ranks", "time", "end"], rows[-MAX_ROWS:])


def notices(record: RunRecord) -> tuple[Table, str]:
    """The last messages of the run, of equal ones the last, and a sentence if there were more."""
    once = sorted({each.text: each for each in record.notices}.values(), key=lambda each: each.time)
    shown = once[-MAX_NOTICES:]
    rows = [[utc(each.time), f"{each.step:,}", each.text.replace("\n", " ")] for each in shown]
    total = len(once)
    line = f"The last {len(shown)} of {total:,} notices." if total > len(shown) else ""
    return Table(["time (UTC)", "step", "notice"], rows), line


def cost(record: RunRecord, clock: Clock, until: float) -> str:
    """The core or GPU hours of all launches; "" if none is recorded."""
    hours: dict[str, float] = {}
    for launch, seconds in zip(
        record.launches, clock.of_launches(record.launches, until), strict=True
    ):
        is_gpu = launch.device == "cuda"
        count = launch.world_size * (1 if is_gpu else launch.threads)
        unit = "GPU" if is_gpu else "core"
        hours[unit] = hours.get(unit, 0.0) + count * seconds / 3600
    return " and ".join(f"{amount:,.3g} {unit} hours" for unit, amount in hours.items())


def utc(time: float) -> str:
    """`2026-11-23 08:24`, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")
