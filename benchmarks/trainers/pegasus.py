"""Pegasus, the model of `transformers` that has our architecture."""

from typing import Any

import transformers  # pyright: ignore[reportMissingImports]

from benchmarks.decoders.task import Trained
from translate_ddp.apps.exporting.huggingface_export import (
    EMBEDDING,
    pegasus_config,
    pegasus_weights,
)
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig

TIED = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)


def build_pegasus(
    shape: ModelConfig, vocabulary: int, positions: int, **settings: Any
) -> transformers.PegasusForConditionalGeneration:
    """A Pegasus with random weights and the dropout of `shape`, which ours applies everywhere.

    `settings` are further fields of its configuration.
    """
    config = transformers.PegasusConfig(**pegasus_config(shape, vocabulary, positions), **settings)
    return transformers.PegasusForConditionalGeneration(config)


def to_pegasus(trained: Trained, positions: int) -> Any:
    """A Pegasus with the trained weights and room for `positions` tokens."""
    pegasus = convert(trained.model, trained.shape, trained.vocabulary, positions)
    return pegasus.to(trained.device).eval()


def convert(trained: Transformer, shape: ModelConfig, vocabulary: int, positions: int) -> Any:
    """A Pegasus on the CPU with the weights of `trained`, whose shape is `shape`."""
    # Any: the type annotations of transformers do not fit its methods.
    model: Any = build_pegasus(shape, vocabulary, positions)
    own = pegasus_weights(trained.state_dict(), positions)
    model.load_state_dict(own | dict.fromkeys(TIED, own[EMBEDDING]))
    return model
