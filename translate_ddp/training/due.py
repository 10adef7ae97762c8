"""What is due at a position of a run, by its settings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from translate_ddp.settings import TrainConfig
from translate_ddp.training.metrics import Metric
from translate_ddp.training.state import Position


def is_due(every: int, position: Position) -> bool:
    return every > 0 and position.global_step % every == 0


def is_save_due(config: TrainConfig, position: Position) -> bool:
    return is_due(config.save_every, position) or has_max_steps(config, position)


def is_validation_due(config: TrainConfig, position: Position, steps_in_epoch: int) -> bool:
    """Whether to validate within the epoch of so many steps; its end is always validated."""
    due = is_due(config.validate_every, position) or has_max_steps(config, position)
    return due and 0 < position.step_in_epoch < steps_in_epoch


def is_finished(config: TrainConfig, metric: Metric, position: Position, last_stage: int) -> bool:
    """Whether the run ends at this position. `last_stage` is the first epoch of the last stage."""
    is_last = position.epoch >= config.num_epochs
    has_ended = is_last or has_max_steps(config, position)
    return has_ended or has_no_patience(config, metric, position, last_stage)


def has_max_steps(config: TrainConfig, position: Position) -> bool:
    return 0 < config.max_steps <= position.global_step


def has_no_patience(
    config: TrainConfig, metric: Metric, position: Position, last_stage: int
) -> bool:
    """Whether the run ends after this epoch because the best one was `patience` epochs ago.

    Epochs before the last stage do not count.
    """
    since_best = min(position.epochs_since_best(metric), position.epoch - last_stage)
    return position.step_in_epoch == 0 and 0 < config.patience <= since_best


def with_saved(config: TrainConfig, saved: Mapping[str, Any]) -> TrainConfig:
    """The settings by which validations were due when a checkpoint with these was saved."""
    return replace(config, **{n: saved[n] for n in ("max_steps", "validate_every")})
