"""Exported packages, read as argostranslate 1.11 reads them (`package.py`, `translate.py`)."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import translate_ddp
from tests.helpers.exports import NO_RUN, trained_model, with_sentencepiece
from translate_ddp.apps.commands.export import export
from translate_ddp.apps.exporting.ctranslate2_export import argos_metadata
from translate_ddp.apps.exporting.trained_model import TrainedModel, choose_sentences
from translate_ddp.data.tokenizer import PAD, SOS
from translate_ddp.errors import UserError
from translate_ddp.modeling import search
from translate_ddp.modeling.search_options import NBestConfig

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
    ours = model.engine().translate(model.facts.tokenizer.encode(TEXTS), NBestConfig(1))
    for result, (best,) in zip(found, ours, strict=True):
        expected = [model.facts.tokenizer.names[i] for i in best.ids[:20]]
        assert [name for name in result.hypotheses[0]] == expected
        (text,) = model.facts.tokenizer.decode([best.ids[:20]])
        assert pieces.decode_pieces(result.hypotheses[0]) == text
    # Without a limit by the caller, the library truncates sources to 1,024 tokens.
    (result,) = library.translate_batch([["\u2581"] * 3000], beam_size=1)
    assert len(result.hypotheses[0]) <= 256


def test_each_package_translates_in_argostranslate_into_its_language(
    both: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("DATA", "CONFIG", "CACHE"):  # folders that argostranslate makes
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    argos: Any = pytest.importorskip("argostranslate.translate")
    # Its models, which split sentences, are downloaded.
    monkeypatch.setattr(argos.MiniSBDSentencizer, "split_sentences", lambda self, text: [text])
    monkeypatch.setattr(argos.settings, "beam_size", 1)
    # int8 sums of large weights saturate on CPUs without VNNI.
    monkeypatch.setattr(argos.settings, "compute_type", "float32")
    model = with_sentencepiece(trained_model(both))
    model.state.model["embedding.weight"][[PAD, SOS]] = 0  # no text
    model.state.model["embedding.weight"][-2:] *= 5  # of the tags, which then count for more
    export(model, "argos", tmp_path / "en-it", choose_sentences(model, "", "", NO_RUN))
    monkeypatch.setattr(search, "only_repeats", lambda ids: False)  # unknown to argostranslate
    files = sorted((tmp_path / "en-it").iterdir())
    assert [file.name for file in files] == ["en_it.argosmodel", "it_en.argosmodel"]
    found = list[list[str]]()
    for number, (file, direction) in enumerate(zip(files, model.facts.directions, strict=True)):
        package = argos.Package(installed(file, tmp_path / file.stem))
        assert (package.from_code, package.to_code) == direction
        assert f"\n- Languages: {package.from_name} (" in package.get_readme()
        translation = argos.PackageTranslation(None, None, package)
        found.append([translation.translate(text) for text in TEXTS])
        tag = len(model.facts.tokenizer) + 8 + number
        ids = [[tag, *ids] for ids in model.facts.tokenizer.encode(TEXTS)]
        best = [best.ids for (best,) in model.engine().translate(ids, NBestConfig(1))]
        for theirs, ours in zip(found[-1], model.facts.tokenizer.decode(best), strict=True):
            assert len(ours) > 10 and theirs.strip().startswith(ours.strip())
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("code", "expected"), [("deu", "de"), ("fil", "tl"), ("pcm", "pcm"), ("zh-Hant", "zh-Hant")]
)
def test_packages_have_the_shortest_code_of_a_language(code: str, expected: str):
    assert argos_metadata(code, "en")["from_code"] == argos_metadata("en", code)["to_code"]
    assert argos_metadata(code, "en")["from_code"] == expected


def test_model_that_argos_cannot_use_is_refused(trained: Path, tmp_path: Path):
    model = trained_model(trained)
    with pytest.raises(UserError, match="train with --tokenizer sentencepiece"):
        export(model, "argos", tmp_path / "x.argosmodel", choose_sentences(model, "", "", NO_RUN))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("run", "output", "message"),
    [("trained", "x.zip", "ends in .argosmodel"), ("both", "x.argosmodel", "pass a folder")],
)
def test_output_of_another_kind_is_refused(
    run: str, output: str, message: str, request: pytest.FixtureRequest, tmp_path: Path
):
    flags = ["--model_folder", str(request.getfixturevalue(run)), "--format", "argos"]
    code, text = translate_ddp(tmp_path / "o", "export", *flags, "--output", output)
    assert code == 2 and message in text, text
