"""Pegasus, the model of `transformers` that has our architecture."""

from typing import Any

import transformers  # pyright: ignore[reportMissingImports]

from translate_ddp.apps.exporting.huggingface_export import pegasus_config
from translate_ddp.settings import ModelConfig


def build_pegasus(
    shape: ModelConfig, vocabulary: int, positions: int, **settings: Any
) -> transformers.PegasusForConditionalGeneration:
    """A Pegasus with random weights and the dropout of `shape`, which ours applies everywhere.

    `settings` are further fields of its configuration.
    """
    config = transformers.PegasusConfig(**pegasus_config(shape, vocabulary, positions), **settings)
    return transformers.PegasusForConditionalGeneration(config)
