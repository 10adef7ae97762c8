"""Floating point operations of a training step, from the model's shape and its real tokens.

    6 x weights of a matrix x the tokens it multiplies
        (2 for the product forward, 4 for the two products of its gradient), over
        the encoder's matrices and the keys and values of cross-attention  x source tokens,
        the decoder's other matrices, and the projection to the vocabulary x target tokens;
    12 x d_model x query positions x key positions, for each sentence and attention layer
        (2 products of 2 x d_model each forward, twice as many backward; causal attention counts
        fully, as it is computed).

Softmax, normalisation, dropout, optimizer and all padding count as zero, so a utilisation computed
from this count is that of useful work.
"""

from dataclasses import dataclass

import numpy as np

from translate_ddp.modeling.transformer import Transformer


@dataclass(frozen=True)
class StepFlop:
    """FLOP of a step by part of the model."""

    linear: float
    attention: float
    projection: float

    @property
    def total(self) -> float:
        return self.linear + self.attention + self.projection


def step_flop(model: Transformer, source_N: np.ndarray, target_N: np.ndarray) -> StepFlop:
    """FLOP of a step over N pairs with these numbers of tokens, end markers included."""
    source_weights, target_weights = matrix_weights(model)
    source, target = source_N.astype(float), target_N.astype(float)
    encoder = len(model.encoder_layers) * (source**2).sum()
    decoder = len(model.decoder_layers) * (target**2 + target * source).sum()
    return StepFlop(
        linear=6 * (source_weights * source.sum() + target_weights * target.sum()),
        attention=12 * model.d_model * (encoder + decoder),
        projection=6 * model.embedding.weight.numel() * target.sum(),
    )


def matrix_weights(model: Transformer) -> tuple[int, int]:
    """Number of matrix weights that multiply each source token, and each target token."""
    source = target = 0
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2 or parameter is model.embedding.weight:
            continue
        if name.startswith("encoder") or "cross_attention.key_value" in name:
            source += parameter.numel()
        else:
            target += parameter.numel()
    return source, target
