"""The learning rate as a function of the step, and AdamW's updates."""

import pytest
import torch

from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig, OptimizerConfig
from translate_ddp.training.optimizer import (
    allocate_moments,
    build_optimizer,
    check_shapes,
    learning_rate,
)


def test_learning_rate_warms_up_linearly_then_decays_with_the_inverse_square_root():
    config = OptimizerConfig(lr=0.8, warmup_steps=4)
    rates = [learning_rate(step, config) for step in (0, 1, 2, 3, 15, 63)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.4, 0.2])


def test_biases_and_norms_have_no_weight_decay():
    model = Transformer(ModelConfig(), vocabulary=20)
    optimizer = build_optimizer(model, OptimizerConfig())
    decays = {
        id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]
    }
    for name, parameter in model.named_parameters():
        is_matrix = name.endswith("weight") and "norm" not in name
        assert (decays[id(parameter)] > 0) == is_matrix, name


def test_first_update_is_that_of_adam():
    # First update of Adam: both moments are their own corrections, so the step is lr * sign.
    model = torch.nn.Linear(1, 1)
    optimizer = build_optimizer(model, OptimizerConfig(lr=0.1))
    before = model.bias.detach().clone()
    model.bias.grad = torch.tensor([3.0])
    optimizer.step()
    assert (before - model.bias).item() == pytest.approx(0.1, rel=1e-5)


@pytest.mark.parametrize(
    "wrong", [{"lr": 0.0}, {"lr": float("nan")}, {"warmup_steps": 0}, {"clip_grad_norm": -1.0}]
)
def test_unusable_settings_are_rejected_by_name(wrong: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OptimizerConfig(**wrong)  # pyright: ignore[reportArgumentType]


def test_moments_are_allocated_without_an_update():
    model = torch.nn.Linear(2, 3)
    optimizer = build_optimizer(model, OptimizerConfig())
    before = model.weight.detach().clone()
    allocate_moments(optimizer)
    assert torch.equal(model.weight, before) and model.weight.grad is None
    assert optimizer.state[model.weight]["exp_avg"].shape == (3, 2)
    assert optimizer.state[model.weight]["step"] == 0
    optimizer.state[model.weight]["exp_avg"].fill_(7.0)
    allocate_moments(optimizer)
    assert (optimizer.state[model.weight]["exp_avg"] == 7.0).all()


def test_moments_of_another_shape_are_rejected():
    model = torch.nn.Linear(2, 3)
    optimizer = build_optimizer(model, OptimizerConfig())
    allocate_moments(optimizer)
    check_shapes(optimizer)
    optimizer.state[model.bias]["exp_avg"] = torch.zeros(4)
    with pytest.raises(ValueError, match=r"exp_avg is \(4,\), not \(3,\)"):
        check_shapes(optimizer)
