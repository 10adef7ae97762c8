"""Reads the record of a run: also of one that is writing it, that failed, or whose disk was full.

Lines and files that are damaged or absent are skipped and reported.
"""

import json
import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from translate_ddp.run_record import (
    EVENTS,
    EVENTS_FILE,
    METRICS_FILE,
    SAMPLES_FILE,
    SETTINGS_FILE,
    STATUS_FILE,
    VALIDATION_FILE,
    Attention,
    Curve,
    End,
    Event,
    LastValidation,
    Launch,
    Notice,
    RunRecord,
    SampleRows,
    Saved,
)

T = TypeVar("T")


def read_run(folder: Path) -> RunRecord:
    """The record of the run in a folder. Raises OSError if metrics.jsonl cannot be read."""
    problems: list[str] = []
    events = list(_read_events(folder / EVENTS_FILE, problems))
    samples = _read_lines(folder / SAMPLES_FILE, problems)
    validation = _read_object(folder / VALIDATION_FILE, problems)
    return RunRecord(
        folder,
        _read_curves(folder / METRICS_FILE, problems),
        [event for event in events if isinstance(event, Launch)],
        [event for event in events if isinstance(event, Saved)],
        [event for event in events if isinstance(event, Notice)],
        [event for event in events if isinstance(event, End)],
        [found for line in samples if (found := _build(SampleRows, line)) is not None],
        _read_validation(validation),
        _read_object(folder / STATUS_FILE, problems),
        _read_settings(folder / SETTINGS_FILE, problems),
        problems,
    )


def _read_curves(path: Path, problems: list[str]) -> dict[str, Curve]:
    steps: dict[str, array[float]] = {}
    times: dict[str, array[float]] = {}
    values: dict[str, array[float]] = {}
    for record in _read_lines(path, problems, is_required=True):
        step, time = record.pop("step", None), record.pop("time", None)
        if not (isinstance(step, int) and isinstance(time, int | float)):
            continue
        for name, value in record.items():
            if name not in values:
                steps[name], times[name], values[name] = array("d"), array("d"), array("d")
            steps[name].append(step)
            times[name].append(time)
            values[name].append(_number(value))
    return {
        name: Curve(np.array(steps[name]), np.array(times[name]), np.array(values[name]))
        for name in values
    }


def _number(value: Any) -> float:
    """NaN and infinities are strings in the file."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _read_events(path: Path, problems: list[str]) -> Iterator[Event]:
    for line in _read_lines(path, problems):
        kind = EVENTS.get(line.pop("event", ""))
        event = _build(kind, line) if kind else None
        if event is not None:
            yield event


def _read_validation(content: dict[str, Any]) -> LastValidation | None:
    if not content:
        return None
    parts = (_build(Attention, part) for part in content.pop("attention", ()))
    found = _build(LastValidation, content | {"attention": [part for part in parts if part]})
    return found


def _build(kind: type[T], values: Mapping[str, Any]) -> T | None:
    """The dataclass, without values that it does not know; None if it lacks some."""
    names = {part.name for part in fields(kind)}  # pyright: ignore[reportArgumentType]
    try:
        return kind(**{name: value for name, value in values.items() if name in names})
    except TypeError:
        return None


def _read_lines(
    path: Path, problems: list[str], is_required: bool = False
) -> Iterator[dict[str, Any]]:
    """The objects of the lines. The last line may be incomplete: the run may be writing it."""
    damaged = 0
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    found = json.loads(line)
                except ValueError:
                    found = None
                if isinstance(found, dict):
                    yield found
                else:
                    damaged += line.endswith(b"\n")
    except FileNotFoundError:
        if is_required:
            raise
    if damaged:
        problems.append(f"{path.name}: {damaged:,} damaged lines were skipped")


def _read_object(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        problems.append(f"{path.name} cannot be read: {error}")
        return {}
    return found if isinstance(found, dict) else {}


def _read_settings(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, yaml.YAMLError) as error:
        problems.append(f"{path.name} cannot be read: {error}")
        return {}
    return found if isinstance(found, dict) else {}
