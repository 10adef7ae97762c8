"""Converts our weights to a Pegasus of `transformers`, which has the same architecture.

Pegasus is pre-norm, with configurable ReLU, tied embeddings times sqrt(d_model), and sinusoids with
all sines before all cosines. Besides the names, only our joint matrix of keys and values differs.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from benchmarks.decoders.task import Trained
from benchmarks.trainers.pegasus import build_pegasus
from translate_ddp.modeling.transformer import Transformer
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
EMBEDDINGS = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
COMPUTED = ("embed_positions.weight", "final_logits_bias")  # sinusoids, and zeros


def to_pegasus(trained: Trained, positions: int) -> Any:
    """A Pegasus with the trained weights and room for `positions` tokens."""
    pegasus = convert(trained.model, trained.shape, len(trained.tokenizer), positions)
    return pegasus.to(trained.device).eval()


def convert(trained: Transformer, shape: ModelConfig, vocabulary: int, positions: int) -> Any:
    """A Pegasus on the CPU with the weights of `trained`, whose shape is `shape`."""
    # Any: the type annotations of transformers do not fit its methods.
    model: Any = build_pegasus(shape, vocabulary, positions, dropout=0.0)
    own = dict(renamed(trained.state_dict()))
    theirs = model.state_dict()
    assert own.keys() == {name for name in theirs if not name.endswith(COMPUTED)}
    model.load_state_dict(theirs | own)
    return model


def renamed(state: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Our tensors with their names."""
    for name, tensor in state.items():
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        if name == "embedding.weight":
            yield from ((tied, tensor) for tied in EMBEDDINGS)
        elif "key_value" in name:
            keys, values = tensor.chunk(2)
            for theirs, matrix in (("k_proj", keys), ("v_proj", values)):
                yield name.replace("key_value", theirs), matrix
                bias = name.replace("key_value.weight", f"{theirs}.bias")
                yield bias, matrix.new_zeros(len(matrix))  # ours has none
        else:
            yield name, tensor
