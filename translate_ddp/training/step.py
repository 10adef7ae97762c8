"""One optimizer step: forward and backward of its micro-batches, clipping, the update.

Everything random is derived from (seed, step, micro-batch, rank), so no generator state has to be
saved.
"""

import gc
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from translate_ddp.data.batches import FOLDED, SHORT, Batch, BatchLoader, Step
from translate_ddp.runtime.device import OutOfMemory, explain_out_of_memory
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.world import World
from translate_ddp.settings import OptimizerConfig
from translate_ddp.training.optimizer import LossScale, learning_rate, skip_if

NUM_FLAGS = 4  # not finite, stop, save, written


@dataclass(frozen=True)
class StepResult:
    """The results of one step, on the device: reading a tensor waits for the end of the step."""

    loss: Tensor  # this rank's sum over its target tokens, in nats, float64
    norm: Tensor  # the norm of the gradient over all ranks, before clipping
    tokens: int  # target tokens of all ranks
    # 1.0 if the loss or gradient of any rank was not finite: nothing was updated; 2.0 if only the
    # gradient was not, because of the loss scale of fp16, which is lower now; otherwise 0.0.
    skipped: Tensor
    extras: Mapping[str, Tensor]  # other named sums of the objective, like `loss`


class OptimizerStep:
    """Computes the steps of one rank. Every rank computes the same steps in the same order.

    `objective` maps a `Batch` to named sums over its target tokens. "loss" is minimised, per token
    of the whole step; the others are reported as `extras`. It computes each pair `forward_copies`
    times. `dtype` is the layers' dtype: in fp16 the loss is scaled.
    """

    def __init__(
        self,
        objective: nn.Module,
        optimizer: torch.optim.Optimizer,
        config: OptimizerConfig,
        world: World,
        seed: int = 0,
        forward_copies: int = 1,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.objective, self.optimizer, self.config = objective, optimizer, config
        self.world, self.seed, self.forward_copies = world, seed, forward_copies
        self.flags = StepFlags(world)
        self.loss_scale = LossScale(dtype, world.device)
        self._parameters = list(objective.parameters())

    def __call__(
        self,
        step: Step,
        global_step: int,
        *,
        progress: float = 0.0,
        stop: bool = False,
        save: bool = False,
        written: bool = False,
    ) -> StepResult:
        """Update the weights from this rank's micro-batches, after `global_step` finished steps.

        `progress` is the finished part of the training, on which the learning rate may depend.
        Every rank reads `stop` and `save` (requests) and `written` (a checkpoint) of all ranks from
        `flags` one step later. A step whose loss or gradient is not finite updates nothing.
        """
        supervisor = self.world.supervisor
        supervisor.enter_phase("computing gradients", global_step + 1)
        sums = self.compute_gradients(step, global_step)
        fault_point("gradients", (p.grad for p in self._parameters if p.grad is not None))
        supervisor.enter_phase("updating weights")
        self.loss_scale.unscale(self._parameters)
        max_norm = self.config.clip_grad_norm or torch.inf
        norm = nn.utils.clip_grad_norm_(self._parameters, max_norm)
        loss = sums.pop("loss")
        not_finite = torch.where(loss.isfinite(), (~norm.isfinite()).float(), torch.inf)
        skipped = self.loss_scale.update(self.flags.share(not_finite, stop, save, written))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(global_step, self.config, progress)
        skip_if((skipped > 0).float(), self.optimizer)
        self.optimizer.step()
        self.optimizer.zero_grad()
        fault_point("updated", self._parameters)
        return StepResult(loss, norm, step.target_tokens, skipped, sums)

    def compute_gradients(self, step: Step, global_step: int = 0) -> dict[str, Tensor]:
        """Compute the gradient of the step's mean loss per token; return this rank's sums, float64.

        Gradients accumulate in `parameter.grad`, times the loss scale. DDP all-reduces them in the
        last micro-batch.
        """
        # The gradient is a sum over ranks, but DDP averages: multiply by the number of ranks.
        scale = self.world.size / step.target_tokens
        totals: dict[str, Tensor] = {}
        for index, batch in enumerate(step.micro_batches):
            is_last = index == len(step.micro_batches) - 1
            reseed(self.seed, global_step, index, self.world.rank)
            with (
                self._explain_out_of_memory(batch),
                nullcontext() if is_last else self.world.no_sync(self.objective),
            ):
                sums: dict[str, Tensor] = self.objective(batch.to(self.world.device))
                fault_point("loss", [sums["loss"]])
                self.loss_scale.apply(sums["loss"] * scale).backward()
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + value.detach().double()
        return totals

    def warm_up(self, loader: BatchLoader) -> None:
        """Compute the gradients of the largest step once, and discard them.

        DDP orders its buckets in its first forward and backward: without a warm-up, the first steps
        after a resume would sum gradients in another order than an uninterrupted run. The
        largest micro-batch runs out of memory at the start, not later.
        """
        if self.world.device.type == "cuda":  # a CPU's memory may be swapped
            self.fit_memory(loader)
        self.compute_gradients(loader.largest_step())
        self.optimizer.zero_grad()
        if self.world.device.type == "cuda":
            gc.freeze()  # a collection of all objects would let the device wait

    def fit_memory(self, loader: BatchLoader) -> None:
        """Lower `max_tokens` until each rank has memory for its largest micro-batch or one pair."""
        size = loader.max_tokens
        while size:
            loader.max_tokens, size = size, 0
            step = loader.largest_step()
            try:
                with self.world.no_sync(self.objective):  # others would wait for this rank
                    # Twice: all micro-batches of a step but the first find gradients in memory.
                    self.compute_gradients(step._replace(micro_batches=step.micro_batches * 2))
            except OutOfMemory:
                # Of at most half the `max_tokens`, since a micro-batch is filled up.
                size = min(half_size(step.micro_batches[0]), loader.max_tokens // 2)
            gc.collect()  # the error's stack held activations until here
            self.optimizer.zero_grad()
            torch.cuda.empty_cache()
            size = min(filter(None, self.world.gather(size)), default=0)

    def _explain_out_of_memory(self, batch: Batch) -> AbstractContextManager[None]:
        (pairs, source), (_, target) = batch.source_BS.shape, batch.target_BT.shape
        advice = "lower --seq_len, or choose a smaller model (--preset)"
        if half := half_size(batch):  # this batch may be smaller than the maximum
            most = half * self.forward_copies
            advice = f"pass --max_tokens {most} (and a --seq_len of at most {half})"

        def where() -> str:
            shape = f"{pairs:,} sentences of {source} source and {target} target tokens"
            return f"{self.world.supervisor.where}, a micro-batch of {shape}"

        return explain_out_of_memory(self.world.device, where, advice)


def half_size(batch: Batch) -> int:
    """Half the padded tokens of the batch's longer side; 0 if it may be one pair, filled up."""
    (pairs, source), (_, target) = batch.source_BS.shape, batch.target_BT.shape
    longer = max(source, target)
    filled = (FOLDED - 1) * min(longer, SHORT)  # as `largest_step` has them
    return pairs * longer // 2 if (pairs - 2) * longer >= filled else 0


def reseed(*key: int) -> None:
    """Seed torch's generators, of the host and of the device, with a function of `key`."""
    torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))


