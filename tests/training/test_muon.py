"""Muon: matrices move along orthogonal updates, everything else as AdamW moves it."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.helpers import processes
from tests.helpers.models import small_model
from tests.helpers.runs import assert_same_tree
from translate_ddp.runtime.world import open_world
from translate_ddp.settings import DistributedConfig, OptimizerConfig
from translate_ddp.training import optimizer as muon
from translate_ddp.training.optimizer import (
    Muon,
    allocate_moments,
    build_optimizer,
    orthogonalize,
    skip_if,
)

RATE = 0.01
CONFIG = OptimizerConfig(optimizer="muon", lr=RATE, weight_decay=0.3)


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


def uneven_model() -> nn.Module:
    """Five, two and one matrices of three shapes; the same weights at each call."""
    torch.manual_seed(0)
    sizes = [(8, 8)] * 5 + [(8, 16)] * 2 + [(16, 8)]
    return nn.ModuleList(nn.Linear(*size) for size in sizes)


def save_weights(folder: str, dtype: torch.dtype) -> None:
    """Take some steps on each rank and save its weights."""
    with open_world(DistributedConfig()) as world:
        model = uneven_model()
        take_steps(model, build_optimizer(model, CONFIG, dtype, world), range(3))
        torch.save(model.state_dict(), Path(folder) / f"{world.rank}.pt")


@pytest.mark.parametrize(("size", "dtype"), [(2, torch.float32), (3, torch.bfloat16)])
def test_all_ranks_have_the_weights_of_one_process(tmp_path: Path, size: int, dtype: torch.dtype):
    alone = uneven_model()
    take_steps(alone, build_optimizer(alone, CONFIG, dtype), range(3))
    processes.start(save_weights, tmp_path, size, None, str(tmp_path), dtype).succeed()
    for rank in range(size):
        assert_same_tree(torch.load(tmp_path / f"{rank}.pt"), alone.state_dict())


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
