"""What a training step costs, by the sizes of the model: operations and memory."""

import numpy as np

from translate_ddp.settings import ModelConfig


def step_flop(
    config: ModelConfig, vocabulary: int, source_N: np.ndarray, target_N: np.ndarray
) -> float:
    """FLOP of forward and backward of N pairs with these numbers of tokens, end markers included.

    Padding, biases, norms and the update do not count, and causal attention counts as full.
    """
    d_model, feed_forward = config.d_model, 2 * config.d_model * config.d_ff
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    # Weights that multiply each source token: cross attention's keys and values are among them.
    source_weights = encoder * (4 * d_model**2 + feed_forward) + decoder * 2 * d_model**2
    target_weights = decoder * (6 * d_model**2 + feed_forward) + vocabulary * d_model
    source, target = source_N.astype(float), target_N.astype(float)
    scores = encoder * (source**2).sum() + decoder * (target**2 + target * source).sum()
    products = source_weights * source.sum() + target_weights * target.sum()
    return float(6 * products + 12 * d_model * scores)
