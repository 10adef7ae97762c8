"""The record of a run in its folder, from which reports are made: what each file holds.

    metrics.jsonl    every logged scalar, a line for each record
    events.jsonl     launches, saved checkpoints, notices and ends, a line for each; never changed
    samples.jsonl    translations of the same few validation sentences, a line for each validation
    validation.json  all translations of the last validation, and the attention of a few
    STATUS.json      the state of the run; config.yaml: its settings

A run writes them (`training/sinks`), and `read_run` reads them for reports: also those of a run
that is writing them, that failed, or whose disk was full. Lines and files that are damaged or
absent are skipped and reported.
"""

import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import numpy as np
import yaml

from translate_ddp.errors import first_line
from translate_ddp.quantities import counted

T = TypeVar("T")

METRICS_FILE = "metrics.jsonl"
EVENTS_FILE = "events.jsonl"
SAMPLES_FILE = "samples.jsonl"
VALIDATION_FILE = "validation.json"
STATUS_FILE = "STATUS.json"
SETTINGS_FILE = "config.yaml"
REPORT_FILE = "report.html"
# Files of one run, which a new run in the same folder does not continue.
RECORD_FILES = (METRICS_FILE, EVENTS_FILE, SAMPLES_FILE, VALIDATION_FILE, REPORT_FILE)

LATEST = 1e11  # time that a file may have, in the year 5138
TextRow = tuple[str, str, str]  # source, reference, translation


@dataclass(frozen=True)
class LaunchFacts:
    """A start of the run: `event` "launch"."""

    time: float  # seconds since 1970, as all times here
    step: int  # global step that it starts from; 0 for a new run
    previous: float = 0.0  # time of the last line of metrics.jsonl before, which it may remove
    version: str = ""  # of translate_ddp
    torch: str = ""
    python: str = ""
    lang_src: str = ""
    lang_tgt: str = ""
    datasets: list[str] = field(default_factory=list)
    preset: str = ""
    changed: dict[str, Any] = field(default_factory=dict)  # settings that differ from the preset
    model: str = ""  # its sizes, in words
    parameters: int = 0
    precision: str = ""
    device: str = ""  # cpu or cuda
    ranks: list[str] = field(default_factory=list)  # a line for each, or for each kind
    world_size: int = 1
    nodes: int = 1
    threads: int = 1  # of each rank
    num_epochs: int = 0
    total_steps: int = 0  # to the end of the run; fewer if --patience ends it
    best_metric: str = ""
    train_pairs: int = 0
    validation_pairs: int = 0
    vocab_size: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> rows
    padding: float = 0.0  # share of the tokens of a step
    length_edges: list[int] = field(default_factory=list)  # of bins of lengths in tokens
    # Sentences in each bin; in the last one, also longer ones.
    source_lengths: list[int] = field(default_factory=list)
    target_lengths: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was written: `event` "saved"."""

    time: float
    step: int
    name: str
    size: int  # bytes
    epoch: int | None = None  # that it ends; None: within an epoch


@dataclass(frozen=True)
class Notice:
    """A message of the run, as on the console: `event` "notice"."""

    time: float
    step: int
    text: str


@dataclass(frozen=True)
class End:
    """The end of a launch that could still record it: `event` "end"."""

    time: float
    step: int
    state: str  # as in STATUS.json
    reason: str = ""


Event = LaunchFacts | Saved | Notice | End
EVENTS: dict[str, type[Event]] = dict(launch=LaunchFacts, saved=Saved, notice=Notice, end=End)


@dataclass(frozen=True)
class SampleRows:
    """Translations of some sentences at one validation, the same sentences at each."""

    step: int
    rows: list[TextRow]


@dataclass(frozen=True)
class Attention:
    """Cross-attention of one translation, the mean of all layers and heads."""

    source: list[str]  # tokens as text, "[EOS]" at the end
    predicted: list[str]
    weights: list[list[float]]  # for each predicted token: of the source tokens; about 1 in total
    sentence: str = ""  # the source


@dataclass(frozen=True)
class LastValidation:
    """All translations of the last validation."""

    step: int
    lang_tgt: str
    rows: list[TextRow]
    attention: list[Attention] = field(default_factory=list)
    bleu_signature: str = ""  # of sacreBLEU


@dataclass(frozen=True)
class Curve:
    """The values of one scalar in the order of the steps; NaN and infinities are among them."""

    steps: np.ndarray
    times: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class RunRecord:
    """All that the files of a run's folder hold; parts of files that are absent are empty."""

    folder: Path
    curves: dict[str, Curve]  # by name, such as train/loss
    launches: list[LaunchFacts]
    saved: list[Saved]
    notices: list[Notice]
    ends: list[End]
    samples: list[SampleRows]
    validation: LastValidation | None
    status: dict[str, Any]
    settings: dict[str, Any]  # flat: name -> value
    problems: list[str]  # what could not be read


