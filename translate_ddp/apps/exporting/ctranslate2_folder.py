"""Writes a CTranslate2 folder that `Translator.open` opens, and verifies that it is the same."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from translate_ddp.apps.exporting.ctranslate2 import Quantization, rounded_to_int8, write_model
from translate_ddp.apps.exporting.model_card import describe_tags
from translate_ddp.apps.exporting.sentences import Sentences
from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.apps.exporting.verification import (
    Verification,
    verification_of,
    verify_equal,
    verify_quality,
)
from translate_ddp.errors import UserError
from translate_ddp.extras import import_extra
from translate_ddp.modeling.ctranslate2_engine import CTranslate2Engine
from translate_ddp.modeling.exported_folder import Description, describe, tokenizer_file
from translate_ddp.runtime.environment import threads_per_process
from translate_ddp.runtime.launch import Launch


def write_ctranslate2(
    folder: Path, model: TrainedModel, sentences: Sentences, quantization: Quantization
) -> Verification:
    """Fill the folder, which must exist, and verify that it is the same model.

    Raises NotTheSame if it is not, UserError if references are needed and missing.
    """
    check_references(sentences, quantization)
    write_files(folder, model, quantization)
    verification = verify_ctranslate2(folder, model, sentences, quantization)
    if model.tags:
        verification = replace(verification, notes=[*verification.notes, describe_tags(model)])
    position, (lang_src, lang_tgt) = model.state.position, model.languages
    description = Description(
        lang_src=lang_src,
        lang_tgt=lang_tgt,
        seq_len=model.seq_len,
        longest_source=model.longest_source,
        abbreviations=model.state.run.abbreviations,
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
        bidirectional=model.is_bidirectional,
    )
    describe(folder, description)
    (folder / tokenizer_file(model.tokenizer)).write_bytes(model.tokenizer.file)
    return verification


def write_files(folder: Path, model: TrainedModel, quantization: Quantization) -> None:
    """Write the files of CTranslate2 into the folder, which must exist."""
    names = model.tokenizer.names
    write_model(folder, model.state.model, model.shape, names, model.positions, quantization)


def check_references(sentences: Sentences, quantization: Quantization) -> None:
    """Raise UserError if BLEU is part of the verification, and there are no references."""
    if computes(quantization) and quantization != "float32" and not sentences.references:
        raise UserError(
            f"--quantization {quantization} is accepted by its BLEU, which needs references: pass "
            "--source and --reference, or the --model_folder of the run with its prepared data."
        )


def computes(quantization: Quantization) -> bool:
    """Whether this machine computes in that type. Only GPUs compute in float16."""
    library = import_extra("ctranslate2")
    device = "cuda" if library.get_cuda_device_count() else "cpu"
    return quantization in library.get_supported_compute_types(device)


def verify_ctranslate2(
    folder: Path, model: TrainedModel, sentences: Sentences, quantization: Quantization
) -> Verification:
    """Raises NotTheSame if the folder's model differs from the checkpoint.

    An int8 model is compared in fp32 with the checkpoint whose weights are rounded to int8; then
    its BLEU, with int8 arithmetic, with that of the checkpoint.
    """
    decode: Callable[..., list[str]] = model.tokenizer.decode
    language, lines = model.languages[1], list[str]()
    threads = threads_per_process(Launch())
    translations = None
    if quantization != "float16":
        weights = rounded_to_int8(model.state.model) if quantization == "int8" else None
        exported = CTranslate2Engine(folder, model.positions, threads, "float32", "cpu")
        translations, lines = verify_equal(model.engine(weights), exported, sentences)
    if quantization == "int8":
        lines = [f"with weights rounded to int8, {line}" for line in lines]
    if quantization != "float32" and computes(quantization):
        exported = CTranslate2Engine(folder, model.positions, threads)
        translations, more = verify_quality(
            model.engine(), exported, sentences, model.tokenizer, language
        )
        lines += more
    if translations is None:
        return Verification([], notes=["float16 was written, not verified: it needs a GPU"])
    return verification_of(translations, lines, sentences, decode, language)
