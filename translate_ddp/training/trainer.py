"""What an update is (`step`), and when to log, validate, save and stop (`fit`).

Everything random is derived from (seed, step, pass, rank) and everything about the order of data
from (seed, epoch), so two integers say where a run is and nothing else has to be restored.
"""

import hashlib
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from translate_ddp.data.batches import Batch, BatchLoader, StepSampler
from translate_ddp.data.dataset import PreparedData
from translate_ddp.errors import NotSaved, Stopped, UserError, first_line
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.out_of_memory import explain_out_of_memory
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.settings import OptimizerConfig, TrainConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.logbook import Logbook, Progress, Sample
from translate_ddp.training.meters import Pace, Window
from translate_ddp.training.optimizer import (
    allocate_moments,
    learning_rate,
    refuse_other_shapes,
    skip_if,
)
from translate_ddp.training.step_flags import StepFlags
from translate_ddp.training.validation import (
    NUM_SAMPLES,
    Scores,
    ValidationSet,
    as_metrics,
    choose_samples,
    validate,
    validation_share,
)

SKIPPED_AT_MOST = 10  # steps in a row
FAILED_SAVES_AT_MOST = 3  # in a row
SENTENCES_SHOWN = 3  # of a step that was skipped


@dataclass
class Position:
    """Where a run is."""

    epoch: int = 0  # epochs finished, validation included
    step: int = 0  # steps done in the epoch under way
    global_step: int = 0
    best_bleu: float = -1.0
    best_epoch: int = 0  # 0: none yet
    skipped_steps: int = 0  # whose loss or gradient was not finite
    skipped_in_a_row: int = 0


@dataclass
class Run:
    """What a checkpoint holds beside weights and position, and a resumed run takes over."""

    run_id: str
    about: dict[str, Any]  # the whole configuration, as plain values
    identity: dict[str, Any]  # what cannot change while the run lives
    history: list[str] = field(default_factory=list)  # names of the checkpoints it wrote


class Saved(TypedDict):
    name: str
    problem: str  # "" if there was none


