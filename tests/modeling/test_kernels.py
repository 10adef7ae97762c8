"""The fast versions give the results of the plain ones; 16 bits change results a little.

Also which dtype a device computes in, and what it says about that.
"""

from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.helpers.models import random_pairs, small_batch, small_model
from translate_ddp.data.batches import collate
from translate_ddp.modeling import kernels
from translate_ddp.modeling.engine import TorchEngine
from translate_ddp.modeling.folded_attention import padding_mask
from translate_ddp.modeling.kernels import (
    Dropout,
    Linear,
    cast_weights,
    choose_dtype,
    dropout_mask,
    precision_warning,
)
from translate_ddp.modeling.loss import Objective
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.device import fix_cuda_kernels
from translate_ddp.runtime.world import World
from translate_ddp.settings import LossConfig
from translate_ddp.training.checkpoint import load
from translate_ddp.training.run import choose_common_dtype
from translate_ddp.translator import Translator

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture
def model() -> Transformer:
    return small_model(d_model=64)


@pytest.fixture
def slow_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are computed as on an AMD with AVX-512."""
    if not kernels._has_onednn():
        pytest.skip("a torch without oneDNN")
    monkeypatch.setattr(kernels, "is_mkl_slow", lambda: True)


# --- fast and plain versions ---


def loss_and_grads(model: Transformer) -> list[torch.Tensor]:
    model.train().zero_grad()
    torch.manual_seed(1)
    sums = Objective(model, LossConfig())(small_batch())
    sums["loss"].backward()
    grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert len(grads) == len(list(model.parameters()))
    return [sums["loss"].detach(), sums["nll"], *grads]


@pytest.mark.parametrize("dtype", DTYPES)
def test_fast_model_gives_loss_and_gradients_of_plain_model(dtype: torch.dtype):
    model = small_model(dtype)
    fast = loss_and_grads(model)
    with kernels.plain():
        plain = loss_and_grads(model)
    assert not kernels.is_plain()
    within = 1e-5 if dtype == torch.float32 else 0.1
    for fast_value, plain_value in zip(fast, plain, strict=True):
        assert (fast_value - plain_value).norm() <= within * plain_value.norm().clamp(min=1)


@pytest.mark.usefixtures("slow_mkl")
@pytest.mark.parametrize("simcut", [0.0, 3.0])
def test_training_by_onednn_has_the_losses_of_plain_training(simcut: float):
    losses = []
    for context in (kernels.plain(), nullcontext()):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with context:
            for _ in range(5):
                optimizer.zero_grad()
                torch.manual_seed(0)
                loss = Objective(model, LossConfig(simcut=simcut))(small_batch())["loss"]
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    assert losses[5:] == pytest.approx(losses[:5], rel=1e-4)
    assert losses[9] < 0.9 * losses[5]


@pytest.mark.usefixtures("slow_mkl")
@pytest.mark.parametrize("frozen", [(), (0,), (1, 2)])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 5), (4, 2, 5), (1, 5), (0, 5), (0, 3, 5)])
@pytest.mark.parametrize("outputs", [3, 11])
def test_products_by_onednn_equal_those_of_torch(
    shape: tuple[int, ...], outputs: int, has_bias: bool, frozen: tuple[int, ...]
):
    torch.manual_seed(0)
    input = torch.randn(shape)
    if outputs == 3:
        input = input.mT.contiguous().mT
    tensors = [input, torch.randn(outputs, 5), torch.randn(outputs)][: 2 + has_bias]
    learned = [t.requires_grad_() for i, t in enumerate(tensors) if i not in frozen]
    grad, results = torch.randn(outputs, *shape[:-1]).movedim(0, -1), []
    for compute in (kernels.multiply, F.linear):
        output = compute(*tensors)
        results.append([output, *torch.autograd.grad(output, learned, grad)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize(
    ("vendor", "has_avx512", "is_slow"),
    [
        ("AuthenticAMD", True, True),
        ("AuthenticAMD", False, False),
        ("GenuineIntel", True, False),
        (None, True, False),  # macOS
    ],
)
def test_onednn_replaces_mkl_on_processors_with_avx512_that_intel_did_not_make(
    vendor: str | None, has_avx512: bool, is_slow: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kernels, "cpu_fact", lambda name: {"vendor_id": vendor}[name])
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": has_avx512})
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(kernels, "_has_onednn", lambda: True)
    assert kernels.is_mkl_slow.__wrapped__() == is_slow
    monkeypatch.setattr(kernels, "_has_onednn", lambda: False)
    assert not kernels.is_mkl_slow.__wrapped__()


@pytest.mark.parametrize(("kind", "queries"), [("padding", 7), ("causal", 7), ("padding", 1)])
def test_attention_written_out_equals_torch(kind: str, queries: int):
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 2, length, 8, requires_grad=True) for length in (queries, 7, 7))
    lengths = torch.tensor([7, 4, 1])
    tokens = (torch.arange(7) < lengths[:, None]).long()
    mask = padding_mask(tokens, torch.float32) if kind == "padding" else None
    results = []
    for context in (nullcontext(), kernels.plain()):  # the second is torch's
        with context:
            out = kernels.attention(q, k, v, mask, is_causal=kind == "causal")
        results.append([out, *torch.autograd.grad(out.square().sum(), (q, k, v))])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_weights_cast_together_equal_weights_cast_one_by_one(monkeypatch: pytest.MonkeyPatch):
    model = small_model(torch.bfloat16, dropout=0.1)
    together = loss_and_grads(model)
    for layer in (*model.encoder_layers, *model.decoder_layers):
        layer._forward_pre_hooks.clear()
    one_by_one = loss_and_grads(model)
    assert all(torch.equal(a, b) for a, b in zip(together, one_by_one, strict=True))


def test_every_forward_pass_casts_the_current_weights():
    linear = Linear(4, 4)
    x = torch.ones(1, 4, dtype=torch.bfloat16)
    cast_weights(linear, (x,))
    before = linear(x)
    with torch.no_grad():
        linear.weight.add_(1.0)
    assert not torch.equal(linear(x), before)


def test_dropout_mask_has_its_rate_and_mean():
    torch.manual_seed(0)
    like = torch.empty(333, 1001)
    for p in (0.1, 0.3, 0.999999):
        mask = dropout_mask(like, p)
        assert mask.shape == like.shape and mask.dtype == like.dtype
        assert {0.0} <= {*mask.unique().tolist()} <= {0.0, mask.max().item()}
        assert mask.max().item() in (0.0, pytest.approx(1 / (1 - p)))
        assert float((mask == 0).float().mean()) == pytest.approx(p, abs=0.003)
        # Neither neighbours nor the four elements of one draw are dropped together.
        dropped = (mask.flatten() == 0).float()
        for distance in (1, 2, 3, 4, 1001):
            together = float((dropped[distance:] * dropped[:-distance]).mean())
            assert together == pytest.approx(p**2, abs=0.003)


def test_dropout_depends_on_seed_and_is_off_in_evaluation():
    dropout = Dropout(0.5)
    x, y = torch.randn(2, 3, 4), torch.randn(2, 3, 4, requires_grad=True)
    sums = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        sums.append(dropout(y, residual=x))
    assert torch.equal(sums[0], sums[1]) and not torch.equal(sums[0], sums[2])
    (grad,) = torch.autograd.grad(sums[2].sum(), y)
    assert torch.equal(x + grad * y, sums[2])  # the backward pass drops the same elements
    torch.manual_seed(2)
    assert torch.equal(dropout(y), grad * y)  # without a residual, too
    with kernels.plain():
        torch.manual_seed(2)
        plain = dropout(y, residual=x)
        torch.manual_seed(2)
        assert torch.equal(plain, x + F.dropout(y, 0.5))
    assert torch.equal(dropout.eval()(y, residual=x), x + y)
    assert torch.equal(dropout(y), y)


# --- precision ---


@pytest.mark.parametrize(("dtype", "within"), [(torch.bfloat16, 0.1), (torch.float16, 0.05)])
@pytest.mark.parametrize("simcut", [0.0, 3.0])
def test_loss_and_gradients_of_16_bits_are_close_to_fp32(
    model: Transformer, dtype: torch.dtype, within: float, simcut: float
):
    batch = collate(random_pairs([1, 9, 120], np.random.default_rng(0)))  # with long padding
    losses, grads = [], []
    for each in (torch.float32, dtype):
        model.zero_grad()
        model.dtype = each
        torch.manual_seed(0)
        loss = Objective(model, LossConfig(simcut=simcut))(batch)["loss"]
        loss.backward()
        losses.append(loss.item())
        grads.append({name: p.grad.clone() for name, p in model.named_parameters()})  # pyright: ignore
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=within / 20)
    for name, plain in grads[0].items():
        error = (grads[1][name] - plain).norm() / plain.norm()
        assert error < within, name
        assert grads[1][name].dtype == torch.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_become_ready_layer_by_layer(model: Transformer, dtype: torch.dtype):
    # DDP sums the gradients of a layer over the ranks while it computes the gradients of the next.
    ready: list[str] = []
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: ready.append(name))
    model.dtype = dtype
    Objective(model, LossConfig())(small_batch())["loss"].backward()
    backwards = ["decoder_norm", "decoder_layers.1", "decoder_layers.0", "encoder_norm"]
    backwards += ["encoder_layers.1", "encoder_layers.0", "embedding"]
    # The keys and values of the source are one product for all layers of the decoder.
    layers = [name for name in ready if "cross_attention.key_value" not in name]
    parts = [part for name in layers for part in backwards if name.startswith(part)]
    assert [part for part, _ in groupby(parts)] == backwards
    assert len(parts) == len(layers) == len(list(model.parameters())) - 2


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_all_activations_but_embeddings_have_16_bits(model: Transformer, dtype: torch.dtype):
    seen: list[torch.dtype] = []
    for module in model.modules():
        module.register_forward_hook(
            lambda *call: seen.append(call[-1].dtype) if torch.is_tensor(call[-1]) else None
        )
    model.dtype = dtype
    Objective(model, LossConfig())(small_batch())
    # The lookup in the embedding is fp32.
    assert seen.count(torch.float32) == 1 and seen.count(dtype) > 20


def test_auto_is_bf16_on_cpus_with_its_instructions(monkeypatch: pytest.MonkeyPatch):
    for name in ("avx512_bf16", "amx_tile", "avx2"):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda name=name: {name: True})
        assert choose_dtype("auto", CPU) == (torch.float32 if name == "avx2" else torch.bfloat16)
        assert choose_dtype("fp32", CPU) == torch.float32
        assert choose_dtype("bf16", CPU) == torch.bfloat16
        assert choose_dtype("fp16", CPU) == torch.float16


@pytest.mark.parametrize("instructions", ["avx512_bf16", "avx2"])
@pytest.mark.parametrize("of_training", ["bf16", "fp16", "auto", "fp32"])
def test_a_model_is_used_in_bf16_only_where_the_device_has_it(
    trained: Path, monkeypatch: pytest.MonkeyPatch, of_training: str, instructions: str
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {instructions: True})
    state = load(next(trained.glob("tmodel_epoch_0001_*")))
    state.run.config["train"]["precision"] = of_training
    is_bf16 = instructions == "avx512_bf16" and of_training != "fp32"
    expected = torch.bfloat16 if is_bf16 else torch.float32
    assert dtype_of(Translator.of(state, CPU)) == expected
    assert dtype_of(Translator.of(state, CPU, "bf16")) == torch.bfloat16


def dtype_of(translator: Translator) -> torch.dtype:
    assert isinstance(translator.engine, TorchEngine)
    return translator.engine.model.dtype


def test_fix_cuda_kernels_overrides_defaults_of_torch():
    torch.backends.cuda.enable_cudnn_sdp(True)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
    fix_cuda_kernels()
    # cuDNN's attention gives NaN gradients, and makes a slow plan for each shape.
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()
    assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    assert not torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([torch.bfloat16] * 2, torch.bfloat16),
        ([torch.bfloat16, torch.float32], torch.float32),
        ([torch.float16], torch.float32),
    ],
)
def test_ranks_compute_in_fp32_if_one_of_them_has_no_bf16(
    monkeypatch: pytest.MonkeyPatch, others: list[torch.dtype], expected: torch.dtype
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.setattr(World, "gather", lambda self, value: [value, *others])
    assert choose_common_dtype("auto", World()) == expected


def test_gpu_without_bf16_computes_in_fp16(monkeypatch: pytest.MonkeyPatch):
    gpu = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    for capability, dtype in (((6, 1), torch.float32), ((7, 5), torch.float16)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, c=capability: c)
        assert choose_dtype("auto", gpu) == dtype
    assert "Tesla T4 only emulates bf16" in str(precision_warning("bf16", gpu))
    assert precision_warning("auto", gpu) is precision_warning("fp32", gpu) is None
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert choose_dtype("auto", gpu) == torch.bfloat16
    assert precision_warning("auto", gpu) is None
    assert precision_warning("auto", CPU) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_of_relu_and_dropout_has_the_factors_of_the_output(dtype: torch.dtype):
    x = torch.linspace(-2, 2, 1000).to(dtype).requires_grad_()
    output = kernels.relu_dropout(x, 0.1)
    output.backward(x.detach())  # the gradient of each element is then its output
    assert x.grad is not None and torch.equal(x.grad, output.detach())
    assert 500 < (output == 0).sum() < 600
