"""Writes an .argosmodel, the package of Argos Translate that LibreTranslate serves.

A zip archive with one folder: the CTranslate2 model, the SentencePiece model, metadata.json and
README.md. Source: argostranslate 1.11, `package.py` and `translate.py`.
"""

import json
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

from translate_ddp.apps.exporting.ctranslate2 import Quantization
from translate_ddp.apps.exporting.ctranslate2_folder import (
    check_references,
    verify_ctranslate2,
    write_files,
)
from translate_ddp.apps.exporting.model_card import argos_card
from translate_ddp.apps.exporting.sentences import Sentences
from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.apps.exporting.verification import NotTheSame, Verification
from translate_ddp.data.languages import language_name
from translate_ddp.data.tokenizer import SentencePieceModel
from translate_ddp.errors import UserError
from translate_ddp.text import base_language

PACKAGE_VERSION = "1.0"
ARGOS_VERSION = "1.9.0"  # the first that needs no other files beside these


def write_argos(
    file: Path, model: TrainedModel, sentences: Sentences, quantization: Quantization
) -> Verification:
    """Write the package, and verify from the file that its model is the same.

    Raises NotTheSame if it is not, UserError if its tokenizer is not a SentencePiece model.
    """
    if model.tags:
        raise UserError(
            "Argos Translate cannot write the tags that a bidirectional model needs before its "
            "sources: pass --format ctranslate2 or huggingface, or train one direction."
        )
    if not model.tokenizer.is_sentencepiece:
        raise UserError(
            "Argos Translate reads SentencePiece models only, but the tokenizer of this checkpoint "
            "is another: train with --tokenizer sentencepiece."
        )
    check_references(sentences, quantization)
    source, target = model.languages
    root = f"translate-{source}_{target}-{PACKAGE_VERSION.replace('.', '_')}"
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f"{file.name}.") as scratch:
        model_folder = Path(scratch) / root / "model"
        model_folder.mkdir(parents=True)
        write_files(model_folder, model, quantization)
        (model_folder.parent / "sentencepiece.model").write_bytes(model.tokenizer.file)
        _zip(file, Path(scratch), root)
        verification = verify_argos(file, model, sentences, quantization)
        texts = {
            "metadata.json": json.dumps(metadata(model), indent=4, ensure_ascii=False),
            "README.md": argos_card(model, verification),
        }
        with zipfile.ZipFile(file, "a") as package:
            for name, text in texts.items():
                package.writestr(f"{root}/{name}", text)
    if not SentencePieceModel(model.tokenizer.file).adds_space:
        note = "Argos Translate joins sentences without a blank with this SentencePiece model"
        return replace(verification, notes=[*verification.notes, note])
    return verification


def metadata(model: TrainedModel) -> dict[str, str]:
    source, target = model.languages
    # Argos Translate chains packages by codes of two letters.
    codes = (base_language(code) if code.isalpha() else code for code in model.languages)
    return {
        "package_version": PACKAGE_VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": next(codes),
        "from_name": language_name(source),
        "to_code": next(codes),
        "to_name": language_name(target),
    }


def verify_argos(
    file: Path, model: TrainedModel, sentences: Sentences, quantization: Quantization
) -> Verification:
    """Raises NotTheSame if a model in the package differs from the checkpoint's."""
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f"{file.name}.") as scratch:
        with zipfile.ZipFile(file) as package:
            package.extractall(scratch)
        (root,) = Path(scratch).iterdir()
        if (root / "sentencepiece.model").read_bytes() != model.tokenizer.file:
            raise NotTheSame("it has another SentencePiece model")
        return verify_ctranslate2(root / "model", model, sentences, quantization)


def _zip(file: Path, folder: Path, root: str) -> None:
    """Write all files in `folder / root`, by their paths in `folder`."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for path in sorted((folder / root).rglob("*")):
            if path.is_file():
                package.write(path, path.relative_to(folder))
