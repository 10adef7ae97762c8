"""The learning rate as a function of the step, weight decay, and settings that are rejected."""

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


@pytest.mark.parametrize(
    "wrong", [{"lr": 0.0}, {"lr": float("nan")}, {"warmup_steps": 0}, {"clip_grad_norm": -1.0}]
)
def test_unusable_settings_are_rejected_by_name(wrong: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OptimizerConfig(**wrong)  # pyright: ignore[reportArgumentType]


def test_moments_of_another_shape_are_rejected():
    model = torch.nn.Linear(2, 3)
    optimizer = build_optimizer(model, OptimizerConfig())
    allocate_moments(optimizer)
    check_shapes(optimizer)
    optimizer.state[model.bias]["exp_avg"] = torch.zeros(4)
    with pytest.raises(ValueError, match=r"exp_avg is \(4,\), not \(3,\)"):
        check_shapes(optimizer)
