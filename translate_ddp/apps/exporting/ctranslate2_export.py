"""Models for CTranslate2: exported, as Argos Translate's packages, and for `--engine ctranslate2`.

`model.bin` and its vocabulary are written straight from our weights. An .argosmodel, which
LibreTranslate serves, is a zip archive with one folder: the CTranslate2 model, the SentencePiece
model, metadata.json and README.md. Source: argostranslate 1.11, `package.py` and `translate.py`.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from translate_ddp import __version__
from translate_ddp.apps.exporting.trained_model import (
    REQUIREMENTS,
    Sentences,
    TrainedModel,
    Verification,
    choose_sentences,
    describe_tags,
    model_card,
    verify_equal,
    verify_quality,
)
from translate_ddp.console import print_line, printable
from translate_ddp.data.languages import language_name
from translate_ddp.data.tokenizer import EOS, SOS, UNK
from translate_ddp.data.tokenizer_models import SentencePieceModel
from translate_ddp.errors import UserError, cleanup, import_optional
from translate_ddp.modeling.ctranslate2_engine import (
    CTranslate2Engine,
    Description,
    default_device,
    describe,
    open_exported,
    tokenizer_file,
)
from translate_ddp.modeling.engine import hash_of
from translate_ddp.modeling.transformer import sinusoids
from translate_ddp.runtime.environment import threads_per_process
from translate_ddp.runtime.files import explain_write_errors, write_atomically
from translate_ddp.runtime.launch import Launch, read_launch
from translate_ddp.runtime.run_folder import read_json
from translate_ddp.settings import ModelConfig
from translate_ddp.text import base_language, direction_tag
from translate_ddp.training.state import RunState

Quantization = Literal["float32", "int8", "float16"]
LAYER_NORM_EPSILON = 1e-5  # the default of `nn.LayerNorm`
PACKAGE_VERSION = "1.0"
ARGOS_VERSION = "1.9.0"  # the first that needs no other files beside these
RECORD = "ctranslate2.json"  # beside checkpoints: what was verified, by weights and versions


def write_ctranslate2(
    folder: Path, model: TrainedModel, sentences: Sentences | None, quantization: Quantization
) -> Verification:
    """Make a folder that `Translator.open` opens, and verify that it is the same model.

    Without sentences, nothing is verified. Raises NotTheSame if it is not the same model.
    """
    folder.mkdir()
    if sentences is None:
        write_files(folder, model, quantization)
        verification = Verification([])
    else:
        verification = write_verified(folder, model, sentences, quantization)
    verification = replace(verification, notes=verification.notes + describe_tags(model))
    position, tokenizer = model.state.position, model.facts.tokenizer
    description = Description(
        facts=model.facts,
        positions=model.positions,
        quantization=quantization,
        model=model.config["model"],
        parameters=model.parameters,
        epoch=position.current_epoch,
        step=position.global_step,
        data=model.data,
        scores=verification.scores,
        bleu_signature=verification.bleu_signature,
        verified=verification.lines,
        notes=verification.notes,
    )
    describe(folder, description)
    (folder / tokenizer_file(tokenizer)).write_bytes(tokenizer.file)
    return verification


def write_argos(
    output: Path, model: TrainedModel, sentences: Sentences, quantization: Quantization
) -> Verification:
    """Write a package for Argos Translate, and verify that its model is the same.

    Of a model for several directions, make a folder with a package for each of them. Raises
    NotTheSame if the model is not the same, UserError if its tokenizer is not a SentencePiece one.
    """
    tokenizer = model.facts.tokenizer
    if not tokenizer.is_sentencepiece:
        raise UserError(
            "Argos Translate reads SentencePiece models only, but the tokenizer of this checkpoint "
            "is another: train with --tokenizer sentencepiece."
        )
    if model.facts.has_several:
        output.mkdir()
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f"{output.name}.") as scratch:
        package = Path(scratch) / "package"
        (package / "model").mkdir(parents=True)
        verification = write_verified(package / "model", model, sentences, quantization)
        (package / "sentencepiece.model").write_bytes(tokenizer.file)
        for direction in model.facts.directions:
            name = "_".join(direction)
            root = f"translate-{name}-{PACKAGE_VERSION.replace('.', '_')}"
            package = package.rename(package.with_name(root))
            if model.facts.tag(direction):  # CTranslate2 uses `bos_token` in sources only
                config = package / "model" / "config.json"
                tag = {"add_source_bos": True, "bos_token": direction_tag(direction.tgt)}
                config.write_text(json.dumps(json.loads(config.read_text()) | tag))
            metadata = json.dumps(argos_metadata(*direction), indent=4, ensure_ascii=False)
            (package / "metadata.json").write_text(metadata, encoding="utf-8")
            card = model_card(model, verification, direction)
            (package / "README.md").write_text(card, encoding="utf-8")
            archive = Path(shutil.make_archive(f"{scratch}/{root}", "zip", scratch, root))
            archive.rename(output / f"{name}.argosmodel" if model.facts.has_several else output)
    if not SentencePieceModel(tokenizer.file).adds_space:
        note = "Argos Translate joins sentences without a space with this SentencePiece model"
        return replace(verification, notes=[*verification.notes, note])
    return verification


def argos_metadata(source: str, target: str) -> dict[str, str]:
    """The content of metadata.json. Argos Translate chains packages by codes of two letters."""
    from_code, to_code = (base_language(c) if c.isalpha() else c for c in (source, target))
    return {
        "package_version": PACKAGE_VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": from_code,
        "from_name": language_name(source),
        "to_code": to_code,
        "to_name": language_name(target),
    }


def open_verified(state: RunState, folder: Path, quantization: Quantization) -> CTranslate2Engine:
    """The model of a checkpoint, converted and verified; `cleanup` deletes its files.

    The same weights are verified once, unless the folder of the checkpoint is not writable. Raises
    NotTheSame if it is not the same model, UserError if this machine does not compute in that type.
    """
    version = import_optional("ctranslate2", REQUIREMENTS).__version__
    if not computes(quantization):
        raise UserError(
            f"CTranslate2 has no {quantization} on this {default_device()}: omit --quantization."
        )
    model, threads = TrainedModel.of(state), threads_per_process(read_launch(os.environ))
    of = [hash_of(state.model.values()), quantization, default_device(), version, __version__]
    key = " ".join(of)
    known = read_json(folder / RECORD).get(key)
    sentences = None if known else choose_sentences(model, "", "", folder)
    with explain_write_errors("The converted model", "Set TMPDIR to a disk with more space."):
        scratch = tempfile.TemporaryDirectory(prefix="translate_ddp-model-")
        path = Path(cleanup.enter_context(scratch), "model")
        verification = write_ctranslate2(path, model, sentences, quantization)
    compared = known or "; ".join(verification.lines)
    if not known:
        with suppress(OSError):  # read again: another program may have written it meanwhile
            record = read_json(folder / RECORD) | {key: compared}
            write_atomically(folder / RECORD, json.dumps(record, indent=1))
    line = f"Verified {'earlier, ' * bool(known)}in CTranslate2: {compared}."
    print_line(printable(line), sys.stderr)
    return open_exported(path, threads)[0]


def computes(quantization: Quantization) -> bool:
    """Whether this machine computes in that type. Only GPUs compute in float16."""
    library = import_optional("ctranslate2", REQUIREMENTS)
    return quantization in library.get_supported_compute_types(default_device())


def write_verified(
    folder: Path, model: TrainedModel, sentences: Sentences, quantization: Quantization
) -> Verification:
    """Write the files of CTranslate2 into the folder, which must exist, and verify them.

    In float32 they must be equal to the checkpoint. Quantized, they are accepted by their quality.
    Raises NotTheSame if they are not.
    """
    threads = threads_per_process(Launch())
    write_files(folder, model, "float32")
    exported = CTranslate2Engine(folder, model.positions, threads, "float32", "cpu")
    translations, lines = verify_equal(model.engine(), exported, sentences)
    if quantization != "float32":
        lines = [f"in float32, {line}" for line in lines]
        write_files(folder, model, quantization)
        if not computes(quantization):
            note = f"{quantization} was written, not verified: it needs a GPU"
            return Verification(lines, notes=[note])
        exported = CTranslate2Engine(folder, model.positions, threads)
        translations, line = verify_quality(model, exported, sentences)
        lines.append(line)
    return Verification.of(lines, translations, sentences, model)


def write_files(folder: Path, model: TrainedModel, quantization: Quantization) -> None:
    """Write the files of CTranslate2 into the folder, which must exist."""
    facts, size = model.facts, model.facts.num_outputs
    names = [*facts.tokenizer.names, *facts.extra.names]
    of = folder, model.state.model, model.shape, names[:size], model.positions
    write_model(*of, quantization, tags=names[size:])


def write_model(
    folder: Path,
    state: Mapping[str, Tensor],
    shape: ModelConfig,
    vocabulary: Sequence[str],
    positions: int,
    quantization: Quantization = "float32",
    tags: Sequence[str] = (),
) -> None:
    """Write model.bin, config.json and the vocabulary into the folder, which must exist.

    `vocabulary` has the name of each token id, all of them different. `tags` follow; only sources
    have them, so that they are never generated. The model has room for `positions` tokens a side,
    end marker included. It appends the end marker to its sources.
    """
    specification = import_optional("ctranslate2.specs", REQUIREMENTS).TransformerSpec
    layers = shape.num_encoder_layers, shape.num_decoder_layers
    # Any: attributes of a specification get their values here.
    spec: Any = specification.from_config(layers, shape.num_heads, pre_norm=True)
    # Copies: the library quantizes in place.
    weights = {name: tensor.float().cpu().numpy().copy() for name, tensor in state.items()}
    table_MD = sinusoids(0, positions, shape.d_model, torch.device("cpu")).numpy()
    embedding_VD = weights["embedding.weight"]
    output_VD = embedding_VD[: len(vocabulary)].copy() if tags else embedding_VD
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = embedding_VD, output_VD
    spec.decoder.projection.weight = output_VD
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        side.scale_embeddings = True
        side.position_encodings.encodings = table_MD
        _set_norm(side.layer_norm, weights, f"{name}_norm")
        for number, layer in enumerate(side.layer):
            _set_layer(layer, weights, f"{name}_layers.{number}")
    spec.register_source_vocabulary([*vocabulary, *tags])
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
    query, key_value = (weights[f"{attention}.{part}.weight"] for part in ("query", "key_value"))
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
