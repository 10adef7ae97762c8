"""The loss is a sum over real target tokens, with the label smoothing of the paper."""

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F

from tests.helpers.models import VOCABULARY, small_batch, small_model
from translate_ddp.data.batches import empty_batch
from translate_ddp.data.tokenizer import SPECIAL_TOKENS, UNK
from translate_ddp.modeling import fused_losses, kernels
from translate_ddp.modeling import loss as loss_module
from translate_ddp.modeling.loss import Objective, cutoff, simcut_loss, token_loss
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import LossConfig, ModelConfig


@pytest.mark.parametrize("simcut", [0.0, 3.0])
def test_empty_batch_gives_zero_gradient_for_every_parameter(simcut: float):
    # DDP waits for a gradient of each parameter, also from a rank without a sentence.
    model = Transformer(ModelConfig(dropout=0.1), vocabulary=20)
    sums = Objective(model, LossConfig(simcut=simcut))(empty_batch())
    sums["loss"].backward()
    assert all(float(value.detach()) == 0.0 for value in sums.values())
    assert not any(p.grad is None or p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("padded", [0, 53])
@pytest.mark.parametrize("scores_at_once", [1, 3 * 11, 2**20])  # rows: one, three, all seven
def test_loss_and_gradients_equal_cross_entropy_for_all_slices(
    monkeypatch: pytest.MonkeyPatch, scores_at_once: int, padded: int, smoothing: float
):
    monkeypatch.setattr(fused_losses, "CPU_SCORES_AT_ONCE", scores_at_once)
    monkeypatch.setattr(kernels, "pad_vocabulary", lambda x_VD: F.pad(x_VD, (0, 0, 0, padded)))
    torch.manual_seed(0)
    hidden_RD = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    embedding_VD = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    labels_R = torch.randint(11, (7,))
    plain = F.cross_entropy(
        F.linear(hidden_RD, embedding_VD), labels_R, reduction="sum", label_smoothing=smoothing
    )
    plain_nll = F.cross_entropy(F.linear(hidden_RD, embedding_VD), labels_R, reduction="sum")
    ours, nll = token_loss(hidden_RD, embedding_VD, labels_R, smoothing)
    assert not nll.requires_grad
    torch.testing.assert_close(nll.double(), plain_nll, rtol=1e-6, atol=0)
    torch.testing.assert_close(ours.double(), plain, rtol=1e-6, atol=0)
    assert_close_gradients(ours, plain, (hidden_RD, embedding_VD), within=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bf16_loss_of_a_confident_model_equals_cross_entropy_of_its_scores(smoothing: float):
    torch.manual_seed(0)
    labels_R = torch.randint(50, (200,))
    embedding_VD = 4 * torch.nn.functional.normalize(torch.randn(50, 32))
    hidden_RD = (3 * embedding_VD[labels_R] * torch.rand(200, 1)).bfloat16().requires_grad_()
    scores_RV = (hidden_RD @ embedding_VD.bfloat16().t()).float()
    plain = F.cross_entropy(scores_RV, labels_R, reduction="sum", label_smoothing=smoothing)
    found, _ = token_loss(hidden_RD, embedding_VD, labels_R, smoothing)
    assert abs(found - plain) < 200 * 0.002
    (grad_RD,) = torch.autograd.grad(found, hidden_RD)
    (plain_grad_RD,) = torch.autograd.grad(plain, hidden_RD)
    assert (grad_RD - plain_grad_RD).norm() < 0.02 * plain_grad_RD.norm()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_label_of_probability_zero_has_finite_loss(dtype: torch.dtype, smoothing: float):
    # Scores of 1,000 and -1,000: the label's probability underflows every float.
    hidden_RD = torch.tensor([[1000.0], [-1000.0]], dtype=dtype, requires_grad=True)
    embedding_VD = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)
    labels_R = torch.tensor([1, 1])
    scores_RV = (hidden_RD @ embedding_VD.to(dtype).t()).float()
    plain = F.cross_entropy(scores_RV, labels_R, reduction="sum", label_smoothing=smoothing)
    found, _ = token_loss(hidden_RD, embedding_VD, labels_R, smoothing)
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=0)
    assert_close_gradients(found, plain, (hidden_RD, embedding_VD), within=1e-2)


def assert_close_gradients(
    found: torch.Tensor, expected: torch.Tensor, inputs: Sequence[torch.Tensor], within: float
) -> None:
    grads = (torch.autograd.grad(3 * loss, inputs) for loss in (found, expected))
    for grad, plain_grad in zip(*grads, strict=True):
        torch.testing.assert_close(grad, plain_grad, rtol=within, atol=within)


def plain_simcut(
    hidden_RD: torch.Tensor, cut_RD: torch.Tensor, embedding_VD: torch.Tensor
) -> torch.Tensor:
    p, q = (F.linear(x, embedding_VD).log_softmax(dim=-1) for x in (hidden_RD, cut_RD))
    forward = F.kl_div(q, p, log_target=True, reduction="sum")
    backward = F.kl_div(p, q, log_target=True, reduction="sum")
    return (forward + backward) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scores_at_once", [1, 6 * 11, 2**20])  # rows: one, three, all seven
