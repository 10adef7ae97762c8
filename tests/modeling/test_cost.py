"""What a training step costs: operations and memory."""

import numpy as np

from translate_ddp.modeling.cost import step_flop
from translate_ddp.settings import ModelConfig


def test_flop_of_a_step_by_hand():
    # 2+2 layers, width d = 64, feed-forward 2 d, one sentence of 3 source and 5 target tokens.
    config, d2 = ModelConfig(d_model=64, d_ff=128), 64 * 64
    encoder, memory, decoder = 2 * 8 * d2, 2 * 2 * d2, 2 * (4 + 2 + 4) * d2
    linear = 6 * (3 * (encoder + memory) + 5 * decoder)
    attention = 12 * 64 * 2 * (3 * 3 + 5 * 5 + 5 * 3)
    projection = 6 * 100 * 64 * 5
    assert step_flop(config, 100, np.array([3]), np.array([5])) == linear + attention + projection
