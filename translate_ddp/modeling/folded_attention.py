"""Masks of attention, and short sentences folded into full tiles of a GPU, without a copy.

In 16 bits a GPU computes scores in tiles of 64 queries and 64 keys, and a sentence of 16 tokens
fills a sixteenth of a tile. So g sentences become one: all layers see x_BTD as [B/g, g*T, D]. They
compute each position by itself, and masks keep the attention of a position within its sentence.
Shape letters are as in `transformer.py`; Z are the B/g folded sentences.
"""

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from translate_ddp.data.tokenizer import PAD
from translate_ddp.modeling.kernels import is_plain

TILE = 64
MASK_ALIGNMENT = 8  # elements; memory-efficient attention copies a mask with other row strides
MASKED = -3e4  # its softmax is 0 in all dtypes; finite, so no position without a key becomes NaN


class Masks(NamedTuple):
    """What attention adds to the scores."""

    source: Tensor  # in the encoder
    target: Tensor | None  # in the decoder, between its positions; None: causal
    cross: Tensor  # in the decoder, to the sources


def attention_masks(source_BS: Tensor, target_BT: Tensor, dtype: torch.dtype) -> Masks:
    """The masks; on a GPU in 16 bits of g folded sentences, which fit in a tile. g divides B."""
    if source_BS.device.type != "cpu" and dtype.itemsize == 2 and not is_plain():
        fitting = max(1, TILE // max(source_BS.shape[1], target_BT.shape[1]))
        if (count := math.gcd(len(source_BS), 1 << (fitting.bit_length() - 1))) > 1:
            return folded_masks(source_BS, target_BT, dtype, count)
    mask_B11S = padding_mask(source_BS, dtype)
    return Masks(mask_B11S, None, mask_B11S)


def padding_mask(tokens_BM: Tensor, dtype: torch.dtype) -> Tensor:
    """mask_B11M of sentences that are not folded: 0 at tokens, -inf at padding."""
    return mask_of((tokens_BM == PAD)[:, None, None], dtype, -torch.inf)


def folded_masks(source_BS: Tensor, target_BT: Tensor, dtype: torch.dtype, count: int) -> Masks:
    """The masks for g = `count`: [Z, 1, g*S, g*S], [1, 1, g*T, g*T] and [Z, 1, g*T, g*S]."""
    source, target, device = source_BS.shape[1], target_BT.shape[1], source_BS.device
    is_padding_Z11M = (source_BS == PAD).view(-1, 1, 1, count * source)
    # Padding is on the right, so the causal mask hides it from every real position.
    causal = mask_of(hidden_positions(count, target, target, device, is_causal=True), dtype)
    own, cross = (
        mask_of(is_padding_Z11M | hidden_positions(count, length, source, device), dtype)
        for length in (source, target)
    )
    return Masks(own, causal, cross)


@functools.lru_cache(maxsize=128)
@torch.inference_mode(False)  # training uses what validation has computed
def hidden_positions(
    count: int, queries: int, keys: int, device: torch.device, is_causal: bool = False
) -> Tensor:
    """Whether a key is of another sentence than the query, or after it, [1, 1, g*T, g*M]."""
    sentence_T, sentence_M = (torch.arange(count * n, device=device) // n for n in (queries, keys))
    hidden_TM = sentence_T[:, None] != sentence_M
    return (hidden_TM | torch.ones_like(hidden_TM).triu(1) if is_causal else hidden_TM)[None, None]


def mask_of(is_hidden_Z1TM: Tensor, dtype: torch.dtype, value: float = MASKED) -> Tensor:
    """The value where a key is hidden, else 0: in the dtype of attention, since each call would
    convert another one again, and with row strides that a GPU's kernel reads without a copy.
    """
    *rows, keys = is_hidden_Z1TM.shape
    mask = is_hidden_Z1TM.new_zeros((*rows, keys + -keys % MASK_ALIGNMENT), dtype=dtype)
    return mask[..., :keys].masked_fill_(is_hidden_Z1TM, value)
