"""Writes the model of CTranslate2 (`model.bin` and its vocabulary), straight from our weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from translate_ddp.data.tokenizer import EOS, SOS, UNK
from translate_ddp.extras import import_extra
from translate_ddp.modeling.transformer import sinusoids
from translate_ddp.settings import ModelConfig

Quantization = Literal["float32", "int8", "float16"]
LAYER_NORM_EPSILON = 1e-5  # of `nn.LayerNorm`


def write_model(
    folder: Path,
    state: Mapping[str, Tensor],
    shape: ModelConfig,
    vocabulary: Sequence[str],
    positions: int,
    quantization: Quantization = "float32",
) -> None:
    """Write model.bin, config.json and shared_vocabulary.json into the folder, which must exist.

    `vocabulary` has the name of each token id, all of them different. The model has room for
    `positions` tokens a side, end marker included. It appends the end marker to its sources.
    """
    specification = import_extra("ctranslate2.specs").TransformerSpec
    layers = shape.num_encoder_layers, shape.num_decoder_layers
    # Any: attributes of a specification get their values here.
    spec: Any = specification.from_config(layers, shape.num_heads, pre_norm=True)
    # Copies: the library quantizes in place.
    weights = {name: tensor.float().cpu().numpy().copy() for name, tensor in state.items()}
    table_MD = sinusoids(0, positions, shape.d_model, torch.device("cpu")).numpy()
    embedding_VD = weights["embedding.weight"]
    (spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight) = [embedding_VD] * 2
    spec.decoder.projection.weight = embedding_VD
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        side.scale_embeddings = True
        side.position_encodings.encodings = table_MD
        _set_norm(side.layer_norm, weights, f"{name}_norm")
        for number, layer in enumerate(side.layer):
            _set_layer(layer, weights, f"{name}_layers.{number}")
    spec.register_source_vocabulary(list(vocabulary))
    spec.register_target_vocabulary(list(vocabulary))
    spec.config.unk_token, spec.config.bos_token = vocabulary[UNK], vocabulary[SOS]
    spec.config.eos_token, spec.config.decoder_start_token = vocabulary[EOS], vocabulary[SOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = LAYER_NORM_EPSILON
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def _set_layer(spec: Any, weights: Mapping[str, np.ndarray], name: str) -> None:
    attention = f"{name}.self_attention"
    joint, out = spec.self_attention.linear
    key_value, query = (
        weights[f"{attention}.key_value.weight"],
        weights[f"{attention}.query.weight"],
    )
    joint.weight = np.concatenate([query, key_value])
    no_bias = np.zeros(len(key_value), dtype=np.float32)
    joint.bias = np.concatenate([weights[f"{attention}.query.bias"], no_bias])
    _set_linear(out, weights, f"{attention}.out")
    _set_norm(spec.self_attention.layer_norm, weights, f"{name}.self_attention_norm")
    if hasattr(spec, "attention"):  # a decoder
        for linear, part in zip(spec.attention.linear, ("query", "key_value", "out"), strict=True):
            _set_linear(linear, weights, f"{name}.cross_attention.{part}")
        _set_norm(spec.attention.layer_norm, weights, f"{name}.cross_attention_norm")
    _set_linear(spec.ffn.linear_0, weights, f"{name}.feed_forward.up")
    _set_linear(spec.ffn.linear_1, weights, f"{name}.feed_forward.down")
    _set_norm(spec.ffn.layer_norm, weights, f"{name}.feed_forward_norm")


def _set_linear(spec: Any, weights: Mapping[str, np.ndarray], name: str) -> None:
    spec.weight = weights[f"{name}.weight"]
    if f"{name}.bias" in weights:  # keys and values have none
        spec.bias = weights[f"{name}.bias"]


def _set_norm(spec: Any, weights: Mapping[str, np.ndarray], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def rounded_to_int8(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that an int8 model has: matrices in 127 steps of the row's largest value.

    Biases and norms stay fp32.
    """
    return {
        name: _round_rows(tensor.float().cpu()) if tensor.ndim == 2 else tensor
        for name, tensor in state.items()
    }


def _round_rows(weight_OI: Tensor) -> Tensor:
    largest_O1 = weight_OI.abs().amax(dim=1, keepdim=True)
    # A division of tensors: torch computes 127 / x as 127 * (1 / x), which rounds otherwise.
    steps_O1 = torch.full_like(largest_O1, 127)
    scale_O1 = steps_O1 / largest_O1.masked_fill(largest_O1 == 0, 127)
    return (weight_OI * scale_O1).round() / scale_O1
