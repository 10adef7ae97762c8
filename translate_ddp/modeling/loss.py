"""What training minimises: the label-smoothed loss of target tokens, as a sum, never a mean.

A mean over one rank's tokens would weigh ranks alike however many tokens they hold; who knows the
token count of the whole step divides once.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.data.batches import Batch
from translate_ddp.modeling.transformer import Transformer, pad_vocabulary

# So many scores exist at once: few enough to stay in a CPU's cache, enough to keep a GPU busy with
# few launches (512 MiB of them in bf16).
CPU_SCORES_AT_ONCE, GPU_SCORES_AT_ONCE = 2**22, 2**28


def token_loss(
    hidden_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Sums over R real target tokens, in nats: label-smoothed loss, negative log-likelihood.

    R may be 0. Only the first sum has a gradient. The products are computed in the precision of the
    hidden states; the embedding's gradient is summed in fp32. Source: Vaswani et al. 2017, section
    5.4; the output projection is the tied embedding (section 3.4).
    """
    if torch.is_grad_enabled():
        loss, nll = _TokenLoss.apply(hidden_RD, embedding_VD, labels_R, label_smoothing)
        return loss, nll
    weights_PD = pad_vocabulary(embedding_VD.to(hidden_RD.dtype))
    loss = torch.zeros((), device=hidden_RD.device)
    nll = torch.zeros((), device=hidden_RD.device)
    for rows in slices(hidden_RD, len(embedding_VD)):
        scores_CV = (hidden_RD[rows] @ weights_PD.t())[:, : len(embedding_VD)].float()
        nll += F.cross_entropy(scores_CV, labels_R[rows], reduction="sum")
        if label_smoothing:
            loss += F.cross_entropy(
                scores_CV, labels_R[rows], reduction="sum", label_smoothing=label_smoothing
            )
    return (loss if label_smoothing else nll), nll


def slices(hidden_RD: Tensor, vocabulary: int) -> list[slice]:
    """Rows of which the scores may exist at once."""
    is_cpu = hidden_RD.device.type == "cpu"
    rows_at_once = max(1, (CPU_SCORES_AT_ONCE if is_cpu else GPU_SCORES_AT_ONCE) // vocabulary)
    starts = range(0, len(hidden_RD), rows_at_once)
    return [slice(first, min(first + rows_at_once, len(hidden_RD))) for first in starts]


class _TokenLoss(torch.autograd.Function):
    """Smoothed cross-entropy that makes its gradient along with its value, some rows at a time.

    The scores of all rows, R x V, never exist together, and each is computed once. With the softmax
    p of a row's scores and the wanted distribution q = (1 - e) [label] + e / V, the loss is
    -q log p and its gradient with respect to the scores is p - q. In bf16 p is, too, and
    a row's loss then exact to 0.002 nats. P is V, or more on a GPU: the added scores are -inf.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary = len(embedding_VD)
        weights_PD = pad_vocabulary(embedding_VD.to(hidden_RD.dtype))
        # q spreads e / V over all scores: a part of the loss and of both gradients that sums give.
        spread = smoothing / vocabulary
        hidden_sum_D = hidden_RD.sum(dim=0, dtype=torch.float32)
        weights_sum_D = embedding_VD.sum(dim=0, dtype=torch.float32)
        total = -spread * (hidden_sum_D @ weights_sum_D)
        nll = torch.zeros_like(total)
        hidden_grad_RD = torch.empty_like(hidden_RD)
        embedding_grad_VD = (-spread * hidden_sum_D).expand_as(embedding_VD).contiguous()
        parts = slices(hidden_RD, vocabulary)
        # The same memory for all slices: fresh memory costs a CPU more than the softmax does.
        memory_CP = hidden_RD.new_empty(parts[0].stop if parts else 0, len(weights_PD))
        for rows in parts:
            hidden_CD, labels_C = hidden_RD[rows], labels_R[rows]
            wanted = torch.arange(len(labels_C), device=labels_C.device), labels_C
            scores_CP = torch.mm(hidden_CD, weights_PD.t(), out=memory_CP[: len(labels_C)])
            if len(weights_PD) > vocabulary:
                scores_CP[:, vocabulary:] = -torch.inf
            best_C, wanted_C = scores_CP.amax(dim=-1), scores_CP[wanted]
            p_CP = torch.softmax(scores_CP, dim=-1, out=scores_CP)
            # The best score's p is exp(best) / sum of exp.
            log_sum_C = best_C.float() - p_CP.amax(dim=-1).float().log()
            log_sum, wanted_sum = log_sum_C.sum(), wanted_C.float().sum()
            total += log_sum - (1 - smoothing) * wanted_sum
            nll += log_sum - wanted_sum
            grad_CP = p_CP
            grad_CP[wanted] -= 1 - smoothing
            torch.mm(grad_CP, weights_PD, out=hidden_grad_RD[rows])
            embedding_grad_VD += (grad_CP.t() @ hidden_CD)[:vocabulary]
        hidden_grad_RD -= spread * weights_sum_D
        ctx.save_for_backward(hidden_grad_RD, embedding_grad_VD)
        ctx.mark_non_differentiable(nll)
        ctx.set_materialize_grads(False)
        return total, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad_RD, embedding_grad_VD = ctx.saved_tensors
        grad, _ = grads
        # In place: they are large, and a second backward would raise.
        return hidden_grad_RD.mul_(grad), embedding_grad_VD.mul_(grad), None, None


class Objective(nn.Module):
    """Model and loss in one forward pass, which is what DDP has to see whole."""

    def __init__(self, model: Transformer, label_smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Sums over the batch's real target tokens, in nats.

        "loss": label-smoothed cross-entropy, the one that is minimised. "nll": negative
        log-likelihood without smoothing, detached, to compare training with validation.
        """
        hidden_BTD = self.model(batch.source_BS, batch.target_BT)
        # Not by [batch.real_R]: its gradient sorts the positions, in case one stands there twice.
        hidden_RD = hidden_BTD.flatten(0, 1).index_select(0, batch.real_R)
        loss, nll = token_loss(
            hidden_RD, self.model.embedding.weight, batch.labels_R, self.label_smoothing
        )
        return {"loss": loss, "nll": nll}