class StepFlags:
    """Flags shared by all ranks in every step: not finite, stop, save, written.

    They are summed on the device, and read by the host one step later. If the host waited for the
    sum of the current step, the device would be idle until the next step is launched. The sum of
    the previous step is complete by then. So all ranks act on a flag at the end of the same step,
    one step after the flag was set.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._sums = [AsyncCopy(world.device), AsyncCopy(world.device)]  # this and the last step
        self._shared = 0

    def share(self, not_finite: Tensor, *others: bool) -> Tensor:
        """Sum the flags over all ranks; return the sum of `not_finite`, on the device."""
        of_host = [torch.full((), float(flag), device=self.world.device) for flag in others]
        total = self.world.sum_(torch.stack([not_finite.float(), *of_host]))
        self._sums[self._shared % 2].start(total)
        self._shared += 1
        return total[0]

    def of_previous_step(self) -> tuple[bool, bool, bool]:
        """Stop, save and written: whether any rank set them in the step before the last `share`."""
        if self._shared < 2:
            return False, False, False
        _, stop, save, written = self._sums[self._shared % 2].read()  # the older one
        return stop > 0, save > 0, written > 0


class AsyncCopy:
    """A copy of values from the device to the host that blocks neither."""

    def __init__(self, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self._values = torch.zeros(NUM_FLAGS, pin_memory=is_cuda)
        self._arrived = torch.cuda.Event() if is_cuda else None

    def start(self, values: Tensor) -> None:
        self._values.copy_(values, non_blocking=True)
        if self._arrived is not None:
            self._arrived.record()

    def read(self) -> list[float]:
        """The values of the last `start`; waits for the copy."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values.tolist()
