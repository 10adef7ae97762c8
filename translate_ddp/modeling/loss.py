"""The training loss: label-smoothed cross-entropy of the real target tokens, and SimCut, as sums.

A mean over each rank's tokens would give ranks equal weight, however many tokens they hold. The
caller divides once by the number of target tokens of the whole step.
"""

import torch
from torch import Tensor, nn

from translate_ddp.data.batches import Batch
from translate_ddp.data.tokenizer import SPECIAL_TOKENS, UNK
from translate_ddp.modeling.fused_losses import FusedSimCutLoss, FusedTokenLoss
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import LossConfig

CUT_PROBABILITY = 0.05  # Gao et al. 2022, section 4.2


def token_loss(
    hidden_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Sums over R real target tokens, in nats: label-smoothed loss, negative log-likelihood.

    The first is `cross_entropy(hidden_RD @ embedding_VD.T, labels_R, reduction="sum")` with this
    label smoothing, the second is without, and has no gradient. R may be 0. The products are
    computed in the precision of the hidden states; the embedding's gradient is summed in fp32.
    Source: Vaswani et al. 2017, section 5.4; the output projection is the tied embedding (3.4).
    """
    return FusedTokenLoss.apply(hidden_RD, embedding_VD, labels_R, label_smoothing)


def simcut_loss(
    hidden_RD: Tensor, cut_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, config: LossConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over R real target tokens, in nats: loss, negative log-likelihood, divergence.

    The loss is `token_loss` of the hidden states plus `config.simcut` times the divergence: the
    mean of both Kullback-Leibler divergences between the predictions from `hidden_RD` and those
    from `cut_RD`, the hidden states of cut inputs. The other sums have no gradient.
    Source: SimCut (Gao et al. 2022, eq. 4), with the divergence made symmetric.
    """
    smoothing, weight = config.label_smoothing, config.simcut
    return FusedSimCutLoss.apply(hidden_RD, cut_RD, embedding_VD, labels_R, smoothing, weight)


def cutoff(tokens_BT: Tensor, num_text: int) -> Tensor:
    """The tokens, each replaced by [UNK] with probability `CUT_PROBABILITY`.

    Special tokens and those from `num_text` on, of spans and tags, are never replaced.
    """
    is_cut_BT = torch.rand(tokens_BT.shape, device=tokens_BT.device) < CUT_PROBABILITY
    is_text_BT = (tokens_BT >= len(SPECIAL_TOKENS)) & (tokens_BT < num_text)
    return tokens_BT.masked_fill(is_cut_BT & is_text_BT, UNK)


class Objective(nn.Module):
    """Model and loss in one forward pass, as DDP requires."""

    def __init__(self, model: Transformer, config: LossConfig) -> None:
        super().__init__()
        self.model, self.config = model, config

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Sums over the batch's real target tokens, in nats.

        "loss": what is minimised, "nll": negative log-likelihood, and with SimCut in training also
        "divergence"; the last two are detached.
        """
        weight_VD = self.model.output_VD
        if not (self.config.simcut and self.training):
            hidden_BTD = self.model(batch.source_BS, batch.target_BT)
            hidden_RD = at_real_positions(hidden_BTD, batch)
            loss, nll = token_loss(
                hidden_RD, weight_VD, batch.labels_R, self.config.label_smoothing
            )
            return {"loss": loss, "nll": nll}
        # Both forward passes in one: each sentence draws its own dropout.
        source_2BS, target_2BT = (
            torch.cat([ids, cutoff(ids, self.model.num_text)])
            for ids in (batch.source_BS, batch.target_BT)
        )
        hidden_2BTD = self.model(source_2BS, target_2BT)
        hidden_RD, cut_RD = (at_real_positions(x, batch) for x in hidden_2BTD.chunk(2))
        loss, nll, divergence = simcut_loss(
            hidden_RD, cut_RD, weight_VD, batch.labels_R, self.config
        )
        return {"loss": loss, "nll": nll, "divergence": divergence}


def at_real_positions(hidden_BTD: Tensor, batch: Batch) -> Tensor:
    """The hidden states of the real target tokens, hidden_RD."""
    # `index_select`, since the gradient of [batch.real_R] sorts the positions first.
    return hidden_BTD.flatten(0, 1).index_select(0, batch.real_R)
