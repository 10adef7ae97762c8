"""Our weights and settings as those of Pegasus in `transformers`, which has our architecture.

Pegasus is pre-norm, with ReLU if configured, tied embeddings times sqrt(d_model), and sinusoids
with all sines before all cosines. Besides the names, only our joint matrix of keys and values, and
their lack of a bias, differ. This file does not import `transformers`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from translate_ddp.data.tokenizer import EOS, PAD, SOS
from translate_ddp.modeling.transformer import sinusoids
from translate_ddp.settings import ModelConfig

NAMES = {  # our part of a name -> theirs; norms first: their names contain other keys
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward_norm": "final_layer_norm",
    "encoder_norm": "model.encoder.layer_norm",
    "decoder_norm": "model.decoder.layer_norm",
    "encoder_layers": "model.encoder.layers",
    "decoder_layers": "model.decoder.layers",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "feed_forward.up": "fc1",
    "feed_forward.down": "fc2",
    "query": "q_proj",
    "out": "out_proj",
}
EMBEDDING = "model.shared.weight"  # of both sides and of the output
TIED = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)


def pegasus_config(shape: ModelConfig, vocabulary: int, positions: int) -> dict[str, Any]:
    """The settings of a `PegasusConfig`, with room for `positions` tokens a side."""
    return {
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        "d_model": shape.d_model,
        "encoder_layers": shape.num_encoder_layers,
        "decoder_layers": shape.num_decoder_layers,
        "encoder_attention_heads": shape.num_heads,
        "decoder_attention_heads": shape.num_heads,
        "encoder_ffn_dim": shape.d_ff,
        "decoder_ffn_dim": shape.d_ff,
        "dropout": shape.dropout,
        "attention_dropout": shape.dropout,
        "activation_dropout": shape.dropout,
        "activation_function": "relu",
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": SOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": SOS,
        "forced_eos_token_id": None,
    }


def pegasus_weights(state: Mapping[str, Tensor], positions: int) -> dict[str, Tensor]:
    """The tensors of a Pegasus by its names; of tied ones the first, EMBEDDING."""
    weights = dict(_renamed(state))
    # Stored, since theirs are computed in another precision.
    table_MD = sinusoids(0, positions, weights[EMBEDDING].shape[1], torch.device("cpu"))
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_positions.weight"] = table_MD.clone()
    return weights | {"final_logits_bias": torch.zeros(1, len(weights[EMBEDDING]))}


def _renamed(state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in state.items():
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        if name == "embedding.weight":
            yield EMBEDDING, tensor
        elif "key_value" in name:
            keys, values = tensor.chunk(2)
            for theirs, matrix in (("k_proj", keys), ("v_proj", values)):
                yield name.replace("key_value", theirs), matrix.contiguous()
                bias = name.replace("key_value.weight", f"{theirs}.bias")
                yield bias, matrix.new_zeros(len(matrix))  # ours has none
        else:
            yield name, tensor
