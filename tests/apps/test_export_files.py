"""`export --format pt`, the publication of any export, and its sentences."""

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers import processes
from tests.helpers.commands import translate_ddp
from tests.helpers.exports import NO_RUN, flipped, trained_model, validation_set, with_sentencepiece
from tests.helpers.runs import assert_same_tree, last_state, steps
from translate_ddp.apps.commands import export as command
from translate_ddp.apps.commands.export import ExportConfig, export
from translate_ddp.apps.commands.model_commands import SavedModel
from translate_ddp.apps.exporting.trained_model import (
    NotTheSame,
    TrainedModel,
    Verification,
    choose_sentences,
)
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import publish_output
from translate_ddp.settings import ModelConfig
from translate_ddp.training.identity import public_name
from translate_ddp.translator import Translator

LINES = ["sun moon river", "tree", "stone bird fish wolf tree"]


@pytest.fixture
def exported(trained: Path, tmp_path: Path) -> Path:
    file = tmp_path / "exported" / "model.pt"
    file.parent.mkdir()
    command.run(ExportConfig("pt", str(file), saved=SavedModel(str(trained))))
    return file


def test_exported_file_has_the_weights_and_no_trace_of_the_run(exported: Path, trained: Path):
    before, after = last_state(trained), torch.load(exported, weights_only=True)
    assert_same_tree(before["model"], after["model"])
    assert before["facts"] == after["facts"]
    assert after["optimizer"] == after["meters"] == {} and after["run"]["history"] == []
    content = exported.read_bytes()
    corpus = Path(before["run"]["config"]["corpus"]["dataset"][0])
    assert corpus.is_absolute() and trained.is_absolute()
    for path in (trained, trained.parent, corpus, corpus.parent, exported.parent, Path.cwd()):
        assert str(path).encode() not in content, path
    assert len(content) < 0.5 * max(path.stat().st_size for path in trained.glob("*.pt"))


def test_every_command_opens_the_exported_file(exported: Path, trained: Path, tmp_path: Path):
    expected = "".join(f"{line}\n" for line in Translator.open(str(trained)).translate(LINES))
    flags = ["--preload", str(exported)]
    assert translate_ddp(tmp_path, "translate", *LINES, *flags) == (0, expected)
    files = []
    for name in ("a", "b"):
        files.append(tmp_path / name)
        files[-1].write_text("sun moon\ntree\n")
    pairs = ["--source", str(files[0]), "--reference", str(files[1])]
    code, output = translate_ddp(tmp_path, "validate", *flags, *pairs)
    assert code == 0 and "2 sentences: loss" in output, output
    again = tmp_path / "again.pt"
    words = ["--format", "pt", "--output", str(again), *flags]
    code, output = translate_ddp(tmp_path, "export", *words)
    assert code == 0, output
    assert_same_tree(torch.load(again), torch.load(exported))
    code, output = translate_ddp(tmp_path, "info", str(exported))
    assert code == 0 and "resumes  no" in output
    code, output = translate_ddp(tmp_path, "translate", "sun", *flags, "--average", "2")
    assert code == 2 and "is an average or an exported file" in output


def test_exported_file_starts_a_new_run_but_resumes_none(
    exported: Path, tiny_run: list[str], tmp_path: Path
):
    flags = [*tiny_run, "--max_steps", "3"]
    job = processes.train([*flags, "--preload", str(exported)], tmp_path / "resumed", size=1)
    assert "an exported file, which has no optimizer state" in job.fail()
    processes.train([*flags, "--init_from", str(exported)], tmp_path / "new", size=1).succeed()
    assert steps(tmp_path / "model")[-1] == 3


def test_models_have_only_options_that_all_formats_express():
    sizes = {"d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "d_ff"}
    assert {each.name for each in fields(ModelConfig)} == {*sizes, "dropout"}


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("demo", "demo"),
        ("Helsinki-NLP/opus_books", "Helsinki-NLP/opus_books"),
        ("/home/anna/data/train", "train"),
        ("~/data/train.tsv", "train.tsv"),
        ("../train", "train"),
        (".", "."),
        ("tests/train", "train"),  # a folder of that name exists here
        ("a/b/train", "train"),
        *((name, name) for name in ("", "500", "0.5%", "opus_books:validation")),
    ],
)
def test_public_name_of_a_dataset_has_no_folder(dataset: str, name: str):
    assert public_name(dataset) == name


