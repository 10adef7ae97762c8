"""A Pegasus of `transformers` with our weights, which computes the same."""

from typing import Any

from benchmarks.decoders.task import Trained
from benchmarks.trainers.pegasus import build_pegasus
from translate_ddp.apps.exporting.huggingface_export import EMBEDDING, TIED, pegasus_weights
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig


def to_pegasus(trained: Trained, positions: int) -> Any:
    """A Pegasus with the trained weights and room for `positions` tokens."""
    pegasus = convert(trained.model, trained.shape, len(trained.tokenizer), positions)
    return pegasus.to(trained.device).eval()


def convert(trained: Transformer, shape: ModelConfig, vocabulary: int, positions: int) -> Any:
    """A Pegasus on the CPU with the weights of `trained`, whose shape is `shape`."""
    # Any: the type annotations of transformers do not fit its methods.
    model: Any = build_pegasus(shape, vocabulary, positions)
    own = pegasus_weights(trained.state_dict(), positions)
    model.load_state_dict(own | dict.fromkeys(TIED, own[EMBEDDING]))
    return model
