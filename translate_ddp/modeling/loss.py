"""The training loss: label-smoothed cross-entropy of the real target tokens, as a sum.

A mean over each rank's tokens would give ranks equal weight, however many tokens they hold. The
caller divides once by the number of target tokens of the whole step.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.data.batches import Batch
from translate_ddp.modeling import kernels
from translate_ddp.modeling.transformer import Transformer


def token_loss(
    hidden_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Sums over R real target tokens, in nats: label-smoothed loss, negative log-likelihood.

    R may be 0. The second sum has no gradient. The products are computed in the precision of the
    hidden states; the embedding's gradient is summed in fp32. Source: Vaswani et al. 2017, section
    5.4; the output projection is the tied embedding (section 3.4).
    """
    if torch.is_grad_enabled() and not kernels.is_plain():
        return kernels.FusedTokenLoss.apply(hidden_RD, embedding_VD, labels_R, label_smoothing)
    vocabulary = len(embedding_VD)
    weights_PD = kernels.pad_vocabulary(embedding_VD.to(hidden_RD.dtype))
    loss = nll = torch.zeros((), device=hidden_RD.device)
    rows = kernels.rows_at_once(hidden_RD, vocabulary)
    for hidden_CD, labels_C in zip(hidden_RD.split(rows), labels_R.split(rows), strict=True):
        scores_CV = (hidden_CD @ weights_PD.t())[:, :vocabulary]
        log_p_CV = scores_CV.float().log_softmax(dim=-1)
        part = F.nll_loss(log_p_CV, labels_C, reduction="sum")
        nll = nll + part.detach()
        loss = loss + (1 - label_smoothing) * part
        if label_smoothing:
            loss = loss - label_smoothing / vocabulary * log_p_CV.sum()
    return loss, nll


class Objective(nn.Module):
    """Model and loss in one forward pass, as DDP requires."""

    def __init__(self, model: Transformer, label_smoothing: float) -> None:
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Sums over the batch's real target tokens, in nats.

        "loss": label-smoothed cross-entropy. "nll": negative log-likelihood, detached.
        """
        hidden_BTD = self.model(batch.source_BS, batch.target_BT)
        # `index_select`, since the gradient of [batch.real_R] sorts the positions first.
        hidden_RD = hidden_BTD.flatten(0, 1).index_select(0, batch.real_R)
        loss, nll = token_loss(
            hidden_RD, self.model.embedding.weight, batch.labels_R, self.label_smoothing
        )
        return {"loss": loss, "nll": nll}
