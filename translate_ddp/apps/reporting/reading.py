"""Reads the record of a run: also of one that is writing it, that failed, or whose disk was full.

Lines and files that are damaged or absent are skipped and reported.
"""

import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import numpy as np
import yaml

from translate_ddp.errors import first_line
from translate_ddp.quantities import counted
from translate_ddp.run_record import (
    EVENTS,
    EVENTS_FILE,
    LATEST,
    METRICS_FILE,
    SAMPLES_FILE,
    SETTINGS_FILE,
    STATUS_FILE,
    VALIDATION_FILE,
    Curve,
    End,
    Event,
    LastValidation,
    LaunchFacts,
    Notice,
    RunRecord,
    SampleRows,
    Saved,
    is_time,
)

T = TypeVar("T")


def read_run(folder: Path) -> RunRecord:
    """The record of the run in a folder. Raises OSError if there is none, or it cannot be read."""
    problems: list[str] = []
    has_begun = (folder / EVENTS_FILE).exists()  # maybe without a step yet
    curves = read_curves(folder / METRICS_FILE, problems, is_required=not has_begun)
    events = list(_read_events(folder / EVENTS_FILE, problems))
    samples = _read_lines(folder / SAMPLES_FILE, problems)
    settings = read_object(folder / SETTINGS_FILE, problems, yaml.safe_load)
    return RunRecord(
        folder,
        curves,
        [event for event in events if isinstance(event, LaunchFacts)],
        [event for event in events if isinstance(event, Saved)],
        [event for event in events if isinstance(event, Notice)],
        [event for event in events if isinstance(event, End)],
        list(_built(SampleRows, samples, SAMPLES_FILE, problems)),
        _read_validation(folder / VALIDATION_FILE, problems),
        read_object(folder / STATUS_FILE, problems),
        {str(name): value for name, value in settings.items()},
        problems,
    )


def read_curves(path: Path, problems: list[str], is_required: bool = True) -> dict[str, Curve]:
    """The curves in a metrics.jsonl, by name. Raises OSError if it `is_required` and not read.

    Where a run went back, as to an earlier checkpoint, later records replace those before.
    """
    blocks: dict[
        tuple[str, ...], array[float]
    ] = {}  # by the names of a line: numbers, line by line
    for number, record in enumerate(_read_lines(path, problems, is_required)):
        block = blocks.setdefault(tuple(record), array("d"))
        values = list(record.values())
        try:
            block.fromlist([number, *values])
        except (TypeError, OverflowError):  # not all are numbers: nothing was added
            block.fromlist([number, *map(_number, values)])
    parts: dict[str, list[np.ndarray]] = {}
    for names, block in blocks.items():
        if "step" in names and "time" in names:
            table = np.frombuffer(block).reshape(-1, 1 + len(names)).T
            columns = dict(zip(names, table[1:], strict=True))
            step, time = columns.pop("step"), columns.pop("time")
            for name, values in columns.items():
                parts.setdefault(name, []).append(np.stack([table[0], step, time, values]))
    return {name: _curve(np.concatenate(found, axis=1)) for name, found in parts.items()}


def _curve(rows: np.ndarray) -> Curve:
    """The curve of line numbers, steps, times and values."""
    steps, times = rows[1:3]
    rows = rows[:, np.isfinite(steps) & (times >= 0) & (times < LATEST)]
    rows = rows[:, np.argsort(rows[0], kind="stable")]
    steps = rows[1]
    least_from = np.minimum.accumulate(steps[::-1])[::-1]
    is_kept = np.append(steps[:-1] < least_from[1:], [True] * bool(len(steps)))
    return Curve(*rows[1:, is_kept.astype(bool)])


def _number(value: Any) -> float:
    """NaN and infinities are strings in the file."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _read_events(path: Path, problems: list[str]) -> Iterator[Event]:
    lines: dict[str, list[dict[str, Any]]] = {name: [] for name in EVENTS}
    for line in _read_lines(path, problems):
        lines.get(str(line.pop("event", "")), []).append(line)  # not those of a later version
    for name, kind in EVENTS.items():
        yield from _built(kind, lines[name], path.name, problems)


def _read_validation(path: Path, problems: list[str]) -> LastValidation | None:
    content = read_object(path, problems)
    return next(_built(LastValidation, [content] if content else [], path.name, problems), None)


def _built(
    kind: type[T], objects: Iterable[dict[str, Any]], name: str, problems: list[str]
) -> Iterator[T]:
    """The dataclass of each object; those that lack values or have others are counted."""
    others = 0
    for values in objects:
        try:
            built = _build(kind, values)
            if not is_time(getattr(built, "time", 0)):
                raise TypeError("no time")
            yield built
        except (TypeError, OverflowError):
            others += 1
    if others:
        problems.append(f"{name}: {_were(others, 'record')} skipped, of another form")


def _build(kind: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass, without values that it does not know. Raises TypeError."""
    known = {
        part.name: _typed(values[part.name], part.type)
        for part in fields(kind)  # pyright: ignore[reportArgumentType]
        if part.name in values
    }
    return kind(**known)


def _typed(value: Any, kind: Any) -> Any:
    """The value of a file as this type. Raises TypeError if it is of another."""
    if kind is Any:
        return value
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        return _build(kind, value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list and isinstance(value, list):
        return [_typed(part, inner[0]) for part in value]
    if origin is tuple and isinstance(value, list) and len(value) == len(inner):
        return tuple(_typed(part, each) for part, each in zip(value, inner, strict=True))
    if origin is dict and isinstance(value, dict):
        return {name: _typed(part, inner[1]) for name, part in value.items()}
    if kind is float and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    if kind is float or origin in (list, tuple, dict) or not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {kind}")
    return value


def _read_lines(
    path: Path, problems: list[str], is_required: bool = False
) -> Iterator[dict[str, Any]]:
    """The objects of the lines. The last line may be incomplete: the run may be writing it."""
    damaged = 0
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break  # its rest may be written by now
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    found = None
                if isinstance(found, dict):
                    yield found
                else:
                    damaged += 1
    except OSError as error:
        if is_required:
            raise
        if not isinstance(error, FileNotFoundError):
            problems.append(f"{path.name} cannot be read: {error.strerror}")
    if damaged:
        problems.append(f"{path.name}: {_were(damaged, 'damaged line')} skipped")


def _were(count: int, what: str) -> str:
    return f"{counted(count, what)} {'was' if count == 1 else 'were'}"


def read_object(
    path: Path, problems: list[str], parse: Callable[[bytes], Any] = json.loads
) -> dict[str, Any]:
    """The object in a file; empty without one."""
    try:
        found = parse(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else first_line(error)
        problems.append(f"{path.name} cannot be read: {reason}")
        return {}
    if not isinstance(found, dict):
        problems.append(f"{path.name} was skipped: it holds no names and values")
        return {}
    return found
