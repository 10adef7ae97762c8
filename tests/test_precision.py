"""What computing in bf16 changes, and what it must not."""

import numpy as np
import pytest
import torch

from translate_ddp.batches import Batch, collate
from translate_ddp.loss import Objective
from translate_ddp.model import ModelConfig, Transformer
from translate_ddp.precision import choose_dtype, in_dtype, lowered

CPU = torch.device("cpu")


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(d_model=64, num_heads=4, d_ff=128), vocabulary=40)


@pytest.fixture
def batch() -> Batch:
    random = np.random.default_rng(0)
    return collate([tuple(random.integers(4, 40, (2, length))) for length in (5, 9, 12)])


def test_bf16_layers_give_nearly_the_loss_and_the_gradients_of_fp32(
    model: Transformer, batch: Batch
):
    losses, grads = [], []
    for dtype in (torch.float32, torch.bfloat16):
        model.zero_grad()
        loss = Objective(model, 0.1, dtype)(batch)
        loss.backward()
        losses.append(loss.item())
        grads.append({name: p.grad.clone() for name, p in model.named_parameters()})  # pyright: ignore
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=5e-3)
    for name, plain in grads[0].items():
        # The bias of keys moves all scores of a query alike: its gradient is rounding alone.
        where = slice(64, None) if name.endswith("key_value.bias") else slice(None)
        error = (grads[1][name] - plain)[where].norm() / plain[where].norm()
        assert error < 0.05, name
        assert grads[1][name].dtype == torch.float32


def test_every_weight_of_the_layers_is_lowered_and_the_embedding_is_not(model: Transformer):
    weights = lowered(model, torch.bfloat16)
    assert {w.dtype for w in weights.values()} == {torch.bfloat16}
    assert dict(model.named_parameters()).keys() - weights.keys() == {"embedding.weight"}
    assert lowered(model, torch.float32) == {}


def test_activations_stay_in_bf16(model: Transformer, batch: Batch):
    seen: list[torch.dtype] = []
    for module in model.modules():
        module.register_forward_hook(
            lambda *call: seen.append(call[-1].dtype) if torch.is_tensor(call[-1]) else None
        )
    Objective(model, 0.1, torch.bfloat16)(batch)
    # All but the two look-ups in the embedding.
    assert seen.count(torch.float32) == 2 and seen.count(torch.bfloat16) > 20


def test_a_copy_in_another_precision_leaves_the_weights_alone(model: Transformer):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    copy = in_dtype(model, torch.bfloat16)
    assert {p.dtype for p in copy.parameters()} == {torch.bfloat16}
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert in_dtype(model, torch.float32) is model


def test_auto_is_bf16_exactly_where_the_processor_has_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for has, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda has=has: has)
        assert choose_dtype("auto", CPU) == dtype
        assert choose_dtype("fp32", CPU) == torch.float32
        assert choose_dtype("bf16", CPU) == torch.bfloat16
