"""What an update is (`step`), and when to log, validate, save and stop (`fit`).

Everything random is derived from (seed, step, pass, rank) and everything about the order of data
from (seed, epoch), so two integers say where a run is and nothing else has to be restored.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from translate_ddp.batches import Batch, Collator, StepSampler
from translate_ddp.checkpoint import CheckpointStore
from translate_ddp.dataset import PreparedData
from translate_ddp.distributed import World
from translate_ddp.errors import UserError
from translate_ddp.logbook import Logbook, Progress, Sample
from translate_ddp.model import Transformer
from translate_ddp.optimizer import OptimizerConfig, learning_rate
from translate_ddp.stopping import StopRequest
from translate_ddp.validation import (
    NUM_SAMPLES,
    Scores,
    ValidateOn,
    ValidationSet,
    as_metrics,
    choose_samples,
    validate,
    validation_share,
)


@dataclass(frozen=True)
class TrainConfig:
    num_epochs: int = 7
    """Passes over the training pairs, counted from the start of the run."""
    max_steps: int = 0
    """Stop after so many optimizer steps of the run; 0 is no limit."""
    seed: int = 0
    """What everything random is derived from."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of matrix products; weights stay fp32. auto is bf16 on GPUs that have it, otherwise fp32."""
    compile: bool = False
    """Compile the model with torch.compile: a minute at the start, faster steps on GPUs."""
    log_every: int = 20
    """Steps between two records of the training metrics."""
    validate_every: int = 0
    """Also validate every so many steps; 0 validates at each epoch's end only."""
    validate_on: ValidateOn = "rank0"
    """Who decodes the validation set: rank 0 while the others wait, or all ranks, a share each."""
    save_every: int = 0
    """Also save every so many steps; 0 saves by time and at each epoch's end."""
    save_every_minutes: float = 15.0
    """Also save every so many minutes; 0 does not."""

    def __post_init__(self) -> None:
        for name in ("num_epochs", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but is {getattr(self, name)}.")
        for name in ("max_steps", "seed", "validate_every", "save_every", "save_every_minutes"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}.")

    def use_bf16(self, device: torch.device) -> bool:
        if self.precision == "auto":
            return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return self.precision == "bf16"


@dataclass
class Position:
    """Where a run is."""

    epoch: int = 0  # epochs finished, validation included
    step: int = 0  # steps done in the epoch under way
    global_step: int = 0
    best_bleu: float = -1.0
    best_epoch: int = 0  # 0: none yet


@dataclass
class Window:
    """The training loss since the last record, exact whenever it is saved and restored.

    Each step's sum keeps a place of its own, and ranks are summed place by place: the result does
    not depend on how many steps were summed at once.
    """

    losses: Tensor
    tokens: int = 0

    @classmethod
    def of(cls, steps: int, device: torch.device) -> "Window":
        return cls(torch.zeros(steps, dtype=torch.float64, device=device))

    def add(self, global_step: int, loss: Tensor, tokens: int) -> None:
        self.losses[global_step % len(self.losses)] = loss
        self.tokens += tokens

    def clear(self) -> None:
        self.losses.zero_()
        self.tokens = 0


class Pace:
    """Target tokens a second since the last record; validation and saving do not count."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.tokens = 0
        self.started = time.perf_counter()

    @contextmanager
    def paused(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.started += time.perf_counter() - begun

    def tokens_per_second(self) -> float:
        return self.tokens / (time.perf_counter() - self.started)


@dataclass
class Run:
    """What a checkpoint holds beside weights and position, and a resumed run takes over."""

    run_id: str
    about: dict[str, Any]  # the whole configuration, as plain values
    identity: dict[str, Any]  # what cannot change while the run lives
    history: list[str] = field(default_factory=list)  # names of the checkpoints it wrote


@dataclass
class Trainer:
    """One run on one rank; every rank makes the same calls in the same order."""

    config: TrainConfig
    optimizer_config: OptimizerConfig
    model: Transformer
    objective: nn.Module  # model and loss, replicated over the world
    optimizer: torch.optim.Optimizer
    sampler: StepSampler
    loader: DataLoader[list[Batch]]
    data: PreparedData
    run: Run
    store: CheckpointStore
    logbook: Logbook
    stop: StopRequest
    world: World

    def __post_init__(self) -> None:
        self.position = Position()
        self.window = Window.of(self.config.log_every, self.world.device)
        self.pace = Pace()
        self.saved_step = -1
        self.saved_at = time.monotonic()
        self.bf16 = self.config.use_bf16(self.world.device)
        assert isinstance(self.loader.collate_fn, Collator)
        self.collator = self.loader.collate_fn

    # --- an update ---

    def step(self, passes: Sequence[Batch], target_tokens: int) -> Tensor:
        """One update from this rank's passes of a step of `target_tokens` over all ranks.

        Returns the norm of the gradient before clipping, the same on every rank.
        """
        global_step = self.position.global_step
        loss = self.accumulate_gradients(passes, target_tokens)
        self.window.add(global_step, loss, target_tokens)
        self.pace.tokens += target_tokens
        longest = self.optimizer_config.clip_grad_norm or torch.inf
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), longest)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(global_step, self.optimizer_config)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def accumulate_gradients(self, passes: Sequence[Batch], target_tokens: int) -> Tensor:
        """Leave the gradient of the step's mean token loss; return this rank's summed loss."""
        # Each rank divides by the tokens of all ranks; DDP then averages what should be summed.
        scale = self.world.size / target_tokens
        total = torch.zeros((), dtype=torch.float64, device=self.world.device)
        for index, batch in enumerate(passes):
            is_last = index == len(passes) - 1
            reseed(self.config.seed, self.position.global_step, index, self.world.rank)
            with nullcontext() if is_last else self.world.accumulating(self.objective):
                with self._autocast():
                    loss = self.objective(batch.to(self.world.device))
                (loss * scale).backward()
            total += loss.detach()
        return total

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.bf16)

    def warm_up(self) -> None:
        """Run the largest step once and throw its gradients away.

        DDP orders its buckets in its first pass, so that without this the first steps after a
        resume would sum gradients in another order than the same steps of an unbroken run. It also
        proves that the memory suffices.
        """
        step = self.sampler.largest_step()
        passes = self.collator(self.data.train.__getitems__(self.sampler.rows(step)))
        try:
            self.accumulate_gradients(passes, self.sampler.target_tokens(step))
        except torch.OutOfMemoryError as error:
            shape = tuple(max(passes, key=lambda batch: batch.target_BT.numel()).target_BT.shape)
            raise UserError(
                f"The largest pass, {shape[0]} sentences of {shape[1]} tokens, does not fit "
                f"{self.world.device}: lower --max_tokens, now {self.collator.max_tokens}.",
                alone=not self.world.is_main,
            ) from error
        self.optimizer.zero_grad()

    # --- a run ---

    def fit(self) -> bool:
        """Train from `position` to the end; False if a stop was asked for before."""
        if self.is_finished():
            return True
        self.warm_up()
        if self.position.step and self._is_validation_due():
            self._validate()  # it comes after the checkpoint that was resumed
        self.pace.restart()
        while not self.is_finished():
            with self._epoch_bar() as bar:
                stopped = self._train_epoch(bar)
            if stopped:
                return False
            if self.position.step == len(self.sampler.plan):
                self._finish_epoch()
        return True

    def _train_epoch(self, bar: Progress) -> bool:
        """Train until the epoch, the run or a request ends it; True for the last."""
        position = self.position
        for passes in self.loader:
            norm = self.step(passes, self.sampler.target_tokens(position.step))
            position.step += 1
            position.global_step += 1
            bar.advance()
            if position.global_step % self.config.log_every == 0:
                self._log(norm, bar)
            stop, save = self.world.any(bool(self.stop), self._is_save_due())
            # Validation can be long: what was trained is safe before it.
            if stop or save or self._is_validation_due():
                self._save()
            if stop:
                return True
            if self._is_validation_due():
                self._validate()
            if self._has_max_steps():
                break
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
        minutes = (time.monotonic() - self.saved_at) / 60
        # Clocks differ: only rank 0's counts.
        late = self.world.is_main and 0 < self.config.save_every_minutes <= minutes
        return late or self._is_due(self.config.save_every) or self._has_max_steps()

    def _log(self, norm: Tensor, bar: Progress) -> None:
        # Every rank must enter: the sum waits for all of them.
        losses = self.world.sum(self.window.losses)
        self._refuse_non_finite(losses, norm)
        scalars = {
            "train/loss": float(losses.sum()) / self.window.tokens,
            "train/lr": self.optimizer.param_groups[0]["lr"],
            "train/grad_norm": float(norm),
            "train/tokens_per_second": self.pace.tokens_per_second(),
        }
        self.logbook.log(self.position.global_step, scalars)
        rate = scalars["train/tokens_per_second"]
        bar.advance(0, loss=scalars["train/loss"], **{"tokens/s": rate})
        self.window.clear()
        self.pace.restart()

    def _refuse_non_finite(self, *numbers: Tensor) -> None:
        """Stop all ranks, which share these numbers, before a ruined state replaces good ones."""
        if not all(bool(number.isfinite().all()) for number in numbers):
            raise UserError(
                f"Loss, gradient or weights are not finite at step {self.position.global_step}: "
                "the last checkpoints are intact. Start anew with a lower --lr or more "
                "--warmup_steps."
            )

    def _validate(self) -> Scores:
        step, data, world = self.position.global_step, self.data, self.world
        texts = ValidationSet(data.validation, data.validation_sources, data.validation_references)
        total = len(validation_share(texts, world, self.config.validate_on))
        with (
            self.pace.paused(),
            self.logbook.progress("validation", total=total, unit="sentence") as bar,
            self._autocast(),
        ):
            scores = validate(
                self.model,
                texts,
                data.tokenizer,
                world,
                self.config.validate_on,
                self.collator.max_tokens,
                show=choose_samples(NUM_SAMPLES, len(texts.pairs), step),
                on_done=bar.advance,
            )
        self.logbook.samples(step, [Sample(*sample) for sample in scores["samples"]])
        self.logbook.log(step, as_metrics(scores))
        self.logbook.say(f"BLEU {scores['signature']}")
        return scores

    def _save(self, epoch: int | None = None) -> None:
        if epoch is None and self.saved_step == self.position.global_step:
            return
        losses = self.world.sum(self.window.losses)
        self._refuse_non_finite(losses, *self.model.parameters())
        with self.pace.paused():
            name = self.world.on_main("saving a checkpoint", lambda: self._write(losses, epoch))
        self.run.history.append(name)
        self.saved_step, self.saved_at = self.position.global_step, time.monotonic()

    # --- what a checkpoint holds ---

    def _write(self, losses: Tensor, epoch: int | None) -> str:
        position = self.position
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": asdict(position),
            "window": {"losses": losses, "tokens": self.window.tokens},
            "run": asdict(self.run),
            "tokenizer": self.data.tokenizer.text,
            "metrics_bytes": self.logbook.position(),
            "circumstance": self.circumstance(),
        }
        path = self.store.save(state, step=position.global_step, epoch=epoch)
        names = [*self.run.history, path.name]
        self.store.prune(names, best_epoch=position.best_epoch or None)
        return path.name

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `_write` wrote. The run itself is taken over by whoever made this."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.position = Position(**state["position"])
        self.saved_step = self.position.global_step
        if len(state["window"]["losses"]) == len(self.window.losses):
            self.window.tokens = state["window"]["tokens"]
            if self.world.is_main:  # the others add zeros to what was summed over all
                self.window.losses.copy_(state["window"]["losses"])

    def circumstance(self) -> dict[str, Any]:
        """What the last bits of a result depend on beside the configuration."""
        return {
            "world_size": self.world.size,
            "threads": torch.get_num_threads(),
            "max_tokens": self.collator.max_tokens,
            "device": self.world.device.type,
            "torch": str(torch.__version__),  # a class of its own, which no safe load admits
        }


def reseed(*key: int) -> None:
    """Let every random draw from here on be a function of `key`, here and on the device."""
    torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))
