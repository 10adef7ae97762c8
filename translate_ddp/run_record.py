"""The record of a run in its folder, from which reports are made: what each file holds.

    metrics.jsonl    every logged scalar, a line for each record
    events.jsonl     launches, saved checkpoints, notices and ends, a line for each; never changed
    samples.jsonl    translations of the same few validation sentences, a line for each validation
    validation.json  all translations of the last validation, and the attention of a few
    STATUS.json      the state of the run; config.yaml: its settings

A run writes them (`training/sinks`), `reporting` reads them.
"""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

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
    source_lengths: list[int] = field(
        default_factory=list
    )  # sentences; in the last bin, also longer
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
EVENTS: dict[str, type[Event]] = {
    "launch": LaunchFacts,
    "saved": Saved,
    "notice": Notice,
    "end": End,
}


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


def is_time(time: float) -> bool:
    """Whether a number of a file can be a time since 1970."""
    return 0 <= time < LATEST


def event_line(event: Event) -> str:
    """The line of events.jsonl."""
    name = next(name for name, kind in EVENTS.items() if isinstance(event, kind))
    values = {part.name: getattr(event, part.name) for part in fields(event)}
    return json.dumps({"event": name} | values) + "\n"