@pytest.mark.parametrize("form", ["ctranslate2", "huggingface", "argos"])
def test_export_that_is_not_the_same_leaves_nothing(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Any
):
    for library in ("ctranslate2", "transformers", "sentencepiece"):
        pytest.importorskip(library)
    model = trained_model(trained)
    model = with_sentencepiece(model) if form == "argos" else model
    other = flipped(model, "decoder_layers.0.feed_forward.up.weight")
    engine = other.engine()
    monkeypatch.setattr(TrainedModel, "engine", lambda self: engine)
    sentences = choose_sentences(model, "", "", NO_RUN)
    with pytest.raises(NotTheSame, match="Nothing was written"):
        export(model, form, tmp_path / "x", sentences)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_existing_output_is_not_touched(tmp_path: Path, make: Callable[[Path], None]):
    make(tmp_path / "output")
    with pytest.raises(UserError, match="output exists already: delete it, or pass another"):
        publish_output(tmp_path / "output", lambda path: pytest.fail("nothing may be computed"))
    assert [path.name for path in tmp_path.iterdir()] == ["output"]


def test_output_that_appears_during_the_export_is_kept(tmp_path: Path):
    output = tmp_path / "output"

    def write(path: Path) -> Verification:
        path.mkdir()
        output.write_text("of another process")
        return Verification([])

    with pytest.raises(UserError, match="exists already"):
        publish_output(output, write)
    assert output.read_text() == "of another process" and len(list(tmp_path.iterdir())) == 1


def test_all_files_of_an_output_are_synced_before_it_has_its_name(
    tmp_path: Path, disk_calls: list[str]
):
    def write(path: Path) -> None:
        (path / "inner").mkdir(parents=True)
        (path / "inner" / "model.bin").write_bytes(b"weights")

    publish_output(tmp_path / "output", write)
    assert disk_calls[-1].endswith("-> output") and {*disk_calls} > {"inner", "model.bin"}
    assert (tmp_path / "output" / "inner" / "model.bin").read_bytes() == b"weights"


def test_missing_folder_and_full_disk_are_one_error(tmp_path: Path):
    def write(path: Path) -> Verification:
        path.mkdir()
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="There is no folder"):
        publish_output(tmp_path / "no" / "output", write)
    with pytest.raises(UserError, match="output cannot be written: No space left on device"):
        publish_output(tmp_path / "output", write)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "pt", "--output", "x"], "that ends in .pt"),
        (["--format", "pt", "--output", "x_step_00000008-0123abcd.pt"], "like the checksum"),
        (["--format", "pt", "--output", "x.pt", "--quantization", "int8"], "not for pt"),
        (["--format", "pt", "--output", "x.pt", "--reference", "y"], "needs --source"),
    ],
)
def test_unusable_flags_are_reported(tmp_path: Path, words: list[str], message: str):
    code, output = translate_ddp(tmp_path, "export", *words)
    assert code == 2 and message in " ".join(output.replace("│", " ").split()), output


def test_sentences_are_those_of_the_run_or_of_files_or_random(trained: Path, tmp_path: Path):
    model = trained_model(trained)
    prepared = choose_sentences(model, "", "", trained)
    assert len(prepared.sources) == len(prepared.references) > 0
    ids = model.facts.tokenizer.encode(prepared.source_texts)
    assert ids == [list(each) for each in prepared.sources]
    (tmp_path / "a").write_text("sun  moon\ntree\n")
    chosen = choose_sentences(model, str(tmp_path / "a"), "", trained)
    assert chosen.source_texts == ["sun moon", "tree"] and chosen.references == []
    identity, found = model.state.run.identity, prepared
    for name in ("training data", "validation data"):  # of another run, on the same other data
        other = replace(identity, always=identity.always | {name: "0123456789ab"})
        unknown = replace(
            model, state=replace(model.state, run=replace(model.state.run, identity=other))
        )
        found = choose_sentences(unknown, "", "", trained)
        assert len(found.sources) == len(found.targets) == 200 and found.references == []
    assert {i for ids in found.sources for i in ids} > set(range(4, 200))
    assert min(i for ids in found.sources for i in ids) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["a"]  # nothing was prepared
    (tmp_path / "a").write_text("sun\n" + "moon " * 2000 + "\n")
    with pytest.raises(UserError, match="a has a sentence of 2,000 tokens, which is too long"):
        choose_sentences(model, str(tmp_path / "a"), "", trained)


@pytest.mark.parametrize(
    ("form", "library"), [("ctranslate2", "ctranslate2"), ("huggingface", "safetensors")]
)
def test_library_that_is_not_installed_is_one_error(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Any, library: str
):
    for name in [name for name in sys.modules if name.partition(".")[0] == library] or [library]:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(UserError, match=f"{library} is not installed: run pip install -r require"):
        export(trained_model(trained), form, tmp_path / "x", validation_set(trained))
    assert list(tmp_path.iterdir()) == []
