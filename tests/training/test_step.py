"""One optimizer step, without a run, and the flags on which all ranks act at its end."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.helpers import processes
from tests.helpers.models import small_batch, small_model
from tests.helpers.runs import assert_same_tree
from translate_ddp.data.batches import Batch, BatchLoader, Step
from translate_ddp.data.dataset import ParallelDataset, Ragged, TrainingPairs
from translate_ddp.data.plan import StepSampler
from translate_ddp.modeling.loss import Objective
from translate_ddp.runtime.device import OutOfMemory
from translate_ddp.runtime.world import World, open_world
from translate_ddp.settings import BatchConfig, DistributedConfig, LossConfig, OptimizerConfig
from translate_ddp.training import optimizer as optimizer_module
from translate_ddp.training.optimizer import LossScale, build_optimizer, learning_rate
from translate_ddp.training.step import AsyncCopy, OptimizerStep, StepFlags

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
    """A micro-batch: of each row the first three values are the input, the other two the target."""
    table = torch.tensor(rows)
    return Batch(table[:, :3], table[:, 3:], NO_LABELS, NO_LABELS)


ROWS = [(1.0, 2.0, 3.0, 0.0, 1.0), (0.0, -1.0, 1.0, 2.0, 2.0), (2.0, 0.0, 1.0, -1.0, 0.0)]


def step_of(*micro_batches: Batch, tokens: int = 4) -> Step:
    return Step(list(micro_batches), tokens, np.arange(3))


STEP = step_of(batch(*ROWS))


def make_step(
    dropout: float = 0.0,
    world: World | None = None,
    seed: int = 0,
    config: OptimizerConfig = CONFIG,
) -> OptimizerStep:
    objective = SquaredError(dropout)
    optimizer = build_optimizer(objective, config)
    return OptimizerStep(objective, optimizer, config, world or World(), seed)


def weights(optimizer_step: OptimizerStep) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in optimizer_step.objective.parameters()]


def assert_same_weights(one: OptimizerStep, other: OptimizerStep) -> None:
    assert_same_tree(weights(one), weights(other))


def test_steps_equal_plain_pytorch():
    optimizer_step = make_step()
    plain = copy.deepcopy(optimizer_step.objective)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in plain.parameters()]
    rates = [0.1 * 1 / 4, 0.1 * 2 / 4]  # linear warm-up over 4 steps
    for update, lr in enumerate(rates, start=1):
        loss = plain(STEP.micro_batches[0])["loss"]
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

        result = optimizer_step(STEP, update - 1)
        torch.testing.assert_close(
            weights(optimizer_step), list(plain.parameters()), rtol=1e-5, atol=1e-6
        )
        assert result.loss.item() == pytest.approx(loss.item(), rel=1e-6)
        assert result.norm.item() == pytest.approx(norm.item(), rel=1e-6)  # before clipping
        assert result.tokens == STEP.target_tokens and not result.skipped


def test_clip_grad_norm_of_0_does_not_clip():
    steps = [make_step(config=replace(CONFIG, clip_grad_norm=c)) for c in (0.0, 1e9)]
    for number in range(2):
        norms = [step(STEP, number).norm.item() for step in steps]
        assert norms[0] == norms[1] > 1
    assert_same_weights(*steps)


def test_micro_batches_accumulate_exactly():
    whole, divided = make_step(), make_step()
    one = whole(STEP, 0)
    other = divided(step_of(batch(*ROWS[:1]), batch(*ROWS[1:])), 0)
    assert_same_weights(whole, divided)
    assert torch.equal(one.loss, other.loss) and torch.equal(one.norm, other.norm)
    positive = make_step().objective(STEP.micro_batches[0])["positive"]
    assert one.extras == other.extras == {"positive": positive} and positive > 1
    assert other.extras["positive"].dtype == torch.float64


def test_gradients_are_scaled_for_the_mean_over_ranks():
    # DDP divides the summed gradients by the number of ranks: the loss is a sum over all of them.
    one, two = make_step(), make_step(world=World(rank=1, size=2))
    for optimizer_step in (one, two):
        optimizer_step.compute_gradients(STEP)
    for left, right in zip(one.objective.parameters(), two.objective.parameters(), strict=True):
        assert left.grad is not None and right.grad is not None
        assert torch.equal(2 * left.grad, right.grad)


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_step_that_is_not_finite_updates_nothing(value: float):
    skipping, other = make_step(), make_step()
    before = weights(skipping)
    result = skipping(step_of(batch(*ROWS[1:]), batch((1.0, 2.0, 3.0, value, 1.0))), 0)
    assert result.skipped == 1
    assert_same_tree(before, weights(skipping))
    # Nor are the moments: the next step equals the step of an optimizer which has seen nothing.
    assert not skipping(STEP, 1).skipped
    other(STEP, 1)
    assert_same_weights(skipping, other)


@pytest.mark.slow
def test_steps_in_fp16_equal_those_of_torch_grad_scaler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(optimizer_module, "FIRST_SCALE", 2.0**26)
    monkeypatch.setattr(optimizer_module, "GROWTH_STEPS", 3)
    model, plain = (Objective(small_model(torch.float16), LossConfig()) for _ in range(2))
    ours = OptimizerStep(
        model, build_optimizer(model, CONFIG), CONFIG, World(), dtype=torch.float16
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26, growth_interval=3)
    optimizer = build_optimizer(plain, CONFIG)
    tokens = len(small_batch().labels_R)
    for number in range(20):
        result = ours(step_of(small_batch(), tokens=tokens), number)
        before = scaler.get_scale()
        scaler.scale(plain(small_batch())["loss"] / tokens).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(plain.parameters(), CONFIG.clip_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(number, CONFIG)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert result.skipped == (2 if scaler.get_scale() < before else 0)
        assert ours.loss_scale.scalars()["train/loss_scale"] == scaler.get_scale()
        torch.testing.assert_close(result.norm, norm, equal_nan=True)
    overflows = ours.loss_scale.scalars()["train/overflows"]
    assert 2 < overflows < 15  # at first, and after the scale has grown
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_only_overflows_that_a_lower_scale_can_prevent_are_not_reported():
    scale = LossScale(torch.float16, torch.device("cpu"))
    updated, gradient, loss = (torch.tensor(value) for value in (0.0, 1.0, torch.inf))
    assert scale.update(updated) == 0 and scale.scale == 2**16
    assert scale.update(loss) == 1 and scale.scale == 2**16
    for exponent in range(16, 0, -1):
        assert scale.scale == 2**exponent and scale.update(gradient) == 2
    assert scale.scale == 1
    assert scale.update(gradient) == 1 and scale.scale == 1
    bf16 = LossScale(torch.bfloat16, torch.device("cpu"))
    assert bf16.update(gradient) == 1 and bf16.scale == 1


def test_dropout_depends_on_seed_step_micro_batch_and_rank_only():
    def loss(world: World | None = None, seed: int = 0, step: int = 0) -> float:
        torch.seed()  # has no effect
        return float(make_step(0.5, world, seed).compute_gradients(wide, step)["loss"])

    wide = step_of(batch(*ROWS * 20))
    other_rank = World(rank=1, size=2)
    losses = [loss(), loss(seed=1), loss(step=1), loss(other_rank)]
    assert len(set(losses)) == 4
    assert losses == [loss(), loss(seed=1), loss(step=1), loss(other_rank)]
    twice = make_step(0.5).compute_gradients(step_of(wide.micro_batches[0], wide.micro_batches[0]))
    assert float(twice["loss"]) != 2 * losses[0]


def test_warm_up_changes_nothing():
    warm, cold = make_step(), make_step()
    warm.warm_up(SimpleNamespace(largest_step=lambda: STEP))  # pyright: ignore
    assert_same_weights(warm, cold)
    for optimizer_step in (warm, cold):
        optimizer_step(STEP, 0)
    assert_same_weights(warm, cold)


@pytest.mark.parametrize("full_tokens", [0, 100])  # without, or with empty sentences
@pytest.mark.parametrize("longest", [5, 40, 300, 3000])
@pytest.mark.parametrize("memory", [0, 700, 2000, 9000])
def test_micro_batches_are_halved_until_they_fit(full_tokens: int, longest: int, memory: int):
    side = Ragged.of([[7] * length for length in [1, 2, longest - 1] * 30])  # and a marker
    config = BatchConfig(batch_tokens=9000, max_tokens=0)
    mine = StepSampler(TrainingPairs(ParallelDataset(side, side), seed=0), config)
    loader = BatchLoader(mine, 8000, torch.device("cpu"), full_tokens)

    def compute(step: Step) -> None:
        if positions_of(step) > memory:
            raise OutOfMemory("injected")

    optimizer_step, given = make_step(), positions_of(loader.largest_step())
    optimizer_step.compute_gradients = compute  # pyright: ignore[reportAttributeAccessIssue]
    optimizer_step.fit_memory(loader)
    one_pair = longest + 7 * min(longest, 32)  # filled up
    found = positions_of(loader.largest_step())
    assert found <= max(memory, one_pair + longest)  # the latter: then `warm_up` raises
    assert 2 * found + one_pair >= min(memory, given)


def positions_of(step: Step) -> int:
    return step.micro_batches[0].source_BS.numel()


def raise_flags_at_different_steps() -> None:
    with open_world(DistributedConfig()) as world:
        flags = StepFlags(world)
        seen = []
        for step in range(6):
            not_finite = torch.tensor(world.rank == 1 and step == 4)
            is_main = world.rank == 0
            total = flags.share(not_finite, not is_main and step == 2, step == 3, is_main)
            assert (float(total) > 0) == (step == 4)  # known on the device at once
            seen.append(flags.of_previous_step())
        nothing = (False, False, True)
        assert seen[0] == (False, False, False)
        assert seen[1:] == [nothing] * 2 + [(True, False, True), (False, True, True), nothing]


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
    copy = AsyncCopy(torch.device("cpu"))
    copy._arrived = LateEvent()  # pyright: ignore[reportAttributeAccessIssue]
    LateEvent.copies.append((copy._values, torch.tensor([0.0, 1.0, 0.0, 0.0])))
    assert copy.read() == [0.0, 1.0, 0.0, 0.0]
