"""The rows of each step of an epoch, and the part of one rank."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import numpy as np

from translate_ddp.corpus_settings import MixConfig
from translate_ddp.data.mix import Mix
from translate_ddp.data.plan import Lengths, Plan, plan_epoch
from translate_ddp.runtime.long_calls import BackgroundThread
from translate_ddp.settings import BatchConfig


class StepSampler:
    """The groups of rows of each step of an epoch, those of all ranks, starting at any step.

    While an epoch is iterated over, a thread computes the plan of the next one.
    """

    def __init__(
        self,
        lengths: Lengths,
        config: BatchConfig,
        *,
        seed: int,
        rank: int,
        world_size: int,
        mix: Mix | None = None,
        lengths_in: Callable[[int], Lengths] | None = None,
    ) -> None:
        """`mix` has the rows of each epoch; without it, every row is drawn once.

        `lengths_in` returns about the lengths of the pairs in an epoch, if they differ.
        """
        self.lengths, self.config, self.seed = lengths, config, seed
        self._lengths_in = lengths_in
        self.mix = mix or Mix.of(MixConfig(), [len(lengths.source)], num_epochs=1)
        self.rank, self.world_size = rank, world_size
        self._next: tuple[int, Future[Plan]] | None = None
        self.epoch, self.plan, self.first_step = 0, self._plan(0), 0

    def set_epoch(self, epoch: int, first_step: int = 0) -> None:
        if self._next is not None and self._next[0] == epoch:
            self.plan = self._next[1].result()
        elif epoch != self.epoch:
            self.plan = self._plan(epoch)
        self.epoch, self.first_step = epoch, first_step

    def lengths_in(self, epoch: int) -> Lengths:
        """The lengths that an epoch is planned with; those of perturbed sources are estimates."""
        return self.lengths if self._lengths_in is None else self._lengths_in(epoch)

    def first_plans(self) -> Iterator[Plan]:
        """The plan of the first epoch of each stage."""
        for epoch in self.mix.first_epochs:
            yield self.plan if epoch == self.epoch else self._plan(epoch)

    def _plan(self, epoch: int) -> Plan:
        ranks = self.world_size if self.config.batch_size else 1
        rows, lengths = None, self.lengths_in(epoch)
        if not self.mix.draws_all_once(epoch):
            rows = self.mix.draw(self.seed, epoch)
            lengths = Lengths(lengths.source[rows], lengths.target[rows])
        plan = plan_epoch(lengths, self.config, seed=self.seed, epoch=epoch, world_size=ranks)
        return plan if rows is None else replace(plan, rows=rows[plan.rows])

    def shard(self, groups: Sequence[np.ndarray]) -> list[np.ndarray]:
        """This rank's part of each group of a step."""
        return shard(groups, self.rank, self.world_size)

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        following = self.epoch + 1
        is_planned = self._next is not None and self._next[0] == following
        if following < self.mix.num_epochs and not is_planned:
            thread = BackgroundThread("plan of the next epoch")
            self._next = following, thread.submit(partial(self._plan, following))
            thread.close(timeout=0)  # it ends after this call
        return map(self.plan.groups, range(self.first_step, len(self.plan)))


def shard(groups: Sequence[np.ndarray], rank: int, size: int) -> list[np.ndarray]:
    """One rank's part of each group of a step, together as large as those of the other ranks.

    The groups of a step are about equally large, so each rank takes `len(groups) / size` of them.
    Few ranks have whole groups; with more ranks than groups, each has one part of one or two, and
    no more passes than without other ranks.
    """
    parts = []
    for index, rows in enumerate(groups):
        first, last = (len(groups) * end / size - index for end in (rank, rank + 1))
        first, last = (round(len(rows) * min(max(end, 0), 1)) for end in (first, last))
        parts.append(rows[first:last])
    return parts
