"""Muon: matrices move along orthogonal updates, everything else as AdamW moves it."""

import copy

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.models import small_model
from translate_ddp.runtime.world import World
from translate_ddp.settings import OptimizerConfig
from translate_ddp.training import optimizer as muon
from translate_ddp.training.optimizer import (
    Muon,
    allocate_moments,
    build_optimizer,
    orthogonalize,
    skip_if,
)

RATE = 0.01
CONFIG = OptimizerConfig(optimizer="muon", lr=RATE)


def gradients(model: nn.Module, seed: int) -> None:
    """Give each parameter a random gradient, a function of its shape, its place and the seed."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def polar_factor(matrix: Tensor) -> Tensor:
    """The orthogonal matrix U V^T of the decomposition U S V^T."""
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    return left @ right


def take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, seeds: range) -> None:
    for seed in seeds:
        gradients(model, seed)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("shape", [(24, 24), (48, 24), (24, 64), (1, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_orthogonalized_matrices_have_singular_values_near_one(
    shape: tuple[int, int], dtype: torch.dtype
):
    generator = torch.Generator().manual_seed(0)
    wanted = [polar_factor(torch.randn(shape, generator=generator)) for _ in range(3)]
    values = torch.linspace(0.02, 1.0, min(shape))
    matrices = []
    for scale, orthogonal in zip([1e-3, 1.0, 1e3], wanted, strict=True):
        left, _, right = torch.linalg.svd(orthogonal, full_matrices=False)
        matrices.append(scale * (left * values) @ right)
    found = orthogonalize(torch.stack(matrices), dtype)
    assert found.dtype == dtype
    for orthogonal, matrix in zip(wanted, found.float(), strict=True):
        values = torch.linalg.svdvals(matrix)
        assert 0.6 < values.min() and values.max() < 1.3
        # In the same directions: U^T X V^T is close to the identity.
        torch.testing.assert_close(matrix, orthogonal, rtol=0, atol=0.35)


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-25, 1e-22, 1e-18, 1e18])
def test_update_of_any_scale_is_finite(scale: float):
    matrices = torch.randn(2, 64, 192, generator=torch.Generator().manual_seed(0)) * scale
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert torch.linalg.svdvals(orthogonalize(matrices, dtype).float()).max() < 1.3


def test_matrix_of_zeros_stays_zero():
    assert not orthogonalize(torch.zeros(2, 4, 6), torch.float32).any()


def test_steps_equal_the_published_algorithm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        muon, "orthogonalize", lambda x, dtype: torch.stack([*map(polar_factor, x)])
    )
    model = nn.Sequential(nn.Linear(6, 4, bias=False), nn.Linear(4, 8, bias=False))
    optimizer = build_optimizer(model, CONFIG)
    expected = [p.detach().clone() for p in model.parameters()]
    momenta = [torch.zeros_like(p) for p in expected]
    for seed in range(3):
        gradients(model, seed)
        for weight, momentum, parameter in zip(expected, momenta, model.parameters(), strict=True):
            assert parameter.grad is not None
            momentum.mul_(0.95).add_(0.05 * parameter.grad)
            update = polar_factor(0.95 * momentum + 0.05 * parameter.grad)  # Nesterov
            weight.mul_(1 - RATE * 0.3)
            # An orthogonal matrix of m x n has a root mean square of 1 / sqrt(max(m, n)).
            weight.sub_(update, alpha=RATE * 0.6 * max(weight.shape) ** 0.5)
        optimizer.step()
    torch.testing.assert_close([*model.parameters()], expected, rtol=1e-4, atol=1e-6)


def test_all_but_the_matrices_of_layers_are_updated_by_adamw():
    model = small_model()
    other = copy.deepcopy(model)
    take_steps(model, build_optimizer(model, CONFIG), range(3))
    take_steps(other, build_optimizer(other, OptimizerConfig(lr=RATE)), range(3))
    same = {
        name: torch.equal(parameter, other.get_parameter(name))
        for name, parameter in model.named_parameters()
    }
    layers = {n for n, p in model.named_parameters() if p.ndim == 2 and n != "embedding.weight"}
    assert {name for name, equal in same.items() if not equal} == layers


@pytest.mark.parametrize("size", [2, 9])
def test_ranks_orthogonalize_shares_and_add_them(monkeypatch: pytest.MonkeyPatch, size: int):
    sent: dict[int, list[Tensor]] = {}
    for ranks in (1, size):
        for rank in range(ranks):
            shares = sent[ranks + rank] = []
            monkeypatch.setattr(
                World, "sum_", lambda _, x, shares=shares: shares.append(x.clone()) or x
            )
            model = small_model()
            optimizer = build_optimizer(model, CONFIG, world=World(rank=rank, size=ranks))
            take_steps(model, optimizer, range(1))
    for full, *shares in zip(sent[1], *(sent[size + rank] for rank in range(size)), strict=True):
        holders = torch.stack([share.flatten(1).any(dim=1) for share in shares]).sum(dim=0)
        assert holders.tolist() == [1] * len(full)
        torch.testing.assert_close(torch.stack(shares).sum(dim=0), full)

    totals = iter(sent[1])  # what a rank receives
    monkeypatch.setattr(World, "sum_", lambda _, x: next(totals))
    of_rank = small_model()
    alone = copy.deepcopy(of_rank)
    take_steps(of_rank, build_optimizer(of_rank, CONFIG, world=World(rank=1, size=size)), range(1))
    monkeypatch.undo()
    take_steps(alone, build_optimizer(alone, CONFIG), range(1))
    torch.testing.assert_close(of_rank.state_dict(), alone.state_dict())


def test_skipped_step_changes_nothing():
    model = small_model()
    optimizer = build_optimizer(model, CONFIG)
    take_steps(model, optimizer, range(1))
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    gradients(model, 1)
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad[..., 0] = torch.nan
    skip_if(torch.ones(()), optimizer)
    optimizer.step()
    after = (model.state_dict(), optimizer.state_dict()["state"])
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_resumed_optimizer_takes_the_same_steps():
    model = small_model()
    optimizer = build_optimizer(model, CONFIG)
    allocate_moments(optimizer)
    take_steps(model, optimizer, range(2))
    other = copy.deepcopy(model)
    resumed = build_optimizer(other, CONFIG)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert isinstance(resumed, Muon)
    take_steps(model, optimizer, range(2, 4))
    take_steps(other, resumed, range(2, 4))
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
