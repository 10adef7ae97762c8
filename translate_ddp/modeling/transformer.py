"""The encoder-decoder Transformer (Vaswani et al. 2017): token ids to hidden states and logits.

Pre-norm, ReLU, sinusoidal positions, one embedding shared by both sides and the output: the shape
that Pegasus in `transformers` and CTranslate2 load. Shape letters of tensor names:

    B sentences   S source tokens   T target tokens   D model width   H heads   K width of a head
    F feed-forward width   V vocabulary   R real target tokens   W hypotheses of a sentence
    M positions attended to (S or T)   P vocabulary padded for a GPU   1 a broadcast axis
    L decoder layers   N rows of a search, W for each sentence   C candidates, or rows of a slice

On a GPU, the sentences of layers may be folded ones (`folded_attention.py`).
"""

import functools
import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.modeling.folded_attention import Masks, attention_masks
from translate_ddp.modeling.kernels import (
    Dropout,
    Layer,
    LayerNorm,
    Linear,
    attention,
    joint_linear,
    relu_dropout,
)
from translate_ddp.settings import ModelConfig


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.num_heads, self.dropout = config.num_heads, config.dropout
        self.query = Linear(d_model, d_model)
        # Without bias: one of the keys adds the same to all scores of a query, which the softmax
        # ignores, so its gradient is rounding; one of the values adds a constant, as `out` does.
        self.key_value = Linear(d_model, 2 * d_model, bias=False)
        self.out = Linear(d_model, d_model)

    def queries_keys_values(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = joint_linear(x_BTD, [self.query, self.key_value], width=x_BTD.shape[-1])
        q_BHTK, k_BHTK, v_BHTK = map(self.split_heads, parts)
        return q_BHTK, k_BHTK, v_BHTK

    def forward(self, x_BTD: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask_B11M: Tensor) -> Tensor:
        return self.attend(self.split_heads(self.query(x_BTD)), k_BHMK, v_BHMK, mask_B11M)

    def attend(
        self, q_BHTK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask_B11M: Tensor | None
    ) -> Tensor:
        is_causal, dropout = mask_B11M is None, self.dropout if self.training else 0.0
        context_BHTK = attention(q_BHTK, k_BHMK, v_BHMK, mask_B11M, is_causal, dropout)
        return self.out(context_BHTK.transpose(1, 2).flatten(2))

    def split_heads(self, x_BMD: Tensor) -> Tensor:
        return x_BMD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """Position-wise feed-forward layer (Vaswani et al. 2017, eq. 2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.up = Linear(config.d_model, config.d_ff)
        self.down = Linear(config.d_ff, config.d_model)
        self.dropout = config.dropout

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(relu_dropout(self.up(x_BTD), self.dropout if self.training else 0.0))


class EncoderLayer(Layer):
    """Self-attention and feed-forward, each x + dropout(sublayer(norm(x)))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention_norm = LayerNorm(config.d_model)
        self.self_attention = Attention(config)
        self.feed_forward_norm = LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_BSD: Tensor, mask_B11S: Tensor) -> Tensor:
        normed_BSD = self.self_attention_norm(x_BSD)
        queries_keys_values = self.self_attention.queries_keys_values(normed_BSD)
        attended_BSD = self.self_attention.attend(*queries_keys_values, mask_B11S)
        x_BSD = self.dropout(attended_BSD, residual=x_BSD)
        return self.dropout(self.feed_forward(self.feed_forward_norm(x_BSD)), residual=x_BSD)


class DecoderLayer(Layer):
    """Causal self-attention, attention to the source, and feed-forward, each with a residual."""

    separate = ("cross_attention.key_value",)  # cast with all layers' key_value

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention_norm = LayerNorm(config.d_model)
        self.self_attention = Attention(config)
        self.cross_attention_norm = LayerNorm(config.d_model)
        self.cross_attention = Attention(config)
        self.feed_forward_norm = LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x_BTD: Tensor, source_keys_values: tuple[Tensor, Tensor], masks: Masks
    ) -> Tensor:
        normed_BTD = self.self_attention_norm(x_BTD)
        queries_keys_values = self.self_attention.queries_keys_values(normed_BTD)
        # Padding is on the right, so the causal mask hides it from every real position.
        attended_BTD = self.self_attention.attend(*queries_keys_values, masks.target)
        x_BTD = self.dropout(attended_BTD, residual=x_BTD)
        normed_BTD = self.cross_attention_norm(x_BTD)
        attended_BTD = self.cross_attention(normed_BTD, *source_keys_values, masks.cross)
        x_BTD = self.dropout(attended_BTD, residual=x_BTD)
        return self.dropout(self.feed_forward(self.feed_forward_norm(x_BTD)), residual=x_BTD)


