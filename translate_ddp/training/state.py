"""The state of a run that a checkpoint holds: the only definition of its schema."""

import hashlib
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self, TypeVar, get_origin

from translate_ddp import __version__
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.errors import UserError, first_line
from translate_ddp.settings import Config
from translate_ddp.training.metrics import Metric

T = TypeVar("T")

CHECKPOINT_FORMAT = 5  # raised with every change after which a saved file cannot be read


@dataclass
class Position:
    """The position of a run, and its best epoch so far. It belongs to the trainer."""

    epoch: int = 0  # finished epochs, their validation included
    step_in_epoch: int = 0  # finished steps of the current epoch
    global_step: int = 0
    best_epoch: int = 0  # 0: none yet
    best_score: float = 0.0  # the value of `best_metric` at that epoch
    best_metric: str = ""
    skipped_steps: int = 0  # steps whose loss or gradient was not finite
    skipped_in_a_row: int = 0

    def __str__(self) -> str:
        return f"epoch {self.current_epoch}, step {self.global_step:,}"

    def epochs_done(self, steps_in_epoch: int) -> float:
        """Finished epochs and the finished part of the current one, which has so many steps."""
        return self.epoch + self.step_in_epoch / steps_in_epoch

    @property
    def current_epoch(self) -> int:
        """The number of the last epoch that has begun, counted from 1."""
        return self.epoch + (self.step_in_epoch > 0)

    def advance(self) -> None:
        """Count a finished step."""
        self.step_in_epoch += 1
        self.global_step += 1

    def after_epoch(self, score: float, metric: Metric) -> "Position":
        """The position after the current epoch, which ended with this validation score."""
        ended = replace(self, epoch=self.epoch + 1, step_in_epoch=0)
        if self.best_epoch and not metric.is_better(score, self.best_score):
            return ended
        best = {"best_epoch": ended.epoch, "best_score": score, "best_metric": metric.name}
        return replace(ended, **best)

    @property
    def epochs_since_best(self) -> int:
        """Finished epochs after the best one; 0 if there is none yet."""
        return self.epoch - self.best_epoch if self.best_epoch else 0


@dataclass(frozen=True)
class LogOffset:
    """The part of metrics.jsonl that belongs to a checkpoint: length in bytes and digest."""

    size: int = 0
    sha256: str = ""

    def is_in(self, content: bytes) -> bool:
        """Whether the content of a file begins with this part."""
        return hashlib.sha256(content[: self.size]).hexdigest() == self.sha256


@dataclass(frozen=True)
class RunIdentity:
    """The settings and data that must be the same when a run resumes."""

    always: dict[str, Any]
    within_epoch: dict[str, Any]  # may change between epochs: the order and size of batches

    @property
    def data_fingerprints(self) -> tuple[str, str]:
        """The starts of the fingerprints of the training and of the validation data."""
        return self.always["training data"], self.always["validation data"]


@dataclass
class RunInfo:
    """The id of a run, its settings and its checkpoints."""

    run_id: str
    config: dict[str, dict[str, Any]]  # part -> setting -> value
    identity: RunIdentity
    history: list[str] = field(default_factory=list)  # names of the checkpoints it wrote
    archives: int = 0  # number of `earlier-NNN` folders when the run got its id


@dataclass
class RunState:
    """The whole run at one step, as plain values and tensors: the content of one checkpoint."""

    model: dict[str, Any]  # a state dict of tensors
    optimizer: dict[str, Any]  # a state dict; empty in an average and in an exported file
    position: Position
    meters: dict[str, Any]  # measurements since the last log record
    run: RunInfo
    facts: ModelFacts
    log_offset: LogOffset
    environment: dict[str, Any]  # see `describe_environment`
    version: str = __version__  # the version that wrote the file

    @property
    def can_resume(self) -> bool:
        """Whether training can resume from it; an average or an exported file can only be used."""
        return bool(self.optimizer)

    def without_tensors(self) -> Self:
        """The state without weights and moments, so small that it can be sent to all ranks."""
        groups = {name: value for name, value in self.optimizer.items() if name != "state"}
        return replace(self, model={}, optimizer=groups)

    def to_dict(self) -> dict[str, Any]:
        """Nested dicts of plain values and the tensors themselves, for `torch.save`."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        for name in ("position", "run", "log_offset"):
            parts[name] = asdict(parts[name])
        parts["facts"] = self.facts.to_dict()
        return {"format": CHECKPOINT_FORMAT, **parts, "version": __version__}

    @classmethod
    def from_dict(cls, data: Any, name: str) -> Self:
        """The state from the dict that `to_dict` made, with the defaults of settings it lacks.

        Raises UserError for any other `data`.
        """
        if not isinstance(data, dict) or "format" not in data:
            raise UserError(f"{name} is not a checkpoint of translate_ddp: it has no format.")
        if data["format"] != CHECKPOINT_FORMAT:
            raise UserError(
                f"{name} has checkpoint format {data['format']!r}, but translate_ddp {__version__} "
                f"reads format {CHECKPOINT_FORMAT}: use the version that wrote it "
                f"({data.get('version', 'not known')}), or train again in another --model_folder."
            )
        names = [part.name for part in fields(cls)]
        if missing := [part for part in names if part not in data]:
            raise UserError(f"{name} is an incomplete checkpoint: it lacks {', '.join(missing)}.")
        parts = {part: data[part] for part in names}
        try:
            # The default of a new setting is what the code did before.
            saved, defaults = parts["run"]["config"], Config().to_dict()
            config = {part: values | saved.get(part, {}) for part, values in defaults.items()}
            identity = _build(RunIdentity, parts["run"]["identity"])
            run = parts["run"] | {"config": config, "identity": identity}
            parts["run"] = _build(RunInfo, run)
            parts["position"] = _build(Position, parts["position"])
            parts["log_offset"] = _build(LogOffset, parts["log_offset"])
            parts["facts"] = ModelFacts.from_dict(parts["facts"])
            return _build(cls, parts)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise UserError(f"{name} is an incomplete checkpoint: {first_line(error)}.") from error


def _build(kind: type[T], values: dict[str, Any]) -> T:
    """The dataclass of these values. Raises TypeError if one is unknown or of another type."""
    built = kind(**values)
    for part in fields(kind):  # pyright: ignore[reportArgumentType]
        value, wanted = getattr(built, part.name), get_origin(part.type) or part.type
        kinds: Any = (int, float) if wanted is float else wanted
        if not isinstance(value, kinds):
            raise TypeError(f"{part.name} is of type {type(value).__name__}")
    return built
