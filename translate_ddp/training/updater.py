"""One optimizer step: forward and backward of its passes, clipping, the update.

Everything random is derived from (seed, step, pass, rank), so no generator state has to be saved.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from translate_ddp.data.batches import Batch, Step
from translate_ddp.runtime.device import explain_out_of_memory
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.world import World
from translate_ddp.settings import OptimizerConfig
from translate_ddp.training.optimizer import allocate_moments, learning_rate, skip_if
from translate_ddp.training.state import Position
from translate_ddp.training.step_flags import StepFlags


@dataclass(frozen=True)
class StepResult:
    """The results of one step, on the device: reading a tensor waits for the end of the step."""

    loss: Tensor  # this rank's sum over its target tokens, in nats, float64
    norm: Tensor  # of the gradient over all ranks, before clipping
    tokens: int  # target tokens of all ranks
    skipped: Tensor  # 1.0 if the loss or gradient of any rank was not finite: nothing was updated
    extras: Mapping[str, Tensor]  # other named sums of the objective, like `loss`


class Updater:
    """Computes the steps of one rank. Every rank computes the same steps in the same order.

    `objective` maps a `Batch` to named sums over its target tokens. "loss" is minimised, per token
    of the whole step; the others are reported as `extras`. It computes each pair `copies` times.
    """

    def __init__(
        self,
        objective: nn.Module,
        optimizer: torch.optim.Optimizer,
        config: OptimizerConfig,
        world: World,
        seed: int = 0,
        copies: int = 1,
    ) -> None:
        self.objective = objective
        self.optimizer = optimizer
        self.config = config
        self.world = world
        self.seed = seed
        self.copies = copies
        self.position = Position()
        self.flags = StepFlags(world)
        self._parameters = list(objective.parameters())

    def step(
        self, step: Step, *, progress: float = 0.0, stop: bool = False, save: bool = False
    ) -> StepResult:
        """Update the weights from this rank's passes, and advance the position.

        `progress` is the finished part of the training, on which the learning rate may depend.
        `stop` and `save` are requests of this rank. Every rank reads the requests of all ranks
        from `flags` one step later. A step whose loss or gradient is not finite updates nothing.
        """
        position, supervisor = self.position, self.world.supervisor
        supervisor.enter_phase("computing gradients", position.global_step + 1)
        sums = self.compute_gradients(step)
        fault_point("gradients", (p.grad for p in self._parameters if p.grad is not None))
        supervisor.enter_phase("updating weights")
        max_norm = self.config.clip_grad_norm or torch.inf
        norm = nn.utils.clip_grad_norm_(self._parameters, max_norm)
        loss = sums.pop("loss")
        not_finite = self.flags.share(~(norm + loss).isfinite(), stop, save)
        skipped = (not_finite > 0).float()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(position.global_step, self.config, progress)
        skip_if(skipped, self.optimizer)
        self.optimizer.step()
        self.optimizer.zero_grad()
        fault_point("updated", self._parameters)
        position.step_in_epoch += 1
        position.global_step += 1
        return StepResult(loss, norm, step.target_tokens, skipped, sums)

    def compute_gradients(self, step: Step) -> dict[str, Tensor]:
        """Compute the gradient of the step's mean loss per token; return this rank's sums, float64.

        Gradients accumulate in `parameter.grad`. DDP all-reduces them in the last pass.
        """
        # The gradient is a sum over ranks, but DDP averages: multiply by the number of ranks.
        scale = self.world.size / step.target_tokens
        totals: dict[str, Tensor] = {}
        for index, batch in enumerate(step.passes):
            is_last = index == len(step.passes) - 1
            reseed(self.seed, self.position.global_step, index, self.world.rank)
            with (
                self._explain_out_of_memory(batch),
                nullcontext() if is_last else self.world.no_sync(self.objective),
            ):
                sums: dict[str, Tensor] = self.objective(batch.to(self.world.device))
                fault_point("loss", [sums["loss"]])
                (sums["loss"] * scale).backward()
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + value.detach().double()
        return totals

    def warm_up(self, largest_step: Step) -> None:
        """Compute the gradients of the largest step once, and discard them.

        DDP orders its buckets in its first pass. Without a warm-up, the first steps after a resume
        would sum gradients in another order than an uninterrupted run. It also raises out of memory
        at the start instead of later, since it allocates the optimizer's state and largest pass.
        """
        allocate_moments(self.optimizer)
        self.compute_gradients(largest_step)
        self.optimizer.zero_grad()

    def _explain_out_of_memory(self, batch: Batch) -> AbstractContextManager[None]:
        (rows, source), (_, target) = batch.source_BS.shape, batch.target_BT.shape
        advice = "lower --seq_len, or choose a smaller model (--preset)"
        if rows > 1:
            half = rows * max(source, target) // 2  # of this pass, which may be below the maximum
            advice = f"pass --max_tokens {half * self.copies} (and a --seq_len of at most {half})"

        def where() -> str:
            shape = f"{rows:,} sentences of {source} source and {target} target tokens"
            return f"{self.world.supervisor.where}, a pass of {shape}"

        return explain_out_of_memory(self.world.device, where, advice)


def reseed(*key: int) -> None:
    """Seed torch's generators, of the host and of the device, with a function of `key`."""
    torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))
