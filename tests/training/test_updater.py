"""One optimizer step, without a run, and the flags on which all ranks act at its end."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.helpers import processes
from tests.helpers.runs import assert_same_tree
from translate_ddp.data.batches import Batch, Step
from translate_ddp.run_settings import DistributedConfig
from translate_ddp.runtime.world import World, open_world
from translate_ddp.settings import OptimizerConfig
from translate_ddp.training.optimizer import build_optimizer
from translate_ddp.training.state import Position
from translate_ddp.training.step_flags import Copy, StepFlags
from translate_ddp.training.updater import Updater

CONFIG = OptimizerConfig(lr=0.1, warmup_steps=4, clip_grad_norm=0.5)
NO_LABELS = torch.empty(0, dtype=torch.int64)


class SquaredError(nn.Module):
    """The summed squared error of a linear map, and how many of its outputs are positive.

    Weights and data are small integers, so that every sum is exact in any order.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.dropout = nn.Dropout(dropout)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[1.0, 0.0, -1.0], [2.0, 1.0, 0.0]]))
            self.linear.bias.copy_(torch.tensor([1.0, -1.0]))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        output = self.linear(self.dropout(batch.source_BS))
        error = (output - batch.target_BT).square().sum()
        return {"loss": error, "positive": (output > 0).sum()}


def batch(*rows: Sequence[float]) -> Batch:
    """A pass: of each row the first three values are the input, the other two the target."""
    table = torch.tensor(rows)
    return Batch(table[:, :3], table[:, 3:], NO_LABELS, NO_LABELS)


ROWS = [(1.0, 2.0, 3.0, 0.0, 1.0), (0.0, -1.0, 1.0, 2.0, 2.0), (2.0, 0.0, 1.0, -1.0, 0.0)]


def step_of(*passes: Batch, tokens: int = 4) -> Step:
    return Step(list(passes), tokens, np.arange(3))


STEP = step_of(batch(*ROWS))


def make_updater(
    dropout: float = 0.0,
    world: World | None = None,
    seed: int = 0,
    config: OptimizerConfig = CONFIG,
) -> Updater:
    objective = SquaredError(dropout)
    optimizer = build_optimizer(objective, config)
    return Updater(objective, optimizer, config, world or World(), seed)


def weights(updater: Updater) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in updater.objective.parameters()]


def assert_same_weights(one: Updater, other: Updater) -> None:
    assert_same_tree(weights(one), weights(other))


def test_steps_equal_plain_pytorch():
    updater = make_updater()
    plain = copy.deepcopy(updater.objective)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in plain.parameters()]
    rates = [0.1 * 1 / 4, 0.1 * 2 / 4]  # linear warm-up over 4 steps
    for update, lr in enumerate(rates, start=1):
        loss = plain(STEP.passes[0])["loss"]
        gradients = torch.autograd.grad(loss / STEP.target_tokens, list(plain.parameters()))
        norm = torch.cat([g.flatten() for g in gradients]).square().sum().sqrt()
        assert norm > 0.5  # so it is clipped
        with torch.no_grad():
            for p, g, (m, v) in zip(plain.parameters(), gradients, moments, strict=True):
                g = g * 0.5 / norm
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.98).add_(g * g, alpha=0.02)
                p -= lr * (0.01 if p.ndim > 1 else 0.0) * p  # weight decay, of matrices only
                p -= lr * (m / (1 - 0.9**update)) / ((v / (1 - 0.98**update)).sqrt() + 1e-9)

        result = updater.step(STEP)
        torch.testing.assert_close(weights(updater), list(plain.parameters()), rtol=1e-5, atol=1e-6)
        assert result.loss.item() == pytest.approx(loss.item(), rel=1e-6)
        assert result.norm.item() == pytest.approx(norm.item(), rel=1e-6)  # before clipping
        assert result.tokens == STEP.target_tokens and not result.skipped
        assert updater.position == Position(step_in_epoch=update, global_step=update)


def test_clip_grad_norm_of_0_does_not_clip():
    updaters = [make_updater(config=replace(CONFIG, clip_grad_norm=c)) for c in (0.0, 1e9)]
    for _ in range(2):
        norms = [updater.step(STEP).norm.item() for updater in updaters]
        assert norms[0] == norms[1] > 1
    assert_same_weights(*updaters)


