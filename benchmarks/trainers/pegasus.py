"""Pegasus, the model of `transformers` that has our architecture."""

from typing import Any

import transformers  # pyright: ignore[reportMissingImports]

from translate_ddp.data.tokenizer import EOS, PAD, SOS
from translate_ddp.settings import ModelConfig


def build_pegasus(
    shape: ModelConfig, vocabulary: int, positions: int, **settings: Any
) -> transformers.PegasusForConditionalGeneration:
    """A Pegasus with random weights and the dropout of `shape`, which ours applies everywhere.

    `settings` are further fields of its configuration.
    """
    config = transformers.PegasusConfig(
        vocab_size=vocabulary,
        max_position_embeddings=positions,
        d_model=shape.d_model,
        encoder_layers=shape.num_encoder_layers,
        decoder_layers=shape.num_decoder_layers,
        encoder_attention_heads=shape.num_heads,
        decoder_attention_heads=shape.num_heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        dropout=shape.dropout,
        attention_dropout=shape.dropout,
        activation_dropout=shape.dropout,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=SOS,
        forced_eos_token_id=None,
        **settings,
    )
    return transformers.PegasusForConditionalGeneration(config)
