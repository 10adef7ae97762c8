"""The decoder in a search: the next token of each hypothesis, from what is kept of earlier ones.

A step computes what `Transformer.decode` computes for one more position, with the same weights but
without its modules, whose calls take as long as the products of a few rows.

The W hypotheses of a sentence share one past. Position t of hypothesis w has slot t * W + w, and a
mask says which slots are the past of which hypothesis. So a hypothesis that continues another one
takes a row of the mask, and no keys and values are copied. Shape letters are as in
`transformer.py`; here M are slots.
"""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from translate_ddp.modeling.folded_attention import padding_mask
from translate_ddp.modeling.kernels import SOFTMAX_KEYS, attention_of_few, norm, product
from translate_ddp.modeling.transformer import DecoderLayer, Transformer

POSITIONS = 32  # for which there is room at first; then for twice as many, and so on


class DecodingState:
    """N target rows of a search over B sentences: the `SearchState` of a model.

    The model is the result of `ready_to_decode`.
    """

    def __init__(self, model: Transformer, source_BS: Tensor, width: int) -> None:
        self.model, self.width, self.length = model, width, 0
        mask_B11S = padding_mask(source_BS, model.dtype)
        sources = model.encode(model.embedding(source_BS), mask_B11S)
        on_cpu = source_BS.device.type == "cpu"
        # On a CPU in fp32: products of single queries in bf16 take five times as long.
        dtype = torch.float32 if on_cpu else model.dtype
        self.min_keys = SOFTMAX_KEYS if on_cpu else 1  # with masked ones
        keys_values = [part.to(dtype) for pair in sources for part in pair]
        self.source_L2BHSK = torch.stack(keys_values).unflatten(0, (-1, 2))
        self.source_mask_B11S = mask_B11S.to(dtype)
        if (missing := self.min_keys - source_BS.shape[1]) > 0:
            self.source_L2BHSK = F.pad(self.source_L2BHSK, (0, 0, 0, missing))
            self.source_mask_B11S = F.pad(self.source_mask_B11S, (0, missing), value=-torch.inf)
        layers, _, sentences, heads, _, size = self.source_L2BHSK.shape
        slots = POSITIONS * width
        self.past_L2BHMK = self.source_L2BHSK.new_empty(layers, 2, sentences, heads, slots, size)
        self.past_L2BHMK[..., : self.min_keys, :] = 0.0  # these are read before they are written
        shape = (sentences, 1, width, slots)
        self.past_mask_B1WM = self.source_mask_B11S.new_full(shape, -torch.inf)

    def step(self, tokens_N: Tensor) -> Tensor:
        model, first = self.model, self.length * self.width
        newest = slice(first, first + self.width)
        if newest.stop > self.past_mask_B1WM.shape[-1]:
            more = self.past_mask_B1WM.shape[-1]
            self.past_L2BHMK = F.pad(self.past_L2BHMK, (0, 0, 0, more))
            self.past_mask_B1WM = F.pad(self.past_mask_B1WM, (0, more), value=-torch.inf)
        # Each hypothesis has its own newest slot.
        self.past_mask_B1WM[..., newest].diagonal(dim1=2, dim2=3).zero_()
        x_ND = model.embed(model.embedding(tokens_N[:, None]), self.length)[:, 0]
        for number, layer in enumerate(model.decoder_layers):
            x_ND = self._layer(cast(DecoderLayer, layer), number, x_ND, newest)
        self.length += 1
        return model.logits(norm(model.decoder_norm, x_ND))

    def _layer(self, layer: DecoderLayer, number: int, x_ND: Tensor, newest: slice) -> Tensor:
        own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
        q_k_v_N3D = product(own.query, norm(layer.self_attention_norm, x_ND))  # joined
        q_ND, k_v_N2D = q_k_v_N3D.tensor_split([x_ND.shape[1]], dim=1)
        end = max(newest.stop, self.min_keys)
        past_2BHMK = self.past_L2BHMK[number, ..., :end, :]
        k_v_BW2HK = k_v_N2D.view(-1, self.width, 2, own.num_heads, past_2BHMK.shape[-1])
        past_2BHMK[..., newest, :].copy_(k_v_BW2HK.permute(2, 0, 3, 1, 4))
        has_mask = self.width > 1 or end > newest.stop
        mask = self.past_mask_B1WM[..., :end] if has_mask else None
        x_ND = product(own.out, self._attend(q_ND, past_2BHMK, mask), residual=x_ND)
        q_ND = product(cross.query, norm(layer.cross_attention_norm, x_ND))
        context_ND = self._attend(q_ND, self.source_L2BHSK[number], self.source_mask_B11S)
        x_ND = product(cross.out, context_ND, residual=x_ND)
        up_NF = product(feed_forward.up, norm(layer.feed_forward_norm, x_ND), relu=True)
        return product(feed_forward.down, up_NF, residual=x_ND)

    def _attend(self, q_ND: Tensor, keys_values_2BHMK: Tensor, mask: Tensor | None) -> Tensor:
        k_BHMK, v_BHMK = keys_values_2BHMK
        q_BWHK = q_ND.view(-1, self.width, k_BHMK.shape[1], k_BHMK.shape[3])
        q_BHWK = q_BWHK.transpose(1, 2).to(k_BHMK.dtype)
        context_BHWK = attention_of_few(q_BHWK, k_BHMK, v_BHMK, mask)
        return context_BHWK.transpose(1, 2).reshape(q_ND.shape).to(q_ND.dtype)

    def follow(self, rows_BW: Tensor) -> None:
        past_B1WM = self.past_mask_B1WM[..., : self.length * self.width]
        past_B1WM.copy_(past_B1WM.take_along_dim(rows_BW[:, None, :, None], dim=2))

    def keep(self, sentences: Sequence[int]) -> None:
        # Sentences that keep their places are not copied.
        moved = [pair for pair in enumerate(sentences) if pair[0] != pair[1]]
        places = torch.tensor(moved, dtype=torch.int64, device=self.source_mask_B11S.device)
        to, origin = places.view(-1, 2).unbind(dim=1)

        def kept(part: Tensor, axis: int) -> Tensor:
            part.index_copy_(axis, to, part.index_select(axis, origin))
            return part.narrow(axis, 0, len(sentences))

        self.source_L2BHSK, self.past_L2BHMK = (
            kept(self.source_L2BHSK, 2),
            kept(self.past_L2BHMK, 2),
        )
        self.source_mask_B11S = kept(self.source_mask_B11S, 0)
        self.past_mask_B1WM = kept(self.past_mask_B1WM, 0)
