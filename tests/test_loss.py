"""The loss is a sum over real target tokens, with the label smoothing of the paper."""

import pytest
import torch
import torch.nn.functional as F

from translate_ddp.data.batches import empty_batch
from translate_ddp.modeling import kernels
from translate_ddp.modeling.loss import Objective, token_loss
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import LossConfig, ModelConfig


def test_empty_pass_gives_zero_gradient_for_every_parameter():
    # DDP waits for a gradient of each parameter, also from a rank without a sentence.
    objective = Objective(Transformer(ModelConfig(), vocabulary=20), 0.1)
    sums = objective(empty_batch())
    sums["loss"].backward()
    assert sums["loss"].item() == sums["nll"].item() == 0.0
    for name, parameter in objective.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_label_smoothing_of_one_raises():
    with pytest.raises(ValueError, match="label_smoothing"):
        LossConfig(label_smoothing=1.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("padded", [0, 53])
@pytest.mark.parametrize("scores_at_once", [1, 3 * 11, 2**20])  # rows: one, three, all seven
def test_loss_and_gradients_equal_cross_entropy_for_all_slices(
    monkeypatch: pytest.MonkeyPatch, scores_at_once: int, padded: int, smoothing: float
):
    monkeypatch.setattr(kernels, "CPU_SCORES_AT_ONCE", scores_at_once)
    monkeypatch.setattr(kernels, "pad_vocabulary", lambda x_VD: F.pad(x_VD, (0, 0, 0, padded)))
    torch.manual_seed(0)
    hidden_RD = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    embedding_VD = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    labels_R = torch.randint(11, (7,))
    plain = F.cross_entropy(
        F.linear(hidden_RD, embedding_VD), labels_R, reduction="sum", label_smoothing=smoothing
    )
    plain_grads = torch.autograd.grad(3 * plain, (hidden_RD, embedding_VD))
    plain_nll = F.cross_entropy(F.linear(hidden_RD, embedding_VD), labels_R, reduction="sum")
    ours, nll = token_loss(hidden_RD, embedding_VD, labels_R, smoothing)
    assert not nll.requires_grad
    torch.testing.assert_close(nll.double(), plain_nll, rtol=1e-6, atol=0)
    grads = torch.autograd.grad(3 * ours, (hidden_RD, embedding_VD))
    torch.testing.assert_close(ours.double(), plain, rtol=1e-6, atol=0)
    for ours_grad, plain_grad in zip(grads, plain_grads, strict=True):
        torch.testing.assert_close(ours_grad, plain_grad, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        without_grad = token_loss(hidden_RD, embedding_VD, labels_R, smoothing)
    torch.testing.assert_close(without_grad, (ours.detach(), nll))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bf16_loss_of_a_confident_model_equals_cross_entropy_of_its_scores(smoothing: float):
    torch.manual_seed(0)
    labels_R = torch.randint(50, (200,))
    embedding_VD = 4 * torch.nn.functional.normalize(torch.randn(50, 32))
    hidden_RD = (3 * embedding_VD[labels_R] * torch.rand(200, 1)).bfloat16().requires_grad_()
    scores_RV = (hidden_RD @ embedding_VD.bfloat16().t()).float()
    plain = F.cross_entropy(scores_RV, labels_R, reduction="sum", label_smoothing=smoothing)
    with torch.no_grad():  # as in validation
        found, _ = token_loss(hidden_RD, embedding_VD, labels_R, smoothing)
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=0)
    found, _ = token_loss(hidden_RD, embedding_VD, labels_R, smoothing)
    assert abs(found - plain) < 200 * 0.002
    (grad_RD,) = torch.autograd.grad(found, hidden_RD)
    (plain_grad_RD,) = torch.autograd.grad(plain, hidden_RD)
    assert (grad_RD - plain_grad_RD).norm() < 0.02 * plain_grad_RD.norm()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_label_of_probability_zero_has_finite_loss(dtype: torch.dtype, smoothing: float):
    # Scores of 1,000 and -1,000: the label's probability underflows every float.
    hidden_RD = torch.tensor([[1000.0], [-1000.0]], dtype=dtype, requires_grad=True)
    embedding_VD = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)
    labels_R = torch.tensor([1, 1])
    scores_RV = (hidden_RD @ embedding_VD.to(dtype).t()).float()
    plain = F.cross_entropy(scores_RV, labels_R, reduction="sum", label_smoothing=smoothing)
    found, _ = token_loss(hidden_RD, embedding_VD, labels_R, smoothing)
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=0)
    for grad, plain_grad in zip(
        torch.autograd.grad(found, (hidden_RD, embedding_VD)),
        torch.autograd.grad(plain, (hidden_RD, embedding_VD)),
        strict=True,
    ):
        torch.testing.assert_close(grad, plain_grad, rtol=1e-2, atol=1e-2)
