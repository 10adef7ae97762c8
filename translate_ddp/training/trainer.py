"""The training loop: when to log, validate, save and stop."""

import copy
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from torch import Tensor

from translate_ddp.data.batches import BatchLoader, Step
from translate_ddp.data.dataset import PreparedData
from translate_ddp.errors import Stopped, UserError, first_line
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.progress import Progress
from translate_ddp.quantities import number
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.long_calls import library_call
from translate_ddp.runtime.world import World
from translate_ddp.settings import TrainConfig
from translate_ddp.training import due
from translate_ddp.training.averaging import average_run, listed, loaded
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.meters import StepMeters, Throughput, count_skipped
from translate_ddp.training.metrics import find_metric, with_units
from translate_ddp.training.optimizer import check_shapes
from translate_ddp.training.resume import describe_environment
from translate_ddp.training.saving import RunSaver, check_weights
from translate_ddp.training.state import Position, Run, RunState
from translate_ddp.training.updater import StepResult, Updater
from translate_ddp.training.validation import ValidationSet, Validator


@dataclass
class Trainer:
    """The training loop of one rank. Every rank makes the same calls in the same order."""

    config: TrainConfig
    model: Transformer
    updater: Updater
    loader: BatchLoader
    data: PreparedData
    run: Run
    saver: RunSaver
    logbook: Logbook
    world: World

    def __post_init__(self) -> None:
        self.supervisor = self.world.supervisor
        self.sampler, self.mix = self.loader.sampler, self.loader.sampler.mix
        self.last_stage = self.mix.first_epochs[-1]
        self.meters = StepMeters(self.config.log_every, self.world)
        self.throughput = Throughput()
        self.lang_tgt: str = self.run.config["corpus"]["lang_tgt"]
        self.metric = find_metric(self.config.best_metric, self.lang_tgt)
        self.validator = Validator(
            ValidationSet.of(self.data, self.lang_tgt),
            self.data.tokenizer,
            self.config.validate_on,
            self.loader.max_tokens,
            self.logbook,
            self.world,
        )
        self._checked_step = 0  # skipped steps are counted up to this one
        self._saved_config = self.config  # of the resumed checkpoint
        self._first_step, self._began = 0, time.monotonic()  # of this process

    @property
    def position(self) -> Position:
        return self.updater.position

    @property
    def epochs_done(self) -> float:
        return self.position.epochs_done(len(self.sampler.plan))

    # --- the loop ---

    def fit(self) -> bool:
        """Train from `position` to the end of the run. Returns False if it was stopped before."""
        if self.is_finished():
            self._save()  # its checkpoint may be in another folder
            if not self.position.step_in_epoch:
                return True
        # Compilation may take longer than the timeout.
        self.supervisor.enter_phase("warming up", has_timeout=not self.config.compile)
        self.updater.warm_up(self.loader.largest_step())
        self.supervisor.begin_training(self.config.max_minutes)
        self._first_step, self._began = self.position.global_step, time.monotonic()
        try:
            return self._fit()
        except Stopped:  # during a validation
            self._save(stopping=True)
            return False

    def _fit(self) -> bool:
        self.sampler.set_epoch(self.position.epoch)
        self._repeat_validation()
        self.throughput.restart()
        while True:
            if self.position.step_in_epoch == len(self.sampler.plan):
                self._finish_epoch()
            if self.is_finished():
                if self.position.step_in_epoch:  # at --max_steps
                    self._validate_average(self.position)
                return True
            with self._epoch_progress() as progress:
                stopped = self._train_epoch(progress)
            if stopped:
                return False
            if self._is_validation_due():  # at --max_steps, below the closed progress bar
                self._validate()

    def _repeat_validation(self) -> None:
        """Validate again what was validated after the resumed checkpoint: its record is removed."""
        saved = self._saved_config  # such as --max_steps 2 of a run that now continues
        if self._is_validation_due() or self._is_validation_due(saved):
            self._validate()
            if due.has_max_steps(saved, self.position) and not self.is_finished():
                self._validate_average(self.position)

    def _train_epoch(self, progress: Progress) -> bool:
        """Train to the end of the epoch or the run. Returns True if it was stopped before."""
        position = self.position
        self.supervisor.enter_phase("reading a batch", position.global_step + 1)
        for step in self.loader:
            fault_point("batch")
            self._train_step(step, progress)
            self.supervisor.enter_phase("waiting for the previous step")
            stop, save = self.updater.flags.of_previous_step()
            save &= self.saver.saved_step < position.global_step - 1  # else saved since then
            # Validation can take long, so the state is saved first.
            save |= due.is_save_due(self.config, position) or self._is_validation_due()
            if stop or save:
                self._save(stopping=stop)
            if stop and not position.skipped_in_a_row:
                return True
            if due.has_max_steps(self.config, position):
                break
            if self._is_validation_due():
                self._validate()
            self.supervisor.enter_phase("reading a batch", position.global_step + 1)
        return False

    def _train_step(self, step: Step, progress: Progress) -> None:
        """Update the weights once, and log if a record is due."""
        result = self.updater.step(
            step,
            progress=self.mix.finished_part(self.epochs_done, self.config.num_epochs),
            stop=self.supervisor.stop_reason is not None,
            save=self.saver.is_due(self.config.save_every_minutes),
        )
        global_step = self.position.global_step
        sums = {"loss": result.loss, **result.extras}
        self.meters.add(global_step - 1, sums, result.tokens, result.skipped)
        self.throughput.add(result.tokens)
        if global_step % self.config.log_every == 0:
            progress.text = self._log(result)
        progress.advance(1, self._seconds_left())

    def _finish_epoch(self) -> None:
        self._save()
        score = self._validate()[self.metric.name]
        ended = self.position.after_epoch(score, self.metric)
        if self.is_finished(ended):
            # Before the save: a resumed run removes what was logged after its checkpoint.
            self._validate_average(ended)
        self.updater.position = ended
        self._save(epoch=ended.epoch)

    def _epoch_progress(self) -> AbstractContextManager[Progress]:
        epoch, done = self.position.epoch, self.position.step_in_epoch
        self.sampler.set_epoch(epoch, first_step=done)
        label = f"epoch {epoch + 1}/{self.config.num_epochs}"
        return self.logbook.progress(label, total=len(self.sampler.plan), initial=done)

    def _seconds_left(self) -> float:
        """Estimated seconds to the end of the run, at the mean pace since the start."""
        epochs = self.mix.epochs_left(self.epochs_done, self.config.num_epochs)
        steps = epochs * len(self.sampler.plan)
        if self.config.max_steps:
            steps = min(steps, self.config.max_steps - self.position.global_step)
        elapsed = time.monotonic() - self._began
        return steps * elapsed / max(1, self.position.global_step - self._first_step)

    def is_finished(self, position: Position | None = None) -> bool:
        """Whether the run ends at the current or another position."""
        position = position or self.position
        return due.is_finished(self.config, self.metric, position, self.last_stage)

    def _is_validation_due(self, config: TrainConfig | None = None) -> bool:
        return due.is_validation_due(config or self.config, self.position, len(self.sampler.plan))

    # --- what is logged ---

    def _log(self, result: StepResult) -> str:
        """Log the steps since the last record; return what the progress bar shows of them."""
        means = self.meters.means(self._totals())
        rate = self.throughput.tokens_per_second()
        scalars = {f"train/{name}": mean for name, mean in means.items()} | {
            "train/lr": self.updater.optimizer.param_groups[0]["lr"],
            "train/grad_norm": float(result.norm),
            "train/skipped_steps": self.position.skipped_steps,
            "train/tokens_per_second": rate,
        }
        self._log_scalars(scalars)
        self.meters.clear()
        self.throughput.restart()
        return f"loss {number(means['loss'])}, {number(rate)} tokens/s"

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
        self._log_scalars({f"validation/{name}": s for name, s in scores.items()})
        self.validator.show_signature()
        return scores

    def _validate_average(self, ended: Position) -> None:
        """Validate the weights that `translate` will use, if they are an average."""
        store, history = self.saver.store, self.run.history
        average = average_run(self.model, store, history, ended, self.world)
        if average is None:
            return
        with loaded(self.model, average.weights):
            scores = self.validator.score(self.model, ended.global_step).scores
        self._log_scalars({f"validation_average/{name}": s for name, s in scores.items()})
        for line in average.messages:
            self.logbook.message(line)
        self.logbook.message(
            f"average of epochs {listed(average.epochs)}: validation {with_units(scores)}"
        )

    def _save(self, epoch: int | None = None, stopping: bool = False) -> None:
        """Save, unless within an epoch this step was saved already or the last one was skipped.

        Raises UserError if the weights differ or are not finite, or if too many saves failed.
        """
        step = self.position.global_step
        if epoch is None and self.saver.saved_step == step:
            return
        self.supervisor.enter_phase("checking the weights before a save", step)
        totals = self._totals()
        # An epoch needs its file: it may be the best, or part of an average.
        if epoch is None and self.position.skipped_in_a_row and not self.is_finished():
            return
        check_weights(list(self.model.parameters()), self.updater.optimizer, self.world, step)
        is_last = stopping or (epoch is None and self.is_finished())
        with self.throughput.paused():
            name = self.saver.save(lambda: self.state(totals), step, epoch, is_last=is_last)
        if name:
            self.run.history.append(name)
            self.logbook.saved(step, self.saver.store.folder / name, epoch)

    def state(self, totals: dict[str, Tensor]) -> RunState:
        """The current state, with the meters' `totals` over all ranks. Rank 0 only."""
        return RunState(
            model=self.model.state_dict(),
            optimizer=self.updater.optimizer.state_dict(),
            position=self.position,
            meters=self.meters.state(totals),
            run=self.run,
            tokenizer=self.data.tokenizer.text,
            log_offset=self.logbook.offset(),
            environment=describe_environment(self.model, self.loader.max_tokens, self.world),
        )

    def restore(self, state: RunState) -> None:
        """Resume from a state, and free its tensors. Raises UserError if it does not fit."""
        optimizer = self.updater.optimizer
        try:
            with library_call():  # which reads the file
                self.model.load_state_dict(state.model)
                optimizer.load_state_dict(copy.deepcopy(state.optimizer))
            check_shapes(optimizer)
            if state.run.config["loss"] == self.run.config["loss"]:  # else its parts may differ
                self.meters.restore(state.meters)
        except (RuntimeError, ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"The checkpoint does not fit this model: {first_line(error)}"
            ) from error
        state.free_tensors()
        self.updater.position = state.position
        self._saved_config = due.with_saved(self.config, state.run.config["train"])
        self._checked_step = self.position.global_step
        self.saver.resume(self.position.global_step, state.run.history[-1])