def test_simcut_and_its_gradients_equal_the_plain_divergences(
    monkeypatch: pytest.MonkeyPatch, scores_at_once: int, smoothing: float
):
    monkeypatch.setattr(fused_losses, "CPU_SCORES_AT_ONCE", scores_at_once)
    torch.manual_seed(0)
    inputs = [torch.randn(7, 5), torch.randn(7, 5), torch.randn(11, 5)]
    inputs = [x.double().requires_grad_() for x in inputs]
    hidden_RD, cut_RD, embedding_VD = inputs
    labels_R = torch.randint(11, (7,))
    divergence = plain_simcut(hidden_RD, cut_RD, embedding_VD)
    scores_RV = F.linear(hidden_RD, embedding_VD)
    entropy = F.cross_entropy(scores_RV, labels_R, reduction="sum", label_smoothing=smoothing)
    plain = torch.autograd.grad(3 * (entropy + 2.5 * divergence), inputs)
    config = LossConfig(label_smoothing=smoothing, simcut=2.5)
    loss, nll, found = simcut_loss(hidden_RD, cut_RD, embedding_VD, labels_R, config)
    assert not nll.requires_grad
    assert not found.requires_grad
    torch.testing.assert_close(found.double(), divergence, rtol=1e-5, atol=0)
    torch.testing.assert_close(loss.double(), entropy + 2.5 * divergence, rtol=1e-5, atol=0)
    grads = torch.autograd.grad(3 * loss, inputs)
    for ours_grad, plain_grad in zip(grads, plain, strict=True):
        torch.testing.assert_close(ours_grad, plain_grad, rtol=1e-5, atol=1e-5)


def test_bf16_simcut_is_close_to_that_of_its_scores():
    torch.manual_seed(0)
    labels_R = torch.randint(50, (200,))
    embedding_VD = 4 * F.normalize(torch.randn(50, 32))
    hidden_RD = (2 * embedding_VD[labels_R]).bfloat16().requires_grad_()
    cut_RD = (hidden_RD.detach() + torch.randn(200, 32) / 4).bfloat16().requires_grad_()
    plain = plain_simcut(hidden_RD.float(), cut_RD.float(), embedding_VD.bfloat16().float())
    _, _, divergence = simcut_loss(
        hidden_RD, cut_RD, embedding_VD, labels_R, LossConfig(simcut=1.0)
    )
    assert abs(divergence - plain) < 0.02 * plain


def test_cut_replaces_ordinary_tokens_at_its_rate_and_no_special_or_extra_ones():
    torch.manual_seed(0)
    tokens_BT = torch.randint(4, 100, (300, 100))
    tokens_BT[:, :4] = torch.arange(4)
    tokens_BT[:, -2:] = torch.tensor([100, 101])
    cut_BT = cutoff(tokens_BT, num_text=100)
    changed_BT = cut_BT != tokens_BT
    assert not changed_BT[:, :4].any() and not changed_BT[:, -2:].any()
    assert (cut_BT[changed_BT] == UNK).all()
    assert 0.045 < changed_BT[:, 4:-2].float().mean() < 0.055


def test_simcut_of_weight_zero_and_outside_of_training_is_the_old_loss():
    model = small_model(torch.float32, dropout=0.1)
    sums = []
    for simcut, is_training in ((0.0, True), (3.0, True), (3.0, False)):
        torch.manual_seed(0)
        sums.append(Objective(model, LossConfig(simcut=simcut)).train(is_training)(small_batch()))
    assert set(sums[0]) == set(sums[2]) == {"loss", "nll"}
    assert set(sums[1]) == {"loss", "nll", "divergence"}
    torch.manual_seed(0)
    batch = small_batch()
    hidden_BTD = model.train()(batch.source_BS, batch.target_BT)
    hidden_RD = hidden_BTD.flatten(0, 1)[batch.real_R]
    loss, _ = token_loss(hidden_RD, model.embedding.weight, batch.labels_R, 0.1)
    assert torch.equal(sums[0]["loss"], loss)


def test_simcut_trains_on_the_pairs_as_they_are_and_compares_those_with_cut_inputs(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(loss_module, "CUT_PROBABILITY", 0.5)
    objective, batch = Objective(small_model(), LossConfig(simcut=1.0)).train(), small_batch()
    seen: list[torch.Tensor] = []
    objective.model.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    objective(batch)
    for both, given in zip(seen, (batch.source_BS, batch.target_BT), strict=True):
        plain, changed = both.chunk(2)
        assert torch.equal(plain, given)
        differs = changed != given
        assert 0 < differs.sum() < (given >= len(SPECIAL_TOKENS)).sum()
        assert (changed[differs] == UNK).all()
        assert (given[differs] >= len(SPECIAL_TOKENS)).all()


def test_tokens_of_spans_and_tags_are_not_cut_on_either_side(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loss_module, "CUT_PROBABILITY", 1.0)
    config = ModelConfig(d_model=32, num_heads=2, d_ff=64)
    model = Transformer(config, VOCABULARY, num_outputs=30, num_spans=10)
    seen: list[torch.Tensor] = []
    model.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    batch = small_batch()
    batch.labels_R.clamp_(max=29)
    Objective(model, LossConfig(simcut=1.0)).train()(batch)
    for both, given in zip(seen, (batch.source_BS, batch.target_BT), strict=True):
        is_text = (given >= len(SPECIAL_TOKENS)) & (given < 20)
        assert (given >= 20).any()
        assert both.chunk(2)[1].equal(given.masked_fill(is_text, UNK))