@dataclass
class Trainer:
    """One run on one rank; every rank makes the same calls in the same order."""

    config: TrainConfig
    optimizer_config: OptimizerConfig
    model: Transformer
    objective: nn.Module  # model and loss, replicated over the world
    optimizer: torch.optim.Optimizer
    sampler: StepSampler
    loader: BatchLoader
    data: PreparedData
    run: Run
    folder: RunFolder
    store: CheckpointStore
    logbook: Logbook
    world: World

    def __post_init__(self) -> None:
        self.watchdog = self.world.watchdog
        self.position = Position()
        self.window = Window.of(self.config.log_every, self.world.device)
        self.pace = Pace()
        self.saved_step = -1
        self.saved_as = ""
        self.failed_saves = 0  # in a row
        self.checked_step = 0  # up to here, skipped steps are counted
        self.saved_at = time.monotonic()
        self.flags = StepFlags(self.world)

    # --- an update ---

    def step(self, passes: Sequence[Batch], target_tokens: int) -> Tensor:
        """One update from this rank's passes of a step of `target_tokens` over all ranks.

        Returns the norm of the gradient before clipping, the same on every rank.
        """
        global_step = self.position.global_step
        self.watchdog.enter_phase("computing gradients", global_step + 1)
        loss = self.accumulate_gradients(passes, target_tokens)
        fault_point("gradients", (p.grad for p in self.model.parameters() if p.grad is not None))
        self.watchdog.enter_phase("updating weights")
        longest = self.optimizer_config.clip_grad_norm or torch.inf
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), longest)
        # What is not finite on one rank is skipped on all. Only the device needs to know now.
        not_finite = ~(norm + loss).isfinite()
        stop = self.watchdog.stop_reason is not None
        total = self.flags.share(not_finite, stop, self._is_save_late())
        skipped = (total > 0).float()
        self.window.add(global_step, loss, target_tokens, skipped)
        self.pace.tokens += target_tokens
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(global_step, self.optimizer_config)
        skip_if(skipped, self.optimizer)
        self.optimizer.step()
        self.optimizer.zero_grad()
        fault_point("updated", self.model.parameters())
        return norm

    def accumulate_gradients(self, passes: Sequence[Batch], target_tokens: int) -> Tensor:
        """Leave the gradient of the step's mean token loss; return this rank's summed loss."""
        # Each rank divides by the tokens of all ranks; DDP then averages what should be summed.
        scale = self.world.size / target_tokens
        total = torch.zeros((), dtype=torch.float64, device=self.world.device)
        for index, batch in enumerate(passes):
            is_last = index == len(passes) - 1
            reseed(self.config.seed, self.position.global_step, index, self.world.rank)
            with (
                self._explaining_out_of_memory(batch),
                nullcontext() if is_last else self.world.no_sync(self.objective),
            ):
                loss = self.objective(batch.to(self.world.device))
                fault_point("loss", [loss])
                (loss * scale).backward()
            total += loss.detach()
        return total

    def _explaining_out_of_memory(self, batch: Batch) -> AbstractContextManager[None]:
        (rows, source), (_, target) = batch.source_BS.shape, batch.target_BT.shape
        shape = f"{rows:,} sentences of {source} source and {target} target tokens"
        where = lambda: f"{self.watchdog.where}, a pass of {shape}"  # noqa: E731
        half = rows * max(source, target) // 2  # of what it held, which may be less than allowed
        advice = f"pass --max_tokens {half}"
        if half < self.sampler.config.seq_len:
            advice = "lower --seq_len, or choose a smaller model (--preset)"
        return explain_out_of_memory(self.world.device, where, advice)

    def warm_up(self) -> None:
        """Run the largest step once and throw its gradients away.

        DDP orders its buckets in its first pass, so that without this the first steps after a
        resume would sum gradients in another order than the same steps of an unbroken run. It also
        shows at the start whether the memory suffices: the optimizer's share is taken before.
        """
        allocate_moments(self.optimizer)
        step = self.sampler.largest_step()
        passes = self.loader.passes(self.sampler.rows(step))
        self.accumulate_gradients(passes, self.sampler.target_tokens(step))
        self.optimizer.zero_grad()

    # --- a run ---

    def fit(self) -> bool:
        """Train from `position` to the end; False if a stop was asked for before."""
        if self.is_finished() and not self.position.step:
            return True
        # Compilation may take longer than the timeout.
        self.watchdog.enter_phase("warming up", has_timeout=not self.config.compile)
        self.warm_up()
        self.watchdog.begin_training(self.config.max_minutes)
        try:
            return self._fit()
        except Stopped:  # in the midst of a validation
            self._save(stopping=True)
            return False

    def _fit(self) -> bool:
        self.sampler.set_epoch(self.position.epoch)
        if self.position.step and self._is_validation_due():
            self._validate()  # it comes after the checkpoint that was resumed
        self.pace.restart()
        while True:
            if self.position.step == len(self.sampler.plan):
                self._finish_epoch()
            if self.is_finished():
                return True
            with self._epoch_bar() as bar:
                stopped = self._train_epoch(bar)
            if stopped:
                return False

    def _train_epoch(self, bar: Progress) -> bool:
        """Train until the epoch, the run or a request ends it; True for the last."""
        position = self.position
        self.watchdog.enter_phase("reading a batch", position.global_step + 1)
        for passes in self.loader:
            fault_point("batch")
            norm = self.step(passes, self.sampler.target_tokens(position.step))
            position.step += 1
            position.global_step += 1
            bar.advance()
            if position.global_step % self.config.log_every == 0:
                self._log(norm, bar)
            self.watchdog.enter_phase("waiting for the step before")
            stop, save = self.flags.of_previous_step()
            save &= self.saved_step < position.global_step - 1  # else it was saved since it asked
            # Validation can be long: what was trained is safe before it.
            if stop or save or self._is_save_due() or self._is_validation_due():
                self._save(stopping=stop)
            if stop and not self.position.skipped_in_a_row:
                return True
            if self._is_validation_due():
                self._validate()
            if self._has_max_steps():
                break
            self.watchdog.enter_phase("reading a batch", position.global_step + 1)
        return False

    def _finish_epoch(self) -> None:
        self._save()
        scores = self._validate()
        position = self.position
        position.epoch, position.step = position.epoch + 1, 0
        if scores["bleu"] > position.best_bleu:
            position.best_bleu, position.best_epoch = scores["bleu"], position.epoch
        self._save(epoch=position.epoch)

    def _epoch_bar(self) -> AbstractContextManager[Progress]:
        epoch, done = self.position.epoch, self.position.step
        self.sampler.set_epoch(epoch, first_step=done)
        label = f"epoch {epoch + 1}/{self.config.num_epochs}"
        return self.logbook.progress(label, total=len(self.sampler.plan), done=done, unit="step")

    def is_finished(self) -> bool:
        return self.position.epoch >= self.config.num_epochs or self._has_max_steps()

    def _has_max_steps(self) -> bool:
        return 0 < self.config.max_steps <= self.position.global_step

    def _is_validation_due(self) -> bool:
        """In mid-epoch; its end validates anyway."""
        due = self._is_due(self.config.validate_every) or self._has_max_steps()
        return due and self.position.step < len(self.sampler.plan)

    def _is_due(self, every: int) -> bool:
        return every > 0 and self.position.global_step % every == 0

    def _is_save_due(self) -> bool:
        return self._is_due(self.config.save_every) or self._has_max_steps()

    def _is_save_late(self) -> bool:
        """Whether to ask all ranks for a save by time: rank 0 alone does, since clocks differ."""
        minutes = (time.monotonic() - self.saved_at) / 60
        return self.world.is_main and 0 < self.config.save_every_minutes <= minutes

    def _log(self, norm: Tensor, bar: Progress) -> None:
        # Every rank must enter: the sum waits for all of them.
        losses = self.world.sum(self.window.losses)
        self._count_skipped()
        scalars = {
            "train/loss": self.window.mean_loss(losses),
            "train/lr": self.optimizer.param_groups[0]["lr"],
            "train/grad_norm": float(norm),
            "train/skipped_steps": self.position.skipped_steps,
            "train/tokens_per_second": self.pace.tokens_per_second(),
        }
        self.logbook.log(self.position.global_step, scalars)
        rate = scalars["train/tokens_per_second"]
        bar.advance(0, loss=scalars["train/loss"], **{"tokens/s": rate})
        self.window.clear()
        self.pace.restart()

    def _count_skipped(self) -> None:
        """Tell of the steps skipped since the last look. Raises UserError if they do not end."""
        position = self.position
        first, end = self.checked_step, position.global_step
        for step, skipped in enumerate(self.window.take_skipped(first, end), first):
            position.skipped_in_a_row = position.skipped_in_a_row + 1 if skipped else 0
            if skipped:
                position.skipped_steps += 1
                in_epoch = step - position.global_step + position.step
                self._tell_skipped(step + 1, self.sampler.plan[in_epoch].tolist())
            if position.skipped_in_a_row == SKIPPED_AT_MOST:
                raise UserError(
                    f"Loss or gradient was not finite in {SKIPPED_AT_MOST} steps in a row, the "
                    f"last of them {step + 1}: the last checkpoints are intact. "
                    "Start anew with a lower --lr or more --warmup_steps."
                )
        self.checked_step = position.global_step

    def _tell_skipped(self, step: int, rows: list[int]) -> None:
        texts = self.data.tokenizer.decode(
            [self.data.train.source[row].tolist() for row in rows[:SENTENCES_SHOWN]]
        )
        more = len(rows) - len(texts)
        self.logbook.say(
            f"Skipped step {step}: its loss or gradient was not finite. Its sentences: "
            + " | ".join(texts)
            + (f" | and {more} more" if more else "")
        )

    def _refuse_unsound(self) -> None:
        """Stop all ranks before a ruined state replaces good ones."""
        step = self.position.global_step
        moments = [t for s in self.optimizer.state.values() for t in s.values()]
        sums = self.world.gather(checksum([*self.model.parameters(), *moments]))
        if odd := odd_ones(sums):
            raise UserError(
                f"Weights or optimizer of rank {', '.join(map(str, odd))} differ from the others' "
                f"at step {step}, which a fault in memory can cause: nothing of it was saved. "
                "The same command goes on from the last checkpoint."
            )
        # The same on every rank, as is known by now.
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise UserError(
                f"The weights are not finite at step {step}: the last checkpoints are intact. "
                "Start anew with a lower --lr or more --warmup_steps."
            )

    def _validate(self) -> Scores:
        step, data, world = self.position.global_step, self.data, self.world
        self.watchdog.enter_phase("validating", step)
        texts = ValidationSet(data.validation, data.validation_sources, data.validation_references)
        total = len(validation_share(texts, world, self.config.validate_on))

        def on_done(count: int) -> None:
            bar.advance(count)
            self.watchdog.heartbeat()
            fault_point("validating")
            if self.watchdog.stop_reason is not None:
                raise Stopped  # it is done again when the run goes on

        with (
            self.pace.paused(),
            self.logbook.progress("validation", total=total, unit="sentence") as bar,
        ):
            scores = validate(
                self.model,
                texts,
                data.tokenizer,
                world,
                self.config.validate_on,
                self.loader.max_tokens,
                show=choose_samples(NUM_SAMPLES, len(texts.pairs), step),
                on_done=on_done,
            )
        self.logbook.samples(step, [Sample(*sample) for sample in scores["samples"]])
        self.logbook.log(step, as_metrics(scores))
        self.logbook.say(f"BLEU {scores['signature']}")
        return scores

    def _save(self, epoch: int | None = None, stopping: bool = False) -> None:
        """Save, unless nothing was done since, or the last steps may tell of a ruined state.

        Raises UserError if the disk refuses too often, or once when the run is about to end.
        """
        if epoch is None and self.saved_step == self.position.global_step:
            return
        self.watchdog.enter_phase("checking what to save", self.position.global_step)
        losses = self.world.sum(self.window.losses)
        self._count_skipped()
        if self.position.skipped_in_a_row and not self.is_finished():
            return
        self._refuse_unsound()
        with self.pace.paused():
            saved = self.world.on_main("saving a checkpoint", lambda: self._write(losses, epoch))
        self.saved_at = time.monotonic()
        if not saved["problem"]:
            self.failed_saves, self.saved_step = 0, self.position.global_step
            self.saved_as = saved["name"]
            self.run.history.append(self.saved_as)
            return
        self.failed_saves += 1
        if stopping or self.is_finished() or self.failed_saves == FAILED_SAVES_AT_MOST:
            raise UserError(saved["problem"])
        self.logbook.say(
            f"{saved['problem']} Training goes on; the run ends if this fails "
            f"{FAILED_SAVES_AT_MOST} times in a row."
        )

    # --- what a checkpoint holds ---

    def _write(self, losses: Tensor, epoch: int | None) -> Saved:
        position = self.position
        if not self.folder.is_mine():
            raise UserError(f"Another run has taken {self.folder.path} over: nothing was saved.")
        try:
            state = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "position": asdict(position),
                "window": {"losses": losses, "tokens": self.window.tokens},
                "run": asdict(self.run),
                "tokenizer": self.data.tokenizer.text,
                "metrics": asdict(self.logbook.position()),
                "environment": self.environment(),
            }
            path = self.store.save(state, step=position.global_step, epoch=epoch)
        except NotSaved as error:
            return Saved(name="", problem=str(error))
        names = [*self.run.history, path.name]
        self.store.prune(names, best_epoch=position.best_epoch or None)
        return Saved(name=path.name, problem="")

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `_write` wrote. The run itself is taken over by whoever made this.

        Raises UserError if it fits neither this model nor any.
        """
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            refuse_other_shapes(self.optimizer)
            self.position = Position(**state["position"])
        except (RuntimeError, ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"The checkpoint does not fit this model: {first_line(error)}"
            ) from error
        self.saved_step = self.checked_step = self.position.global_step
        if len(state["window"]["losses"]) == len(self.window.losses):
            self.window.tokens.copy_(state["window"]["tokens"])
            if self.world.is_main:  # the others add zeros to what was summed over all
                self.window.losses.copy_(state["window"]["losses"])

    def environment(self) -> dict[str, Any]:
        """What the last bits of a result depend on beside the configuration."""
        return {
            "world_size": self.world.size,
            "threads": torch.get_num_threads(),
            "max_tokens": self.loader.max_tokens,
            "device": self.world.device.type,
            "precision": str(self.model.dtype).removeprefix("torch."),
            "torch": str(torch.__version__),  # a class of its own, which no safe load admits
        }


def reseed(*key: int) -> None:
    """Let every random draw from here on be a function of `key`, here and on the device."""
    torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))


def checksum(tensors: Iterable[Tensor]) -> str:
    """A text that differs if one bit of one tensor does."""
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    sums = [t.detach().reshape(-1).view(words[t.element_size()]).sum() for t in tensors]
    return hashlib.sha256(str([int(total) for total in sums]).encode()).hexdigest()


def odd_ones(sums: Sequence[str]) -> list[int]:
    """The places of those that differ from the most frequent one, the first among equals."""
    usual = max(sums, key=sums.count)
    return [place for place, value in enumerate(sums) if value != usual]
