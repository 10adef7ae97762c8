"""Exported packages, read as argostranslate 1.11 reads them (`package.py`, `translate.py`)."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.exports import NO_RUN, trained_model, with_sentencepiece
from translate_ddp.apps.commands.export import export
from translate_ddp.apps.exporting.trained_model import TrainedModel, choose_sentences
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
    # Without a limit by the caller, the library truncates sources to 1,024 tokens.
    (result,) = library.translate_batch([["\u2581"] * 3000], beam_size=1)
    assert len(result.hypotheses[0]) <= 256


@pytest.mark.parametrize(
    ("run", "message"),
    [("trained", "train with --tokenizer sentencepiece"), ("both", "cannot write the tags")],
)
def test_model_that_argos_cannot_use_is_refused(
    run: str, message: str, request: pytest.FixtureRequest, tmp_path: Path
):
    model = trained_model(request.getfixturevalue(run))
    with pytest.raises(UserError, match=message):
        export(model, "argos", tmp_path / "x.argosmodel", choose_sentences(model, "", "", NO_RUN))
    assert list(tmp_path.iterdir()) == []


def test_model_that_adds_no_space_gets_a_note(
    model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(SentencePieceModel, "adds_space", False)
    sentences = choose_sentences(model, "", "", NO_RUN)
    (note,) = export(model, "argos", tmp_path / "x.argosmodel", sentences).notes
    assert "joins sentences without a space" in note
