"""What training minimises: the label-smoothed loss of target tokens, as a sum, never a mean.

A mean over one rank's tokens would weigh ranks alike however many tokens they hold; who knows the
token count of the whole step divides once.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.batches import Batch
from translate_ddp.model import Transformer


@dataclass(frozen=True)
class LossConfig:
    label_smoothing: float = 0.1
    """Share of the probability spread evenly over the vocabulary (Szegedy et al. 2016)."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must lie in [0, 1), but is {self.label_smoothing}.")


def token_loss(
    hidden_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, label_smoothing: float
) -> Tensor:
    """Summed loss in nats of R real target tokens; R may be 0.

    Source: Vaswani et al. 2017, section 5.4; the projection is the tied embedding (section 3.4).
    """
    logits_RV = F.linear(hidden_RD, embedding_VD)
    return F.cross_entropy(
        logits_RV.float(), labels_R, reduction="sum", label_smoothing=label_smoothing
    )


class Objective(nn.Module):
    """Model and loss in one forward pass, which is what DDP has to see whole."""

    def __init__(self, model: Transformer, label_smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, batch: Batch) -> Tensor:
        """Summed loss of the batch's real target tokens; padding never meets the vocabulary."""
        hidden_BTD = self.model(batch.source_BS, batch.target_BT)
        hidden_RD = hidden_BTD.flatten(0, 1)[batch.real_R]
        return token_loss(
            hidden_RD, self.model.embedding.weight, batch.labels_R, self.label_smoothing
        )
