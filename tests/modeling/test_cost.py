"""What a training step costs: operations and memory."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers import processes
from tests.helpers.fake_gpu import base_model, fake_batch, fake_gpu
from translate_ddp.modeling.cost import step_flop, training_bytes
from translate_ddp.modeling.loss import Objective
from translate_ddp.presets import PRESETS
from translate_ddp.settings import LossConfig, ModelConfig


def test_flop_of_a_step_by_hand():
    # 2+2 layers, width d = 64, feed-forward 2 d, one sentence of 3 source and 5 target tokens.
    config, d2 = ModelConfig(d_model=64, d_ff=128), 64 * 64
    encoder, memory, decoder = 2 * 8 * d2, 2 * 2 * d2, 2 * (4 + 2 + 4) * d2
    linear = 6 * (3 * (encoder + memory) + 5 * decoder)
    attention = 12 * 64 * 2 * (3 * 3 + 5 * 5 + 5 * 3)
    projection = 6 * 100 * 64 * 5
    assert step_flop(config, 100, np.array([3]), np.array([5])) == linear + attention + projection


def config_of(preset: str) -> ModelConfig:
    sizes = {k: v for k, v in PRESETS[preset].items() if k in ModelConfig.__annotations__}
    return ModelConfig(**sizes)


@pytest.mark.parametrize(("preset", "gib"), [("base", 3.18), ("big", 7.41)])
def test_estimated_memory_is_about_what_an_h200_took(preset: str, gib: float):
    # benchmarks/results/gpu.md: 25,000 tokens in four micro-batches of about 5,950 positions a side
    estimate = training_bytes(config_of(preset), 32_000, torch.bfloat16, 5950, 5950)
    assert estimate / 2**30 == pytest.approx(gib, rel=0.08)


def count_saved_bytes() -> None:
    with fake_gpu() as device:
        model = base_model(device).train()
        own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
        saved: dict[int, torch.Tensor] = {}  # by storage

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            if (storage := tensor.untyped_storage()._cdata) not in own:
                saved[storage] = tensor
            return tensor

        sizes = []
        for rows in (100, 200):
            saved.clear()
            batch = fake_batch(device, rows, source=30, target=33, real=rows * 33)
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                _loss = Objective(model, LossConfig())(batch)
            sizes.append(sum(tensor.untyped_storage().nbytes() for tensor in saved.values()))
    small, large = (
        # So many that the scores have their maximum.
        training_bytes(config_of("base"), 31_990, torch.bfloat16, rows * 30, rows * 33)
        for rows in (1100, 1200)
    )
    assert large - small == pytest.approx(sizes[1] - sizes[0], rel=0.03)


def test_estimated_activations_are_those_that_autograd_keeps(tmp_path: Path):
    processes.start(count_saved_bytes, tmp_path, 1).succeed()
