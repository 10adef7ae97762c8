"""The operations of a training step, by the sizes of the model."""

import numpy as np
import torch

from translate_ddp.runtime.device import peak_flop
from translate_ddp.settings import Config, ModelConfig

# In the time of the launches of a micro-batch, 8 to 30 ms, a GPU computes what would take this long
# at its peak, of which it reaches about a third. On an H200, one micro-batch of 24,000 tokens was
# the fastest for `base`, and two of 12,000 for `big`.
LAUNCH_SECONDS = 0.01
UNKNOWN_PEAK_FLOP = 3e14  # for a GPU whose data sheet is not known: as an A100


def full_tokens(config: Config, vocabulary: int, dtype: torch.dtype, device: torch.device) -> int:
    """The tokens a side that the GPU computes in the time of a micro-batch's launches; 0: few.

    As on a CPU, and in fp32, whose products take ten times as long.
    """
    if device.type != "cuda" or dtype == torch.float32:
        return 0
    one = np.ones(1)
    flop = step_flop(config.model, vocabulary, one, one) * config.loss.forward_copies
    return int(LAUNCH_SECONDS * (peak_flop(device) or UNKNOWN_PEAK_FLOP) / flop)


def step_flop(
    config: ModelConfig, vocabulary: int, source_N: np.ndarray, target_N: np.ndarray
) -> float:
    """FLOP of forward and backward of N pairs with these numbers of tokens, end markers included.

    Padding, biases, norms and the update do not count, and causal attention counts as full.
    """
    square, feed_forward = config.d_model**2, 2 * config.d_model * config.d_ff
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    source_weights = encoder * (4 * square + feed_forward) + decoder * 2 * square
    target_weights = decoder * (6 * square + feed_forward) + vocabulary * config.d_model
    source, target = source_N.astype(float), target_N.astype(float)
    scores = encoder * (source**2).sum() + decoder * (target**2 + target * source).sum()
    products = source_weights * source.sum() + target_weights * target.sum()
    return float(6 * products + 12 * config.d_model * scores)