class Transformer(nn.Module):
    """Pre-norm Transformer whose layers compute in `dtype`; its weights are fp32 unless cast."""

    def __init__(
        self,
        config: ModelConfig,
        vocabulary: int,
        dtype: torch.dtype = torch.float32,
        num_outputs: int | None = None,
        num_spans: int = 0,
    ) -> None:
        """`num_outputs`: the first tokens, which it can generate; None: all of the vocabulary.

        The last `num_spans` of them are no text.
        """
        super().__init__()
        self.dtype = dtype
        self.num_outputs = vocabulary if num_outputs is None else num_outputs
        self.num_text = self.num_outputs - num_spans
        self.d_model = config.d_model
        table_VD = torch.empty(vocabulary, config.d_model)
        self.embedding = nn.Embedding.from_pretrained(table_VD, freeze=False)
        self.projection: nn.Module | None = None  # the embedding, laid out by `ready_to_decode`
        self.encoder_layers = nn.ModuleList(
            EncoderLayer(config) for _ in range(config.num_encoder_layers)
        )
        self.encoder_norm = LayerNorm(config.d_model)
        self.decoder_layers = nn.ModuleList(
            DecoderLayer(config) for _ in range(config.num_decoder_layers)
        )
        self.decoder_norm = LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        if not table_VD.is_meta:  # drawing on the meta device imports for a second, to no effect
            self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter is self.embedding.weight:
                nn.init.normal_(parameter, std=self.d_model**-0.5)
            elif parameter.ndim == 2:
                # Keys and values share a matrix but are two projections, each with its own fan-out.
                for block in parameter.chunk(2) if "key_value" in name else [parameter]:
                    nn.init.xavier_uniform_(block)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Hidden state at each target position, x_BTD, from ids padded on the right."""
        # In one lookup, since the gradient of each has the size of the embedding.
        tokens = source_BS.flatten(), target_BT.flatten()
        source, target = self.embedding(torch.cat(tokens)).split([len(ids) for ids in tokens])
        masks = attention_masks(source_BS, target_BT, self.dtype)
        sources = self.encode(source.view(*source_BS.shape, -1), masks.source)
        return self.decode(target.view(*target_BT.shape, -1), sources, masks)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of the next token from hidden states [..., D], by the tied embedding."""
        if self.projection is not None:
            return self.projection(hidden)
        return F.linear(hidden, self.output_VD)

    @property
    def output_VD(self) -> Tensor:
        """The tied embedding of the tokens that can be generated."""
        weight = self.embedding.weight
        return weight if self.num_outputs == len(weight) else weight[: self.num_outputs]

    def encode(self, embedded_BSD: Tensor, mask_B11S: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The source as the decoder sees it: keys and values of each layer."""
        x_BSD = self.embed(embedded_BSD).view(len(mask_B11S), -1, self.d_model)
        for layer in self.encoder_layers:
            x_BSD = layer(x_BSD, mask_B11S)
        memory_BSD = self.encoder_norm(x_BSD)
        attentions = [cast(Attention, layer.cross_attention) for layer in self.decoder_layers]
        key_values = [attention.key_value for attention in attentions]
        parts = joint_linear(memory_BSD, key_values, width=self.d_model)
        heads = [attentions[0].split_heads(part_BSD) for part_BSD in parts]
        return list(zip(heads[::2], heads[1::2], strict=True))

    def decode(
        self, embedded_BTD: Tensor, sources: Sequence[tuple[Tensor, Tensor]], masks: Masks
    ) -> Tensor:
        """Hidden states x_BTD at all positions of the targets. `sources`: as `encode` returns."""
        x_BTD = self.embed(embedded_BTD).view(len(masks.cross), -1, self.d_model)
        for layer, keys_values in zip(self.decoder_layers, sources, strict=True):
            x_BTD = layer(x_BTD, keys_values, masks)
        return self.decoder_norm(x_BTD).view_as(embedded_BTD)

    def embed(self, x_BTD: Tensor, first_position: int = 0) -> Tensor:
        """Embeddings of tokens with the encodings of their positions."""
        positions_TD = kept_sinusoids(first_position, x_BTD.shape[1], self.d_model, x_BTD.device)
        # The embedding's gradient sums over many tokens, so it is looked up in fp32 and cast after.
        x_BTD = torch.add(positions_TD, x_BTD, alpha=math.sqrt(self.d_model))
        return self.dropout(x_BTD.to(self.dtype))


def sinusoids(first: int, count: int, d_model: int, device: torch.device) -> Tensor:
    """Encodings of `count` positions from `first`, [count, d_model]: all sines, then all cosines.

    Source: Vaswani et al. 2017, section 3.5, with the channels in the order of Pegasus and Marian.
    """
    positions_T1 = torch.arange(first, first + count, device=device, dtype=torch.float32)[:, None]
    channels = torch.arange(0, d_model, 2, device=device, dtype=torch.float32)
    angles = positions_T1 * torch.exp(channels * (-math.log(10000.0) / d_model))
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


# Made outside of inference mode, since training uses what validation has computed.
kept_sinusoids = functools.lru_cache(maxsize=128)(torch.inference_mode(False)(sinusoids))
