"""What a training step has to compute on paper: floating point operations of its real tokens.

    6 x weights of a matrix x the tokens it multiplies
        (2 for the product forward, 4 for the two products of its gradient), over
        the encoder's matrices and the keys and values of cross-attention   x source tokens,
        the decoder's other matrices, and the projection on the vocabulary  x target tokens;
    12 x d_model x (positions that ask x positions asked), for each sentence and attention layer
        (2 products of 2 x d_model each forward, twice that backward; causal attention counts
        whole, as it is computed).

Everything else, such as softmax, normalisation, dropout and optimizer, and all padding count
nothing: a utilisation by this count is that of useful work.
"""

from dataclasses import dataclass

import numpy as np

from translate_ddp.modeling.transformer import Transformer


@dataclass(frozen=True)
class StepFlop:
    """By the part of the model that does it."""

    linear: float
    attention: float
    projection: float

    @property
    def total(self) -> float:
        return self.linear + self.attention + self.projection


def step_flop(model: Transformer, source_N: np.ndarray, target_N: np.ndarray) -> StepFlop:
    """Of a step over N pairs of so many tokens on each side, end markers included."""
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
    """Weights of the matrices that multiply each source token, and each target token."""
    source = target = 0
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2 or parameter is model.embedding.weight:
            continue
        if name.startswith("encoder") or "cross_attention.key_value" in name:
            source += parameter.numel()
        else:
            target += parameter.numel()
    return source, target
