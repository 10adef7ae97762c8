"""The fast versions, and weights laid out for inference, give the results of the plain ones."""

import pytest
import torch
import torch.nn.functional as F

from tests.helpers.models import decode, random_ids, small_batch, small_model
from translate_ddp.modeling import fused_losses, inference_weights, kernels
from translate_ddp.modeling.inference_weights import PackedWeights, PaddedWeights, ready_to_decode
from translate_ddp.modeling.kernels import Dropout, Linear, cast_weights, dropout_mask
from translate_ddp.modeling.loss import Objective
from translate_ddp.modeling.transformer import Transformer, padding_mask
from translate_ddp.settings import LossConfig

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.bfloat16]


def loss_and_grads(model: Transformer) -> list[torch.Tensor]:
    model.train().zero_grad()
    torch.manual_seed(1)
    sums = Objective(model, LossConfig())(small_batch())
    sums["loss"].backward()
    grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert len(grads) == len(list(model.parameters()))
    return [sums["loss"].detach(), sums["nll"], *grads]


class FastVersionUsed(Exception):
    pass


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (kernels, "attention_written_out"),
        (kernels, "cast_all"),
        (kernels, "dropout_mask"),
        (fused_losses.FusedTokenLoss, "forward"),
        (inference_weights, "PackedWeights"),
    ],
)
def test_plain_uses_no_fast_version(owner: object, name: str, monkeypatch: pytest.MonkeyPatch):
    if name == "PackedWeights" and not inference_weights.can_pack(CPU, torch.float32):
        pytest.skip("a processor or a torch without packed products")

    def raise_error(*_: object, **__: object) -> None:
        raise FastVersionUsed

    monkeypatch.setattr(owner, name, raise_error)

    def train_and_decode() -> None:
        for dtype in DTYPES:
            model = small_model(dtype, dropout=0.1)
            loss_and_grads(model)
            decode(ready_to_decode(model.eval()).start, [[5, 6]], max_tokens=100)

    with kernels.plain():
        train_and_decode()
    with pytest.raises(FastVersionUsed):
        train_and_decode()


def test_columns_are_added_for_a_gpu_only_and_not_by_plain():
    on_cpu_VD = torch.randn(11, 5)
    assert kernels.pad_vocabulary(on_cpu_VD) is on_cpu_VD
    weights_VD, mask_B11M = torch.empty(11, 5, device="meta"), torch.zeros(2, 1, 1, 5)
    assert len(kernels.pad_vocabulary(weights_VD)) == 64
    assert kernels.align_mask(mask_B11M).stride()[0] == 8
    with kernels.plain():
        assert kernels.pad_vocabulary(weights_VD) is weights_VD
        assert kernels.align_mask(mask_B11M) is mask_B11M


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


@pytest.mark.parametrize(("kind", "queries"), [("padding", 7), ("causal", 7), ("padding", 1)])
def test_attention_written_out_equals_torch(kind: str, queries: int):
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 2, length, 8, requires_grad=True) for length in (queries, 7, 7))
    lengths = torch.tensor([7, 4, 1])
    tokens = (torch.arange(7) < lengths[:, None]).long()
    mask = padding_mask(tokens, torch.float32) if kind == "padding" else None
    results = []
    for attend in (kernels.attention_written_out, kernels.attention):  # fp32: the second is torch's
        out = attend(q, k, v, mask, is_causal=kind == "causal")
        results.append([out, *torch.autograd.grad(out.square().sum(), (q, k, v))])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [1, 7, 8, 9])
def test_aligned_mask_has_values_of_plain_mask(length: int):
    mask_B11M = torch.randn(3, 1, 1, length)
    aligned_B11M = kernels.align_mask(mask_B11M)
    assert torch.equal(aligned_B11M, mask_B11M)
    assert all(stride % kernels.MASK_ALIGNMENT == 0 for stride in aligned_B11M.stride()[:-1])


def test_weights_cast_together_equal_weights_cast_one_by_one(monkeypatch: pytest.MonkeyPatch):
    model = small_model(torch.bfloat16, dropout=0.1)
    together = loss_and_grads(model)
    monkeypatch.setattr(kernels, "cast_weights", lambda *_: None)
    one_by_one = loss_and_grads(model)
    assert all(torch.equal(a, b) for a, b in zip(together, one_by_one, strict=True))


def test_every_pass_casts_the_current_weights():
    linear = Linear(4, 4)
    x = torch.ones(1, 4, dtype=torch.bfloat16)
    cast_weights([linear], torch.bfloat16)
    before = linear(x)
    with torch.no_grad():
        linear.weight.add_(1.0)
    assert not torch.equal(linear(x), before)


def test_cast_without_foreach_copy_gives_same_bits(monkeypatch: pytest.MonkeyPatch):
    tensors = [torch.randn(3, 4), torch.randn(5)]
    together = kernels.cast_all(tensors, torch.bfloat16)
    monkeypatch.delattr(torch, "_foreach_copy_")
    for cast, expected in zip(kernels.cast_all(tensors, torch.bfloat16), together, strict=True):
        assert cast.dtype == torch.bfloat16 and torch.equal(cast, expected)


def test_dropout_mask_of_almost_all_elements_drops_them():
    mask = dropout_mask(torch.empty(1000), 0.999999)
    assert float((mask == 0).float().mean()) > 0.99


def test_dropout_mask_has_its_rate_and_mean():
    torch.manual_seed(0)
    like = torch.empty(333, 1001)
    for p in (0.1, 0.3):
        mask = dropout_mask(like, p)
        assert mask.shape == like.shape and mask.dtype == like.dtype
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - p)])
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


def test_padded_columns_are_cut_off_the_logits(monkeypatch: pytest.MonkeyPatch):
    model = small_model()
    monkeypatch.setattr(kernels, "pad_vocabulary", lambda x_VD: F.pad(x_VD, (0, 0, 0, 5)))
    projection = PaddedWeights(model.embedding.weight)
    hidden_BD = torch.randn(3, 32)
    torch.testing.assert_close(projection(hidden_BD), model.logits(hidden_BD))
    assert len(projection.padded_PD) == len(model.embedding.weight) + 5


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
    source_BS, target_BT = random_ids(rows, 7), random_ids(rows, 5)
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
