"""Exported packages, read as argostranslate 1.11 reads them (`package.py`, `translate.py`)."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.exports import NO_RUN, flipped, trained_model, with_sentencepiece
from translate_ddp.apps.exporting import argos
from translate_ddp.apps.exporting.ctranslate2_folder import write_files
from translate_ddp.apps.exporting.export import export
from translate_ddp.apps.exporting.sentences import choose_sentences
from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.apps.exporting.verification import NotTheSame
from translate_ddp.data.tokenizer import SentencePieceModel
from translate_ddp.errors import UserError
from translate_ddp.settings import NBestConfig

ctranslate2: Any = pytest.importorskip("ctranslate2")
sentencepiece: Any = pytest.importorskip("sentencepiece")

TEXTS = ["sun moon", "stone bird tree. fish?"]


@pytest.fixture
def model(trained: Path) -> TrainedModel:
    return with_sentencepiece(trained_model(trained))


@pytest.fixture
def package(model: TrainedModel, tmp_path: Path) -> Path:
    file = tmp_path / "en_it.argosmodel"
    export(model, "argos", file, choose_sentences(model, "", "", NO_RUN))
    return file


def installed(package: Path, folder: Path) -> Path:
    """The only folder in the package, which an installation extracts."""
    assert zipfile.is_zipfile(package)
    with zipfile.ZipFile(package) as archive:
        assert archive.testzip() is None
        archive.extractall(folder)
    (root,) = folder.iterdir()
    return root


def test_package_is_one_folder_with_the_expected_files(package: Path, tmp_path: Path):
    root = installed(package, tmp_path / "packages")
    assert root.name == "translate-en_it-1_0"
    assert {path.name for path in root.iterdir()} == {
        *("model", "sentencepiece.model", "metadata.json", "README.md")
    }
    assert json.loads((root / "metadata.json").read_text()) == {
        **{"package_version": "1.0", "argos_version": "1.9.0"},
        **{"from_code": "en", "from_name": "English", "to_code": "it", "to_name": "Italian"},
    }
    assert (root / "README.md").read_text().startswith("# English to Italian\n")


def test_package_translates_as_the_model(package: Path, model: TrainedModel, tmp_path: Path):
    root = installed(package, tmp_path / "packages")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(root / "sentencepiece.model"))
    library = ctranslate2.Translator(str(root / "model"), intra_threads=1)
    tokens = [pieces.encode(text, out_type=str) for text in TEXTS]
    found = library.translate_batch(
        tokens,
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=1,
        length_penalty=0.2,
        return_scores=True,
        max_decoding_length=20,
    )
    ours = model.engine().translate(model.tokenizer.encode(TEXTS), NBestConfig(1))
    for result, (best,) in zip(found, ours, strict=True):
        expected = [model.tokenizer.names[i] for i in best.ids[:20]]
        assert [name for name in result.hypotheses[0]] == expected
        (text,) = model.tokenizer.decode([best.ids[:20]])
        assert pieces.decode_pieces(result.hypotheses[0]) == text


def test_sentences_are_joined_with_a_blank(model: TrainedModel):
    # The tokens of all sentences of a paragraph are decoded together.
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.tokenizer.file)
    tokens = [pieces.encode(text, out_type=str) for text in ("sun moon.", "tree")]
    assert pieces.decode_pieces(sum(tokens, [])) == "sun moon. tree"


def test_model_that_adds_no_blank_gets_a_note(
    model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(SentencePieceModel, "adds_space", False)
    sentences = choose_sentences(model, "", "", NO_RUN)
    (note,) = export(model, "argos", tmp_path / "x.argosmodel", sentences).notes
    assert "joins sentences without a blank" in note


def test_long_text_does_not_exceed_the_positions(package: Path, tmp_path: Path):
    # Without a limit by the caller, the library truncates sources to 1,024 tokens.
    root = installed(package, tmp_path / "packages")
    library = ctranslate2.Translator(str(root / "model"), intra_threads=1)
    (result,) = library.translate_batch([["\u2581"] * 3000], beam_size=1)
    assert len(result.hypotheses[0]) <= 256


def test_other_tokenizers_are_refused(trained: Path, tmp_path: Path):
    model = trained_model(trained)
    with pytest.raises(UserError, match="train with --tokenizer sentencepiece"):
        export(model, "argos", tmp_path / "x.argosmodel", choose_sentences(model, "", "", NO_RUN))
    assert list(tmp_path.iterdir()) == []


def test_package_with_a_flipped_weight_is_rejected_and_nothing_is_left(
    model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def write_another(folder: Path, model: TrainedModel, quantization: Any) -> None:
        write_files(folder, flipped(model, "decoder_layers.0.feed_forward.up.weight"), quantization)

    monkeypatch.setattr(argos, "write_files", write_another)
    with pytest.raises(NotTheSame, match="Nothing was written"):
        export(model, "argos", tmp_path / "x.argosmodel", choose_sentences(model, "", "", NO_RUN))
    assert list(tmp_path.iterdir()) == []