def event_line(event: Event) -> str:
    """The line of events.jsonl."""
    name = next(name for name, kind in EVENTS.items() if isinstance(event, kind))
    values = {part.name: getattr(event, part.name) for part in fields(event)}
    return json.dumps({"event": name} | values) + "\n"


def read_run(folder: Path) -> RunRecord:
    """The record of the run in a folder. Raises OSError if there is none, or it cannot be read."""
    problems: list[str] = []
    has_begun = (folder / EVENTS_FILE).exists()  # maybe without a step yet
    curves = _read_curves(folder / METRICS_FILE, problems, is_required=not has_begun)
    lines: dict[str, list[dict[str, Any]]] = {name: [] for name in EVENTS}
    for line in _read_lines(folder / EVENTS_FILE, problems):
        lines.get(str(line.pop("event", "")), []).append(line)  # not those of a later version
    samples = _read_lines(folder / SAMPLES_FILE, problems)
    validation = _read_object(folder / VALIDATION_FILE, problems)
    validations = [validation] if validation else []
    settings = _read_object(folder / SETTINGS_FILE, problems, yaml.safe_load)
    return RunRecord(
        folder,
        curves,
        _built(LaunchFacts, lines["launch"], EVENTS_FILE, problems),
        _built(Saved, lines["saved"], EVENTS_FILE, problems),
        _built(Notice, lines["notice"], EVENTS_FILE, problems),
        _built(End, lines["end"], EVENTS_FILE, problems),
        _latest(_built(SampleRows, samples, SAMPLES_FILE, problems)),
        next(iter(_built(LastValidation, validations, VALIDATION_FILE, problems)), None),
        _read_object(folder / STATUS_FILE, problems),
        {str(name): value for name, value in settings.items()},
        problems,
    )


def _read_curves(path: Path, problems: list[str], is_required: bool) -> dict[str, Curve]:
    """The curves in a metrics.jsonl, by name. Raises OSError if it `is_required` and not read.

    Where a run went back, as to an earlier checkpoint, later records replace those before.
    """
    points: dict[str, array[float]] = {}  # step, time and value of each record
    for record in _read_lines(path, problems, is_required):
        step, time = _number(record.pop("step", None)), _number(record.pop("time", None))
        if math.isfinite(step) and 0 <= time < LATEST:
            for name, value in record.items():
                points.setdefault(name, array("d")).extend((step, time, _number(value)))
    return {name: _curve(np.frombuffer(each).reshape(-1, 3)) for name, each in points.items()}


def _curve(points: np.ndarray) -> Curve:
    """The curve of these steps, times and values, without those that were replaced."""
    steps = points[:, 0]
    least_from = np.minimum.accumulate(steps[::-1])[::-1]
    is_kept = np.append(steps[:-1] < least_from[1:], True)
    return Curve(*points[is_kept].T)


def _number(value: Any) -> float:
    """NaN and infinities are strings in the file."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _latest(samples: list[SampleRows]) -> list[SampleRows]:
    """Without those that a run has replaced after it went back."""
    kept: list[SampleRows] = []
    for sample in reversed(samples):
        if not kept or sample.step < kept[-1].step:
            kept.append(sample)
    return kept[::-1]


def _built(
    kind: type[T], objects: Iterable[dict[str, Any]], name: str, problems: list[str]
) -> list[T]:
    """The dataclass of each object; those that lack values or have others are counted."""
    built: list[T] = []
    others = 0
    for values in objects:
        try:
            found = _build(kind, values)
            if not 0 <= getattr(found, "time", 0) < LATEST:
                raise TypeError("no time")
            built.append(found)
        except (TypeError, OverflowError):
            others += 1
    if others:
        problems.append(f"{name}: {_were(others, 'record')} skipped, of another form")
    return built


def _build(kind: type[T], values: dict[str, Any]) -> T:
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


def _read_object(
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
