"""The training loop: when to log, validate, save and stop."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from translate_ddp.console import ProgressBar, number
from translate_ddp.data.batches import BatchLoader, Step
from translate_ddp.data.dataset import PreparedData
from translate_ddp.errors import Stopped
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.device import describe_device
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.world import World
from translate_ddp.settings import ModelConfig, TrainConfig
from translate_ddp.training.checkpoint import CheckpointWriter, check_weights
from translate_ddp.training.identity import describe_environment
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.meters import (
    StepMeters,
    Throughput,
    count_skipped,
    most_tokens,
    profiled,
)
from translate_ddp.training.metrics import find_metric
from translate_ddp.training.state import Position, RunInfo, RunState
from translate_ddp.training.step import OptimizerStep, StepResult
from translate_ddp.training.validation import Validator


@dataclass
class Trainer:
    """The training loop of one rank. Every rank makes the same calls in the same order."""

    config: TrainConfig
    model: Transformer
    optimizer_step: OptimizerStep
    loader: BatchLoader
    data: PreparedData
    info: RunInfo
    checkpoints: CheckpointWriter
    logbook: Logbook
    world: World

    def __post_init__(self) -> None:
        self.position = Position()
        self.supervisor = self.world.supervisor
        self.sampler = self.loader.sampler
        self.meters = StepMeters(self.config.log_every, self.world)
        model_config = ModelConfig(**self.info.config["model"])
        copies = self.optimizer_step.forward_copies
        most = most_tokens(self.model, model_config, self.sampler.lengths, copies)
        self.throughput = Throughput(self.world, most)
        self.metric = find_metric(self.config.best_metric, self.data.facts.directions)
        on, tokens = self.config.validate_on, self.loader.max_tokens
        self.validator = Validator(self.data, on, tokens, self.logbook, self.world)
        self._checked_step = 0  # skipped steps are counted up to this one
        self._saved_config = self.config  # with the checkpoint's times of validation
        self._first_step, self._began = 0, time.monotonic()  # in this process

    def resume(self, state: RunState) -> None:
        """Continue at the position of a state, whose weights and moments are loaded already."""
        saved = state.run.config
        self.position = state.position
        self.optimizer_step.loss_scale.restore(state.optimizer)
        self._checked_step = self.position.global_step
        if saved["loss"] == self.info.config["loss"]:  # else its parts may differ
            self.meters.restore(state.meters)
        changed = {name: saved["train"][name] for name in ("max_steps", "validate_every")}
        self._saved_config = replace(self.config, **changed)
        self.checkpoints.resume(self.position.global_step, self.info.history[-1])

    # --- the loop ---

    def fit(self) -> bool:
        """Train from `position` to the end of the run. Returns False if it was stopped before."""
        if self.is_finished():
            self._save()  # its checkpoint may be in another folder
            if not self.position.step_in_epoch:
                return True
            # Within an epoch, at --max_steps: its last validation may have been removed.
        self.supervisor.enter_phase("warming up")
        self._warm_up()
        self.supervisor.begin_training(self.config.max_minutes)
        self._first_step, self._began = self.position.global_step, time.monotonic()
        steps, folder = self.config.profile * self.world.is_main, self.checkpoints.store.folder
        try:
            with profiled(
                steps, folder, lambda: self.position.global_step, self.logbook.message
            ) as trace_step:
                return self._fit(trace_step)
        except Stopped:  # during a validation
            self._save(stopping=True)
            return False

    def _fit(self, trace_step: Callable[[], None]) -> bool:
        self.sampler.set_epoch(self.position.epoch)  # which may be at its end
        self._repeat_validation()
        self.throughput.restart()
        while True:
            if self.position.step_in_epoch == len(self.sampler.plan):
                self._finish_epoch()
            if self.is_finished():
                break
            self.sampler.set_epoch(self.position.epoch, first_step=self.position.step_in_epoch)
            label = f"epoch {self.position.epoch + 1}/{self.config.num_epochs}"
            done, total = self.position.step_in_epoch, len(self.sampler.plan)
            with self.logbook.progress(label, total, initial=done) as progress:
                self.supervisor.enter_phase("reading a batch", self.position.global_step + 1)
                for step in self.loader:
                    self._train_step(step, progress)
                    trace_step()
                    stop, save = self._read_requests()
                    # Validation can take long, so the state is saved first.
                    if stop or save or self._is_save_due() or self._is_validation_due():
                        self._save(stopping=stop)
                    # A skipped step is not saved: the run goes on to one that can be.
                    if stop and not self.position.skipped_in_a_row:
                        return False
                    if self._has_max_steps():
                        break
                    if self._is_validation_due():
                        self._validate()
                    self.supervisor.enter_phase("reading a batch", self.position.global_step + 1)
            if self._is_validation_due():  # at --max_steps, below the closed progress bar
                self._validate()
        if self.position.step_in_epoch:  # at --max_steps
            self._validate_end(self.position)
        return True

    def _warm_up(self) -> None:
        given = self.loader.max_tokens
        self.optimizer_step.warm_up(self.loader)
        if (fitting := self.loader.max_tokens) < given:
            self.validator.max_tokens = fitting
            self.logbook.message(
                f"Micro-batches of up to {given:,} tokens a side do not fit in the memory of "
                f"{describe_device(self.world.device)}: this run continues as with --max_tokens "
                f"{fitting * self.optimizer_step.forward_copies}. Its steps stay the same."
            )

    def _repeat_validation(self) -> None:
        """Validate again what was validated after the resumed checkpoint: its record is removed."""
        saved = self._saved_config  # such as --max_steps 2 of a run that now continues
        if self._is_validation_due() or self._is_validation_due(saved):
            self._validate()
            if self._has_max_steps(saved) and not self.is_finished():
                self._validate_end(self.position)

    def _train_step(self, step: Step, progress: ProgressBar) -> None:
        """Update the weights once, and log if a record is due."""
        fault_point("batch")
        result = self.optimizer_step(
            step,
            self.position.global_step,
            progress=self.epochs_done / self.config.num_epochs,
            stop=self.supervisor.stop_reason is not None,
            save=self.checkpoints.is_due(self.config.save_every_minutes),
            written=self.checkpoints.is_written,
        )
        sums = {"loss": result.loss, **result.extras}
        self.meters.add(self.position.global_step, sums, result.tokens, result.skipped)
        self.throughput.add(result.tokens)
        self.position.advance()
        if self.position.global_step % self.config.log_every == 0:
            progress.text = self._log(result)
        progress.advance(1, self._seconds_left())

    def _read_requests(self) -> tuple[bool, bool]:
        """Whether a rank requested a stop, or a save, in the previous step."""
        self.supervisor.enter_phase("waiting for the previous step")
        stop, save, written = self.optimizer_step.flags.of_previous_step()
        # Not if the state was saved after the step of the request, which was the step before.
        is_current = self.checkpoints.last_step < self.position.global_step - 1
        if written and is_current:
            self._finish_save()
        return stop, save and is_current

    def _finish_epoch(self) -> None:
        self._save()
        score = self._validate()[self.metric.name]
        ended = self.position.after_epoch(score, self.metric)
        if self.is_finished(ended):
            # Before the save: a resumed run removes what was logged after its checkpoint.
            self._validate_end(ended)
        self.position = ended
        self._save(epoch=ended.epoch)

    @property
    def epochs_done(self) -> float:
        return self.position.epochs_done(len(self.sampler.plan))

    def _seconds_left(self) -> float:
        """Estimated seconds to the end of the run, at the mean pace since the start."""
        steps = (self.config.num_epochs - self.epochs_done) * len(self.sampler.plan)
        if self.config.max_steps:
            steps = min(steps, self.config.max_steps - self.position.global_step)
        elapsed = time.monotonic() - self._began
        return steps * elapsed / max(1, self.position.global_step - self._first_step)

    # --- what is due at a position ---

    def is_finished(self, position: Position | None = None) -> bool:
        """Whether the run ends at the current or another position."""
        position = position or self.position
        is_last = position.epoch >= self.config.num_epochs
        return is_last or self._has_max_steps() or self.has_no_patience(position)

    def has_no_patience(self, position: Position) -> bool:
        """Whether the run ends after this epoch because the best one was `patience` epochs ago."""
        since_best = position.epochs_since_best
        return position.step_in_epoch == 0 and 0 < self.config.patience <= since_best

    def _has_max_steps(self, config: TrainConfig | None = None) -> bool:
        return 0 < (config or self.config).max_steps <= self.position.global_step

    def _is_save_due(self) -> bool:
        return self._is_every(self.config.save_every) or self._has_max_steps()

    def _is_validation_due(self, config: TrainConfig | None = None) -> bool:
        """Whether to validate within the epoch, whose end is always validated."""
        every = (config or self.config).validate_every
        is_within = 0 < self.position.step_in_epoch < len(self.sampler.plan)
        return is_within and (self._is_every(every) or self._has_max_steps(config))

    def _is_every(self, steps: int) -> bool:
        return steps > 0 and self.position.global_step % steps == 0

    # --- what is logged ---

    def _log(self, result: StepResult) -> str:
        """Log the steps since the last record; return what the progress bar shows of them."""
        means = self.meters.means(self._totals())
        pace = self.throughput.values()
        scalars = {f"train/{name}": value for name, value in (means | pace).items()} | {
            "train/lr": self.optimizer_step.optimizer.param_groups[0]["lr"],
            "train/grad_norm": float(result.norm),
            "train/skipped_steps": self.position.skipped_steps,
            **self.optimizer_step.loss_scale.scalars(),
        }
        self._log_scalars(scalars)
        self.meters.clear()
        self.throughput.restart()
        return f"loss {number(means['loss'])}, {number(pace['tokens_per_second'])} tokens/s"

    def _log_scalars(self, scalars: dict[str, float]) -> None:
        self.logbook.log(self.position.global_step, scalars | {"epoch": self.epochs_done})

    def _totals(self) -> dict[str, Tensor]:
        """The meters' totals over all ranks, without skipped steps. A collective."""
        totals = self.meters.totals()
        skipped = self.meters.take_skipped(self._checked_step, self.position.global_step)
        self._checked_step = self.position.global_step
        count_skipped(self.position, skipped, self.sampler.plan, self.data, self.logbook)
        return totals

    # --- validation and saving ---

    def _validate(self) -> dict[str, float]:
        with self.throughput.paused():
            scores = self.validator.validate(self.model, self.position.global_step)
        self._log_scores("validation", scores)
        self.validator.show_signatures()
        return scores

    def _validate_end(self, ended: Position) -> None:
        """Score the weights that `translate` will use, if they are an average."""
        store, history = self.checkpoints.store, self.info.history
        if scores := self.validator.score_average(self.model, store, history, ended):
            self._log_scores("validation_average", scores)

    def _log_scores(self, group: str, scores: dict[str, float]) -> None:
        self._log_scalars({f"{group}/{name}": score for name, score in scores.items()})

    def _save(self, epoch: int | None = None, stopping: bool = False) -> None:
        """Save, unless within an epoch this step was saved already or the last one was skipped.

        The file is written while the training goes on; at its end, this waits for it. Raises
        UserError if the weights differ or are not finite, or if too many saves failed.
        """
        step = self.position.global_step
        is_last = stopping or self.is_finished()
        if is_last or epoch or self.checkpoints.last_step != step:
            self._finish_save()  # if it failed, `last_step` is now an earlier one
        if epoch is None and self.checkpoints.last_step == step:
            return
        self.supervisor.enter_phase("checking the weights before a save", step)
        totals = self._totals()
        # An epoch needs its file: it may be the best, or part of an average.
        if epoch is None and self.position.skipped_in_a_row and not self.is_finished():
            return
        check_weights(
            list(self.model.parameters()), self.optimizer_step.optimizer, self.world, step
        )
        self.supervisor.enter_phase("saving a checkpoint")
        with self.throughput.paused():
            self.checkpoints.save(lambda: self.state(totals), step, epoch)
        if is_last:
            self._finish_save(is_last=True)

    def _finish_save(self, *, is_last: bool = False) -> None:
        """Wait for the pending save, if any, and record its file."""
        with self.throughput.paused():
            saved = self.checkpoints.finish(is_last=is_last)
        if saved is not None:
            self.info.history.append(saved.path.name)
            self.logbook.saved(saved.step, saved.path, saved.epoch)

    def state(self, totals: dict[str, Tensor]) -> RunState:
        """The current state, with the meters' `totals` over all ranks. Rank 0 only."""
        step = self.optimizer_step
        return RunState(
            model=self.model.state_dict(),
            optimizer=step.optimizer.state_dict() | step.loss_scale.state(),
            position=self.position,
            meters=self.meters.state(totals),
            run=self.info,
            facts=self.data.facts,
            log_offset=self.logbook.offset(),
            environment=describe_environment(self.model, self.loader.max_tokens, self.world),
        )
