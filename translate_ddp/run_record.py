"""The record of a run in its folder, from which reports are made: what each file holds.

    metrics.jsonl    every logged scalar, a line for each record
    events.jsonl     launches, saved checkpoints, notices and ends, a line for each; never changed
    samples.jsonl    translations of the same few validation sentences, a line for each validation
    validation.json  all translations of the last validation, and the attention of a few
    STATUS.json      the state of the run; config.yaml: its settings

A run writes them (`training/logbook.py` and `report_sink.py`), and `read_run` reads them for
reports, also while the run writes them, after a failure, or after a full disk. Lines and
files that are damaged or absent are skipped and reported.
"""

import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import numpy as np
import yaml

from translate_ddp.console import counted
from translate_ddp.errors import first_line

T = TypeVar("T")

METRICS_FILE = "metrics.jsonl"
EVENTS_FILE = "events.jsonl"
SAMPLES_FILE = "samples.jsonl"
VALIDATION_FILE = "validation.json"
STATUS_FILE = "STATUS.json"
SETTINGS_FILE = "config.yaml"
REPORT_FILE = "report.html"
# Files of one run, which a new run in the same folder does not continue: names or patterns.
TENSORBOARD = "events.out.tfevents.*"
RECORD_FILES = (METRICS_FILE, EVENTS_FILE, SAMPLES_FILE, VALIDATION_FILE, REPORT_FILE, TENSORBOARD)

TextRow = tuple[str, str, str]  # source, reference, translation


@dataclass(frozen=True)
class LaunchFacts:
    """A start of the run: `event` "launch"."""

    time: float  # seconds since 1970, as all times here
    step: int  # global step that it starts from; 0 for a new run
    previous: float = 0.0  # time of the last line of metrics.jsonl before, which it may remove
    version: str = ""  # the version of translate_ddp
    torch: str = ""
    python: str = ""
    lang_src: str = ""
    lang_tgt: str = ""
    targets: list[str] = field(default_factory=list)  # all target languages
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
    threads: int = 1  # for each rank
    num_epochs: int = 0
    total_steps: int = 0  # to the end of the run; fewer if --patience ends it
    best_metric: str = ""
    train_pairs: int = 0
    validation_pairs: int = 0
    vocab_size: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> rows
    padding: float = 0.0  # share of the tokens of a step


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
EVENTS = {LaunchFacts: "launch", Saved: "saved", Notice: "notice", End: "end"}


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
    rows: list[TextRow]
    attention: list[Attention] = field(default_factory=list)
    bleu_signature: str = ""  # from sacreBLEU


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

    @property
    def directions(self) -> list[str]:
        """The directions with scores of their own; none if there is one direction."""
        parts = (name.split("/") for name in self.curves if name.startswith("validation/"))
        return list(dict.fromkeys(part[1] for part in parts if len(part) > 2))


def event_line(event: Event) -> str:
    """The line of events.jsonl."""
    return json.dumps({"event": EVENTS[type(event)]} | vars(event)) + "\n"


def read_run(folder: Path) -> RunRecord:
    """The record of the run in a folder. Raises OSError if there is none, or it cannot be read."""
    reader = _Reader(folder)
    if not (folder / EVENTS_FILE).exists():  # a run that has begun has it, maybe without a step
        (folder / METRICS_FILE).open("rb").close()
    curves = _curves(reader.lines(METRICS_FILE))
    events = list(reader.lines(EVENTS_FILE))

    def of(kind: type[T]) -> list[T]:
        # Events of a later version are left out.
        lines = (line for line in events if line.get("event") == EVENTS[kind])
        return reader.records(EVENTS_FILE, kind, lines)

    launches, saved, notices, ends = of(LaunchFacts), of(Saved), of(Notice), of(End)
    samples = reader.records(SAMPLES_FILE, SampleRows, reader.lines(SAMPLES_FILE))
    validations = filter(None, [reader.names_and_values(VALIDATION_FILE)])
    validation = reader.records(VALIDATION_FILE, LastValidation, validations)
    settings = reader.names_and_values(SETTINGS_FILE, load_yaml)
    return RunRecord(
        folder,
        curves,
        launches,
        saved,
        notices,
        ends,
        _latest(samples),
        validation[0] if validation else None,
        reader.names_and_values(STATUS_FILE),
        {str(name): value for name, value in settings.items()},
        reader.problems,
    )


def load_yaml(text: str | bytes) -> Any:
    """What a YAML file holds, with values as text: YAML would read `no` as false.

    Raises YAMLError or RecursionError.
    """
    return yaml.load(text, Loader=yaml.BaseLoader)


class _Reader:
    """Reads the files of a folder; what is damaged is skipped and becomes one of `problems`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The objects of the lines. The last line may be incomplete: the run may be writing it."""
        damaged = 0
        try:
            with (self.folder / name).open("rb") as file:
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
            self._report_error(name, error)
        self._report_skipped(name, damaged, "damaged line")

    def names_and_values(
        self, name: str, parse: Callable[[bytes], Any] = json.loads
    ) -> dict[str, Any]:
        """The object in a file; empty without one."""
        try:
            found = parse((self.folder / name).read_bytes())
            if not isinstance(found, dict):
                raise ValueError("it holds no names and values")
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            self._report_error(name, error)
            return {}
        return found

    def records(self, name: str, kind: type[T], objects: Iterable[Mapping[str, Any]]) -> list[T]:
        """The dataclass of each object of a file, without objects that lack values."""
        found: list[T] = []
        others = 0
        for values in objects:
            try:
                found.append(_typed(kind, values))
            except TypeError:
                others += 1
        self._report_skipped(name, others, "unreadable record")
        return found

    def _report_error(self, name: str, error: Exception) -> None:
        if not isinstance(error, FileNotFoundError):
            reason = error.strerror if isinstance(error, OSError) else first_line(error)
            self.problems.append(f"{name} cannot be read: {reason}")

    def _report_skipped(self, name: str, count: int, what: str) -> None:
        if count:
            self.problems.append(f"{name}: skipped {counted(count, what)}")


def _typed(kind: Any, value: Any) -> Any:
    """The value of a file as this type, without names that the type does not know.

    Raises TypeError if a dataclass lacks values.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        known = [part for part in fields(kind) if part.name in value]
        return kind(**{part.name: _typed(part.type, value[part.name]) for part in known})
    if get_origin(kind) is list:
        return [_typed(get_args(kind)[0], part) for part in value]
    return tuple(value) if get_origin(kind) is tuple else value


def _curves(records: Iterable[dict[str, Any]]) -> dict[str, Curve]:
    """The curves of the lines of metrics.jsonl, by name.

    Where a run went back, as to an earlier checkpoint, later records replace earlier ones.
    """
    points: dict[str, array[float]] = {}  # step, time and value of each record
    for record in records:
        step, time = _number(record.pop("step", None)), _number(record.pop("time", None))
        if math.isfinite(step) and math.isfinite(time):
            for name, value in record.items():
                points.setdefault(name, array("d")).extend((step, time, _number(value)))
    return {name: _curve(np.frombuffer(each).reshape(-1, 3)) for name, each in points.items()}


def _curve(points: np.ndarray) -> Curve:
    """The curve of these steps, times and values, without the points that were replaced."""
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
    """The samples that a run has not replaced after it went back."""
    kept: list[SampleRows] = []
    for sample in samples:
        kept = [*(each for each in kept if each.step < sample.step), sample]
    return kept
