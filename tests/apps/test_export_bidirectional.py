"""Exports of a model that translates in both directions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import translate_ddp
from tests.helpers.exports import trained_model, validation_set
from translate_ddp.apps.commands.export import export
from translate_ddp.data.tokenizer import EOS
from translate_ddp.settings import NBestConfig
from translate_ddp.translator import Translator

ctranslate2: Any = pytest.importorskip("ctranslate2")
transformers: Any = pytest.importorskip("transformers")

SENTENCES = {"it": "sun moon river tree", "en": "MOON SUN FISH"}  # by the language of the target
TAGS = {"it": ">>it<<", "en": ">>en<<"}


def directions(folder: Path) -> dict[str, Translator]:
    translator = Translator.open(str(folder))
    return {"it": translator, "en": translator.reverse()}


def test_ctranslate2_folder_translates_in_both_directions_as_the_checkpoint(
    both: Path, tmp_path: Path
):
    folder = tmp_path / "ct2"
    export(trained_model(both), "ctranslate2", folder, validation_set(both))
    exported, checkpoint = directions(folder), directions(both)
    for target, sentence in SENTENCES.items():
        found = exported[target].translate([sentence], beam_width=1)
        assert found == checkpoint[target].translate([sentence], beam_width=1)
    words = ("translate", "--model_folder", str(folder), "--reverse", "--beam_width", "1")
    code, output = translate_ddp(tmp_path, *words, SENTENCES["en"])
    assert code == 0
    assert output.splitlines()[-1] == exported["en"].translate([SENTENCES["en"]], beam_width=1)[0]
    notes = json.loads((folder / "translate_ddp.json").read_text())["notes"]
    assert any(">>it<< to translate into Italian" in note for note in notes)
    assert "both directions" in translate_ddp(tmp_path, "info", str(folder))[1]
    file = folder / "translate_ddp.json"
    description = json.loads(file.read_text())
    del description["bidirectional"]  # as an earlier version wrote it
    file.write_text(json.dumps(description))
    assert not Translator.open(str(folder)).is_bidirectional


def test_transformers_translate_sentences_with_a_tag_as_the_checkpoint(both: Path, tmp_path: Path):
    folder = tmp_path / "hf"
    export(trained_model(both), "huggingface", folder, validation_set(both))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    for target, translator in directions(both).items():
        sentence = SENTENCES[target]
        inputs = tokenizer([f"{TAGS[target]} {sentence}"], return_tensors="pt")
        (ids,) = translator.encode_sources([sentence])
        assert inputs["input_ids"][0, :-1].tolist() == ids
        output = model.generate(**inputs, num_beams=1, max_new_tokens=20)
        ((expected,),) = translator.engine.translate([ids], NBestConfig(beam_width=1))
        assert output[0, 1:].tolist() == [*expected.ids, EOS][:20]
    card = (folder / "README.md").read_text()
    assert "# English and Italian" in card
    assert 'tokenizer([">>it<< A sentence."]' in card
    tags = ">>it<< to translate into Italian, >>en<< to translate into English"
    assert f"ther programs must write a tag and a space before each sentence: {tags}." in card


def test_checkpoint_file_keeps_both_directions(both: Path, tmp_path: Path):
    file = tmp_path / "model.pt"
    export(trained_model(both), "pt", file, validation_set(both))
    assert Translator.open(str(file)).reverse().lang_tgt == "en"
