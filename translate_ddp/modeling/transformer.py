"""The encoder-decoder Transformer: token ids in, hidden states or next-token scores out.

It knows nothing of training. Pre-norm, ReLU, sinusoidal positions, one embedding shared by both
sides and the output: the shape that Pegasus in `transformers` and CTranslate2 can load.

    B sentences   S source tokens   T target tokens   D model width   H heads   K width of a head
    F feed-forward width   V vocabulary   W beam width   N decoder rows   R real target tokens
    M positions attended to (S or T); 1 marks a broadcast axis
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.settings import ModelConfig

GPU_TILE = 64  # columns of a product that tensor cores compute at full speed
MASK_ALIGNMENT = 8  # elements; memory-efficient attention would copy a mask that has another


class Linear(nn.Linear):
    """A linear layer in the precision of its input, whatever that of its weights."""

    cast: tuple[Tensor, Tensor] | None = None  # see `cast_together`

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, *weights_like(self, input))


class LayerNorm(nn.LayerNorm):
    """A norm in the precision of its input, as `Linear` is."""

    cast: tuple[Tensor, Tensor] | None = None

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = weights_like(self, input)
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


def cast_together(modules: Sequence[Linear | LayerNorm], dtype: torch.dtype) -> None:
    """Cast the weights of these modules for their next call, in one operation.

    To cast each alone takes a GPU four kernels a module and pass, most of them shorter than their
    launch. Groups are layers, so that gradients are ready layer by layer and can travel between
    machines while backward goes on.
    """
    weights = [weight for module in modules for weight in (module.weight, module.bias)]
    casts = iter(CastTogether.apply(dtype, *weights))
    for module in modules:
        module.cast = next(casts), next(casts)


def weights_like(module: Linear | LayerNorm, input: Tensor) -> tuple[Tensor, Tensor]:
    """Weight and bias in the type of `input`. What `cast_together` left is used once only: the next
    pass must see the weights as they are then.
    """
    if (cast := module.cast) is not None:
        module.cast = None
        return cast
    return module.weight.to(input.dtype), module.bias.to(input.dtype)


class CastTogether(torch.autograd.Function):
    """`tensor.to(dtype)` of many tensors in one operation, and of their gradients in another."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = tensors[0].dtype
        return cast_all(tensors, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *cast_all(grads, ctx.dtype)


def cast_all(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    casts = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    torch._foreach_copy_(casts, tuple(tensors))
    return casts


class Embedding(nn.Embedding):
    """A vector for each token; read the other way, scores of the tokens for a vector."""

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.weight)


def pad_vocabulary(weights_VD: Tensor) -> Tensor:
    """The embedding with zero rows added, weights_PD, so that a GPU's tiles fit the scores.

    Only products meet the added rows: they are never drawn, learnt, predicted or stored. A CPU
    needs none.
    """
    missing = -len(weights_VD) % GPU_TILE if weights_VD.device.type != "cpu" else 0
    return F.pad(weights_VD, (0, 0, 0, missing)) if missing else weights_VD


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), keys and values made apart.

    Keeping `keys_values` a step of its own lets a decoder make them once and keep them.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model)
        self.key_value = Linear(d_model, 2 * d_model)
        self.out = Linear(d_model, d_model)

    def keys_values(self, memory_BMD: Tensor) -> tuple[Tensor, Tensor]:
        k_BMD, v_BMD = self.key_value(memory_BMD).chunk(2, dim=-1)
        return self._split_heads(k_BMD), self._split_heads(v_BMD)

    def forward(
        self,
        x_BTD: Tensor,
        k_BHMK: Tensor,
        v_BHMK: Tensor,
        mask_B11M: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        q_BHTK = self._split_heads(self.query(x_BTD))
        is_slow = q_BHTK.device.type == "cpu" and q_BHTK.dtype == torch.bfloat16
        attend = plain_attention if is_slow else F.scaled_dot_product_attention
        context_BHTK = attend(q_BHTK, k_BHMK, v_BHMK, attn_mask=mask_B11M, is_causal=is_causal)
        return self.out(context_BHTK.transpose(1, 2).flatten(2))

    def _split_heads(self, x_BMD: Tensor) -> Tensor:
        return x_BMD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


def plain_attention(
    q_BHTK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention` written out (Vaswani et al. 2017, eq. 1).

    Torch's own kernel takes several times as long in bf16 on a CPU, forward and backward, at the
    lengths of sentences. The products with a single query, as in a search, are sums: oneDNN would
    compile a kernel for each number of rows and positions.
    """
    is_single = q_BHTK.shape[2] == 1
    q_BHTK = q_BHTK * q_BHTK.shape[-1] ** -0.5
    if is_single:
        scores_BHTM = (q_BHTK * k_BHMK).sum(dim=-1)[:, :, None]
    else:
        scores_BHTM = q_BHTK @ k_BHMK.transpose(-1, -2)
    if attn_mask is not None:
        scores_BHTM = scores_BHTM + attn_mask
    if is_causal:
        later_TM = torch.ones_like(scores_BHTM[0, 0], dtype=torch.bool).triu(1)
        scores_BHTM = scores_BHTM.masked_fill(later_TM, -torch.inf)
    p_BHTM = scores_BHTM.softmax(dim=-1)
    if is_single:
        return (p_BHTM.transpose(-1, -2) * v_BHMK).sum(dim=-2, keepdim=True)
    return p_BHTM @ v_BHMK


def padding_mask(tokens_BM: Tensor, pad_id: int, dtype: torch.dtype) -> Tensor:
    """What attention adds to the scores, mask_B11M: 0 at tokens, -inf at padding.

    Made once a pass, in the type that attention computes in: from a mask of booleans every call
    would make one of its own.
    """
    mask_BM = torch.zeros(tokens_BM.shape, dtype=dtype, device=tokens_BM.device)
    return aligned(mask_BM.masked_fill_(tokens_BM == pad_id, -torch.inf)[:, None, None])


def aligned(mask_B11M: Tensor) -> Tensor:
    """The same mask with its rows where CUDA's memory-efficient attention can read them."""
    if torch.compiler.is_compiling():
        return mask_B11M  # the compiler does it, and would make a graph for lengths that need none
    length = mask_B11M.shape[-1]
    return F.pad(mask_B11M, (0, -length % MASK_ALIGNMENT))[..., :length]


class FeedForward(nn.Module):
    """Position-wise feed-forward layer (Vaswani et al. 2017, eq. 2)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.up = Linear(d_model, d_ff)
        self.down = Linear(d_ff, d_model)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(F.relu(self.up(x_BTD)))


class Dropout(nn.Module):
    """dropout(y), or x + dropout(y), which every sublayer ends in."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, y_BTD: Tensor, onto_BTD: Tensor | None = None) -> Tensor:
        if self.training and self.share:
            # Its draws would break the graph of a compiler, which has its own.
            if y_BTD.device.type == "cpu" and not torch.compiler.is_compiling():
                mask_BTD = dropout_mask(y_BTD, self.share)
                if onto_BTD is not None:
                    return torch.addcmul(onto_BTD, y_BTD, mask_BTD)
                return y_BTD * mask_BTD
            y_BTD = F.dropout(y_BTD, self.share)
        return y_BTD if onto_BTD is None else onto_BTD + y_BTD


def dropout_mask(like: Tensor, share: float) -> Tensor:
    """0 for dropped elements, 1 / (1 - share) for the others, of the shape and type of `like`.

    On a CPU a draw costs more than the sum it is for. Each serves four elements here, with 16 bits
    for each: shares are exact to 1 / 65,536.
    """
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: like.numel()].view(like.shape)
    kept = torch.ge(bits, round(share * 2**16) - 2**15, out=torch.empty_like(like))
    return kept.mul_(1 / (1 - share))


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention_norm = LayerNorm(config.d_model)
        self.self_attention = Attention(config.d_model, config.num_heads)
        self.feed_forward_norm = LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_BSD: Tensor, mask_B11S: Tensor) -> Tensor:
        normed_BSD = self.self_attention_norm(x_BSD)
        keys_values = self.self_attention.keys_values(normed_BSD)
        attended_BSD = self.self_attention(normed_BSD, *keys_values, mask_B11S)
        x_BSD = self.dropout(attended_BSD, onto_BTD=x_BSD)
        return self.dropout(self.feed_forward(self.feed_forward_norm(x_BSD)), onto_BTD=x_BSD)


class TargetCache:
    """Keys and values of the target so far, in memory that has room for more positions."""

    FIRST_ROOM = 16

    def __init__(self) -> None:
        self.room: tuple[Tensor, ...] = ()  # keys and values, each [N, H, positions, K]
        self.length = 0

    def extend(self, *new_NHTK: Tensor) -> tuple[Tensor, ...]:
        """Append positions; return the keys and values of all."""
        length = self.length + new_NHTK[0].shape[2]
        if not self.room or length > self.room[0].shape[2]:
            self._grow(new_NHTK[0], max(2 * self.length, length, self.FIRST_ROOM))
        for room, new in zip(self.room, new_NHTK, strict=True):
            room[:, :, self.length : length] = new
        self.length = length
        return tuple(room[:, :, :length] for room in self.room)

    def _grow(self, like_NHTK: Tensor, positions: int) -> None:
        rows, heads, _, width = like_NHTK.shape
        grown = tuple(like_NHTK.new_empty(rows, heads, positions, width) for _ in range(2))
        for new, old in zip(grown, self.room, strict=False):
            new[:, :, : self.length] = old[:, :, : self.length]
        self.room = grown

    def select(self, rows_N: Tensor) -> None:
        self.room = tuple(room.index_select(0, rows_N) for room in self.room)


@dataclass
class LayerCache:
    """What one decoder layer keeps: keys and values of B sources, and of the N target rows.

    N is a multiple of B: the rows of one sentence stand together and share its source. Without a
    target cache, a pass is over whole sentences, which have no past.
    """

    source: tuple[Tensor, Tensor]
    target: TargetCache | None = None

    def select(self, sentences_B: Tensor, rows_N: Tensor) -> None:
        if len(sentences_B) < len(self.source[0]):
            k_BHSK, v_BHSK = self.source
            self.source = (k_BHSK[sentences_B], v_BHSK[sentences_B])
        if self.target is not None:
            self.target.select(rows_N)


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention_norm = LayerNorm(config.d_model)
        self.self_attention = Attention(config.d_model, config.num_heads)
        self.cross_attention_norm = LayerNorm(config.d_model)
        self.cross_attention = Attention(config.d_model, config.num_heads)
        self.feed_forward_norm = LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_NTD: Tensor, cache: LayerCache, mask_B11S: Tensor) -> Tensor:
        normed_NTD = self.self_attention_norm(x_NTD)
        keys_values = self.self_attention.keys_values(normed_NTD)
        if cache.target is not None:
            keys_values = cache.target.extend(*keys_values)
        # Padding stands on the right, so causality alone keeps it from every real position. With a
        # cache the one new position sees all; not by its length, on which graphs would depend.
        is_causal = cache.target is None
        attended_NTD = self.self_attention(normed_NTD, *keys_values, is_causal=is_causal)
        x_NTD = self.dropout(attended_NTD, onto_BTD=x_NTD)
        # The rows of a sentence are so many queries to one source.
        normed_BTD = self.cross_attention_norm(x_NTD).view(len(mask_B11S), -1, x_NTD.shape[2])
        attended_BTD = self.cross_attention(normed_BTD, *cache.source, mask_B11S)
        attended_NTD = attended_BTD.view_as(x_NTD)
        x_NTD = self.dropout(attended_NTD, onto_BTD=x_NTD)
        return self.dropout(self.feed_forward(self.feed_forward_norm(x_NTD)), onto_BTD=x_NTD)


class Transformer(nn.Module):
    """Encoder-decoder Transformer (Vaswani et al. 2017) with normalisation before each sublayer.

    Its layers compute in `dtype`; its weights are fp32 unless they are cast, too.
    """

    def __init__(
        self,
        config: ModelConfig,
        vocabulary: int,
        pad_id: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.d_model = config.d_model
        self.pad_id = pad_id
        table_VD = torch.empty(vocabulary, config.d_model)
        self.embedding = Embedding.from_pretrained(table_VD, freeze=False)
        self.encoder_layers = nn.ModuleList(
            EncoderLayer(config) for _ in range(config.num_encoder_layers)
        )
        self.encoder_norm = LayerNorm(config.d_model)
        self.decoder_layers = nn.ModuleList(
            DecoderLayer(config) for _ in range(config.num_decoder_layers)
        )
        self.decoder_norm = LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        if not table_VD.is_meta:  # where weights are to come, drawing costs a second of imports
            self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter is self.embedding.weight:
                nn.init.normal_(parameter, std=self.d_model**-0.5)
            elif parameter.ndim == 2:
                # Keys and values share a matrix but are two maps, each with a fan of its own.
                for block in parameter.chunk(2) if "key_value" in name else [parameter]:
                    nn.init.xavier_uniform_(block)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Hidden state at each target position, x_BTD, from ids with right padding."""
        caches, mask_B11S = self.encode(source_BS)
        return self.decode(target_BT, caches, mask_B11S)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores [..., V] of the next token from hidden states [..., D]."""
        return self.embedding.logits(hidden)

    def encode(self, source_BS: Tensor) -> tuple[list[LayerCache], Tensor]:
        """Encode the source: what each decoder layer keeps of it, and its padding mask."""
        mask_B11S = padding_mask(source_BS, self.pad_id, self.dtype)
        x_BSD = self._embed(source_BS, first_position=0)
        for layer in self.encoder_layers:
            self._cast(layer.modules())
            x_BSD = layer(x_BSD, mask_B11S)
        cross = [layer.cross_attention for layer in self._decoder_layers]
        self._cast([self.encoder_norm, *(part.key_value for part in cross)])
        memory_BSD = self.encoder_norm(x_BSD)
        return [LayerCache(part.keys_values(memory_BSD)) for part in cross], mask_B11S

    def decode(
        self,
        target_NT: Tensor,
        caches: list[LayerCache],
        mask_B11S: Tensor,
        first_position: int = 0,
    ) -> Tensor:
        """Hidden states x_NTD of the next T target tokens; `caches` grow by them."""
        x_NTD = self._embed(target_NT, first_position)
        for layer, cache in zip(self._decoder_layers, caches, strict=True):
            # `encode` has cast, and used, what makes the keys and values of the source.
            self._cast(m for m in layer.modules() if m is not layer.cross_attention.key_value)
            x_NTD = layer(x_NTD, cache, mask_B11S)
        return self.decoder_norm(x_NTD)

    def _cast(self, modules: Iterable[nn.Module]) -> None:
        if self.embedding.weight.dtype != self.dtype and not torch.compiler.is_compiling():
            cast_together([m for m in modules if isinstance(m, Linear | LayerNorm)], self.dtype)

    @property
    def _decoder_layers(self) -> list["DecoderLayer"]:
        return cast("list[DecoderLayer]", list(self.decoder_layers))

    def start(self, source_BS: Tensor) -> "DecodingState":
        """Read the source and stand before the first target token; for `decoding`."""
        return DecodingState(self, source_BS)

    def _embed(self, tokens_BT: Tensor, first_position: int) -> Tensor:
        x_BTD = self.embedding(tokens_BT) * math.sqrt(self.d_model)
        positions_TD = sinusoids(first_position, tokens_BT.shape[1], self.d_model, x_BTD.device)
        # Looked up in the weights' precision, for the gradient's sake: a sum over many tokens.
        return self.dropout((x_BTD + positions_TD).to(self.dtype))


class DecodingState:
    """Target rows under way, as many for each sentence: feed a token a row, get the scores."""

    def __init__(self, model: Transformer, source_BS: Tensor) -> None:
        self.model = model
        self.caches, self.mask_B11S = model.encode(source_BS)
        for cache in self.caches:
            # Read at each step from here on: laid out once as the products want it.
            cache.source = (cache.source[0].contiguous(), cache.source[1].contiguous())
            cache.target = TargetCache()
        self.length = 0

    def step(self, tokens_N: Tensor) -> Tensor:
        """Append a token to each row and return logits_NV for the one after it."""
        x_N1D = self.model.decode(
            tokens_N[:, None], self.caches, self.mask_B11S, first_position=self.length
        )
        self.length += 1
        return self.model.logits(x_N1D[:, 0]).float()

    def select(self, sentences_B: Tensor, rows_N: Tensor) -> None:
        """Go on with these sentences, in the order they had, and with these of their rows."""
        self.mask_B11S = aligned(self.mask_B11S.index_select(0, sentences_B))
        for cache in self.caches:
            cache.select(sentences_B, rows_N)


def sinusoids(first: int, count: int, d_model: int, device: torch.device) -> Tensor:
    """Position encodings, [count, d_model]: all sines, then all cosines.

    Source: Vaswani et al. 2017, section 3.5, with the channels in the order of Pegasus and Marian.
    """
    positions_T1 = torch.arange(first, first + count, device=device, dtype=torch.float32)[:, None]
    channels = torch.arange(0, d_model, 2, device=device, dtype=torch.float32)
    angles = positions_T1 * torch.exp(channels * (-math.log(10000.0) / d_model))
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
