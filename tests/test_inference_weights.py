"""Weights cast and laid out for inference give the logits of the model itself."""

import pytest
import torch

from tests.helpers.models import random_ids as ids
from tests.helpers.models import small_model
from translate_ddp.modeling import inference_weights
from translate_ddp.modeling.inference_weights import PackedWeights, ready_to_decode
from translate_ddp.modeling.kernels import Linear
from translate_ddp.modeling.transformer import Transformer

DTYPES = [torch.float32, torch.bfloat16]
ON_X86 = (
    torch.backends.mkldnn.is_available()
    and torch.cpu.get_capabilities().get("architecture") == "x86_64"
)


@pytest.fixture
def model() -> Transformer:
    model = small_model().eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # biases start as zeros
            torch.nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_ready_model_gives_logits_of_the_model(model: Transformer, dtype: torch.dtype, rows: int):
    source_BS, target_BT = ids(rows, 7), ids(rows, 5)
    plain_BTV = model.logits(model(source_BS, target_BT))
    model.dtype = dtype
    state = ready_to_decode(model).start(source_BS)
    stepwise = [state.step(target_BT[:, t]) for t in range(5)]
    within = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(torch.stack(stepwise, dim=1), plain_BTV, rtol=within, atol=within)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ready_to_decode_does_not_change_the_model(model: Transformer, dtype: torch.dtype):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.dtype = dtype
    ready = ready_to_decode(model)
    if ready is not model:
        assert not any(parameter.requires_grad for parameter in ready.parameters())
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())


@pytest.mark.skipif(not ON_X86, reason="not an x86 CPU, or torch without oneDNN")
@pytest.mark.parametrize(
    ("dtype", "has_bf16", "packs"),
    [(torch.float32, False, True), (torch.bfloat16, True, True), (torch.bfloat16, False, False)],
)
def test_all_products_are_packed_in_a_dtype_that_the_cpu_has(
    model: Transformer,
    dtype: torch.dtype,
    has_bf16: bool,
    packs: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    if dtype == torch.bfloat16 and has_bf16 > inference_weights.has_bf16(torch.device("cpu")):
        pytest.skip("a CPU without bf16")
    monkeypatch.setattr(inference_weights, "has_bf16", lambda device: has_bf16)
    linear = sum(isinstance(module, Linear) for module in model.modules())
    model.dtype = dtype
    ready = ready_to_decode(model)
    kinds = [type(module) for module in ready.modules()]
    assert kinds.count(PackedWeights) == (linear + 1 if packs else 0)  # and the logits
    assert kinds.count(Linear) == (0 if packs else linear)
    assert ready_to_decode(ready) is ready


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, TypeError])
def test_model_is_only_cast_without_packed_products(
    model: Transformer, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
):
    def raise_error(*_: object) -> None:
        raise error("changed by a version of torch")

    monkeypatch.setattr(inference_weights.PackedWeights, "__init__", raise_error)
    assert ready_to_decode(model) is model
    model.dtype = torch.bfloat16
    ready = ready_to_decode(model)
    assert {p.dtype for p in ready.parameters()} == {torch.bfloat16}
    assert PackedWeights not in [type(module) for module in ready.modules()]
