"""Measurements between two log records: mean losses per token, skipped steps, tokens/s."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translate_ddp.data.dataset import Lengths, PreparedData
from translate_ddp.data.plan import Plan
from translate_ddp.errors import UserError
from translate_ddp.modeling.cost import step_flop
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.device import peak_flop
from translate_ddp.runtime.world import World
from translate_ddp.settings import ModelConfig
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.state import Position

MAX_SKIPPED_STEPS = 10  # in a row
UNTRACED_STEPS = 10  # steps after a start, before --profile traces steps
SENTENCES_SHOWN = 3  # in the message about a skipped step


class StepMeters:
    """Named sums over target tokens of the steps since the last log record, the loss among them.

    Each step has a slot of its own and ranks are summed slot by slot, so a mean does not depend on
    when the sums were saved and restored. Adding a step does not wait for the device.
    """

    def __init__(self, num_steps: int, world: World) -> None:
        self.world = world
        self.sums: dict[str, Tensor] = {}  # name -> this rank's sum of each step
        self.tokens = torch.zeros(num_steps, dtype=torch.int64)  # on all ranks; 0 if skipped
        self._skipped = self._zeros()  # `StepResult.skipped`, until `take_skipped` returns it

    def add(
        self, global_step: int, sums: Mapping[str, Tensor], tokens: int, skipped: Tensor
    ) -> None:
        """Record a step of `tokens` target tokens over all ranks; a skipped step adds nothing."""
        slot = global_step % len(self.tokens)
        for name, value in sums.items():
            self.sums.setdefault(name, self._zeros())[slot] = torch.where(skipped > 0, 0.0, value)
        self.tokens[slot] = tokens
        self._skipped[slot] = skipped

    def take_skipped(self, first: int, end: int) -> list[bool]:
        """Whether each of the steps from `first` to before `end` was skipped. Waits for the device.

        Overflows of the loss scale, which are usual in fp16, are not among them. Call it before
        `means`: it removes the tokens of all steps that updated nothing.
        """
        skipped = self._skipped.tolist()
        self._skipped.zero_()
        self.tokens[torch.tensor(skipped) > 0] = 0
        return [skipped[step % len(skipped)] == 1 for step in range(first, end)]

    def totals(self) -> dict[str, Tensor]:
        """Each step's sums over all ranks. A collective: every rank must call it."""
        if not self.sums:
            return {}
        summed = self.world.sum_(torch.stack(list(self.sums.values())))
        return dict(zip(self.sums, summed, strict=True))

    def means(self, totals: Mapping[str, Tensor]) -> dict[str, float]:
        """The mean per target token of each of the `totals`; NaN if every step was skipped."""
        tokens = int(self.tokens.sum())
        return {
            name: float(sums.sum()) / tokens if tokens else float("nan")
            for name, sums in totals.items()
        }

    def clear(self) -> None:
        self.tokens.zero_()
        self.sums.clear()  # not only zeros: a resumed run may have another loss

    def state(self, totals: Mapping[str, Tensor]) -> dict[str, Any]:
        """What `restore` needs: the `totals` over all ranks, and the tokens."""
        return {"totals": dict(totals), "tokens": self.tokens}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Load what `state` returned; ignored if it is for another number of steps."""
        if len(saved["tokens"]) != len(self.tokens):
            return
        self.tokens.copy_(saved["tokens"])
        for name, totals in saved["totals"].items():
            self.sums[name] = self._zeros()
            if self.world.is_main:  # the other ranks add zeros to what was summed over all
                self.sums[name].copy_(totals)

    def _zeros(self) -> Tensor:
        return torch.zeros(len(self.tokens), dtype=torch.float64, device=self.world.device)


class Throughput:
    """Target tokens per second since the last log record, without validation and saving.

    `most` is what this rank's GPU would reach at its peak (`most_tokens`); 0.0: unknown.
    """

    def __init__(self, world: World, most: float = 0.0) -> None:
        found = world.gather(most)
        self.world, self.most = world, sum(found) if all(found) else 0.0  # all ranks' sum
        self.restart()

    def restart(self) -> None:
        self._tokens = 0
        self._started = time.perf_counter()
        if self.world.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.world.device)

    def add(self, tokens: int) -> None:
        self._tokens += tokens

    @contextmanager
    def paused(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._started += time.perf_counter() - began

    def values(self) -> dict[str, float]:
        """The pace by name; on a GPU also its peak of memory, and the share of its peak FLOP/s."""
        rate = self._tokens / (time.perf_counter() - self._started)
        values = {"tokens_per_second": rate}
        if self.world.device.type == "cuda":
            values["memory_gib"] = torch.cuda.max_memory_allocated(self.world.device) / 2**30
            if self.world.size > 1:
                values["tokens_per_second_per_gpu"] = rate / self.world.size
        return values | ({"mfu": rate / self.most} if self.most else {})


def most_tokens(model: Transformer, config: ModelConfig, lengths: Lengths, copies: int) -> float:
    """Target tokens per second at the peak of the GPU's data sheet; 0.0: unknown, or fp32.

    Each pair of these lengths is computed `copies` times.
    """
    peak = peak_flop(model.embedding.weight.device) if model.dtype != torch.float32 else 0.0
    vocabulary = model.embedding.num_embeddings
    flop = copies * step_flop(config, vocabulary, lengths.source, lengths.target)
    return peak * float(lengths.target.sum()) / flop


@contextmanager
def profiled(
    steps: int, folder: Path, step: Callable[[], int], report: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Yields what to call after each step: it traces `steps` steps, or those to the run's end."""
    if not steps:
        yield lambda: None
        return

    def write(profiler: torch.profiler.profile) -> None:
        path = folder / f"profile-{step()}.json.gz"
        with suppress(OSError):  # the next save reports a full disk
            profiler.export_chrome_trace(str(path))
            report(f"Wrote a trace of steps to {path}: open it in https://ui.perfetto.dev.")

    plan = torch.profiler.schedule(wait=UNTRACED_STEPS - 1, warmup=1, active=steps, repeat=1)
    with torch.profiler.profile(schedule=plan, on_trace_ready=write) as profiler:
        yield profiler.step


def count_skipped(
    position: Position,
    skipped: Sequence[bool],
    plan: Plan,
    data: PreparedData,
    logbook: Logbook,
) -> None:
    """Count the skipped ones of the last steps up to `position`, and report each.

    `plan` is the plan of the current epoch. Raises UserError after
    `MAX_SKIPPED_STEPS` in a row.
    """
    for place, is_skipped in enumerate(skipped):
        before = len(skipped) - place  # this step is that many before the position
        position.skipped_in_a_row = position.skipped_in_a_row + 1 if is_skipped else 0
        if not is_skipped:
            continue
        position.skipped_steps += 1
        step = position.global_step - before + 1
        indices = plan[position.step_in_epoch - before].tolist()
        logbook.message(
            f"Skipped step {step}: its loss or gradient was not finite. Its sentences: "
            + _sentences(indices, data)
        )
        if position.skipped_in_a_row == MAX_SKIPPED_STEPS:
            raise UserError(
                f"Loss or gradient was not finite in {MAX_SKIPPED_STEPS} steps in a row, the last "
                f"of them {step}. Resume with a lower --lr or more --warmup_steps."
            )


def _sentences(indices: Sequence[int], data: PreparedData) -> str:
    ids = [data.train.source[index].tolist() for index in indices[:SENTENCES_SHOWN]]
    texts = data.facts.tokenizer.decode(ids)
    more = len(indices) - len(texts)
    return " | ".join(texts) + (f" | and {more} more" if more else "")