def test_passes_accumulate_exactly():
    whole, divided = make_updater(), make_updater()
    one = whole.step(STEP)
    other = divided.step(step_of(batch(*ROWS[:1]), batch(*ROWS[1:])))
    assert_same_weights(whole, divided)
    assert torch.equal(one.loss, other.loss) and torch.equal(one.norm, other.norm)
    positive = make_updater().objective(STEP.passes[0])["positive"]
    assert one.extras == other.extras == {"positive": positive} and positive > 1
    assert other.extras["positive"].dtype == torch.float64


def test_gradients_are_scaled_for_the_mean_over_ranks():
    # DDP divides the summed gradients by the number of ranks: the loss is a sum over all of them.
    one, two = make_updater(), make_updater(world=World(rank=1, size=2))
    for updater in (one, two):
        updater.compute_gradients(STEP)
    for left, right in zip(one.objective.parameters(), two.objective.parameters(), strict=True):
        assert left.grad is not None and right.grad is not None
        assert torch.equal(2 * left.grad, right.grad)


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_step_that_is_not_finite_updates_nothing(value: float):
    skipping, other = make_updater(), make_updater()
    before = weights(skipping)
    result = skipping.step(step_of(batch(*ROWS[1:]), batch((1.0, 2.0, 3.0, value, 1.0))))
    assert result.skipped == 1 and skipping.position.global_step == 1
    assert_same_tree(before, weights(skipping))
    # Nor are the moments: the next step is that of an optimizer which has seen nothing.
    other.position.global_step = 1
    assert not skipping.step(STEP).skipped
    other.step(STEP)
    assert_same_weights(skipping, other)


def test_dropout_depends_on_seed_step_pass_and_rank_only():
    def loss(world: World | None = None, seed: int = 0, step: int = 0) -> float:
        torch.seed()  # has no effect
        updater = make_updater(0.5, world, seed)
        updater.position.global_step = step
        return float(updater.compute_gradients(wide)["loss"])

    wide = step_of(batch(*ROWS * 20))
    other_rank = World(rank=1, size=2)
    losses = [loss(), loss(seed=1), loss(step=1), loss(other_rank)]
    assert len(set(losses)) == 4
    assert losses == [loss(), loss(seed=1), loss(step=1), loss(other_rank)]
    twice = make_updater(0.5).compute_gradients(step_of(wide.passes[0], wide.passes[0]))
    assert float(twice["loss"]) != 2 * losses[0]


def test_warm_up_changes_nothing():
    warm, cold = make_updater(), make_updater()
    warm.warm_up(STEP)
    assert_same_weights(warm, cold)
    assert warm.position == Position()
    for updater in (warm, cold):
        updater.step(STEP)
    assert_same_weights(warm, cold)


def raise_flags_at_different_steps() -> None:
    with open_world(DistributedConfig()) as world:
        flags = StepFlags(world)
        seen = []
        for step in range(6):
            not_finite = torch.tensor(world.rank == 1 and step == 4)
            total = flags.share(not_finite, world.rank == 1 and step == 2, step == 3)
            assert (float(total) > 0) == (step == 4)  # known on the device at once
            seen.append(flags.of_previous_step())
        nothing = (False, False)
        assert seen == [nothing] * 3 + [(True, False), (False, True), nothing]


def test_flag_of_one_rank_is_read_by_all_one_step_later(tmp_path: Path):
    processes.start(raise_flags_at_different_steps, tmp_path, 2).succeed()


def test_save_by_time_is_requested_once(tiny_run: list[str], tmp_path: Path):
    # A save is always due: requested in one step, done at the end of the next, due again.
    flags = ["--save_every", "0", "--save_every_minutes", "1e-9", "--keep_last", "0"]
    processes.train([*tiny_run, *flags, "--max_steps", "9"], tmp_path, 2).succeed()
    names = [path.name for path in (tmp_path / "model").glob("tmodel_step_*")]
    assert sorted(int(name[12:20]) for name in names) == [2, 4, 6, 8, 9]


class LateEvent:
    """A device whose copy has arrived only once the host has waited for it."""

    copies: ClassVar[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        for host, values in self.copies:
            host.data.copy_(values)


def test_values_are_read_after_the_copy_has_arrived():
    copy = Copy(torch.device("cpu"))
    copy._arrived = LateEvent()  # pyright: ignore[reportAttributeAccessIssue]
    LateEvent.copies.append((copy._values, torch.tensor([0.0, 1.0, 0.0])))
    assert copy.read() == [0.0, 1.0, 0.0]
