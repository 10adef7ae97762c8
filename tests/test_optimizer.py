"""The learning rate as a function of the step, and what decays."""

import pytest
import torch

from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig, OptimizerConfig
from translate_ddp.training.optimizer import build_optimizer, learning_rate


def test_the_rate_grows_linearly_peaks_and_falls_with_the_inverse_square_root():
    config = OptimizerConfig(lr=0.8, warmup_steps=4)
    rates = [learning_rate(step, config) for step in (0, 1, 2, 3, 15, 63)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.4, 0.2])


def test_biases_and_norms_do_not_decay():
    model = Transformer(ModelConfig(), vocabulary=20)
    optimizer = build_optimizer(model, OptimizerConfig())
    decays = {
        id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]
    }
    for name, parameter in model.named_parameters():
        is_matrix = name.endswith("weight") and "norm" not in name
        assert (decays[id(parameter)] > 0) == is_matrix, name


def test_an_update_is_adams():
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
def test_impossible_settings_are_refused_by_name(wrong: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OptimizerConfig(**wrong)  # pyright: ignore[reportArgumentType]
