"""Exports of a model for several directions."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.helpers.exports import NO_RUN, trained_model, validation_set
from translate_ddp.apps.commands.export import export
from translate_ddp.apps.exporting.trained_model import (
    TrainedModel,
    choose_sentences,
    verify_quality,
)
from translate_ddp.data.tokenizer import EOS, SPAN_TOKENS
from translate_ddp.directions import LanguagePair
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.training.metrics import score_texts
from translate_ddp.translator import Translator

ctranslate2: Any = pytest.importorskip("ctranslate2")
transformers: Any = pytest.importorskip("transformers")

GREEDY = NBestConfig(1)
DIRECTIONS = [LanguagePair("en", "it"), LanguagePair("it", "en")]
TEXTS = ["sun moon river tree", "MOON SUN FISH", "a >>en<< b >>it<< [EOS]"]


@pytest.fixture
def model(both: Path) -> TrainedModel:
    """A model whose hidden states are like the embeddings of its tags.

    Their logits would be the largest.
    """
    model = trained_model(both)
    weights = {name: tensor.clone() for name, tensor in model.state.model.items()}
    weights["embedding.weight"][-2:] *= 3
    weights["decoder_norm.bias"] += 3 * weights["embedding.weight"][-2:].sum(dim=0)
    return TrainedModel.of(replace(model.state, model=weights))


def test_ctranslate2_folder_translates_in_each_direction_as_the_checkpoint(
    model: TrainedModel, both: Path, tmp_path: Path
):
    folder = tmp_path / "ct2"
    export(model, "ctranslate2", folder, validation_set(both))
    export(model, "pt", tmp_path / "model.pt", validation_set(both))
    exported = Translator.open(str(folder))
    checkpoint = Translator.open(str(tmp_path / "model.pt"), precision="fp32")
    assert exported.directions == DIRECTIONS == checkpoint.directions
    for _, target in DIRECTIONS:
        one, other = (each.to(target) for each in (exported, checkpoint))
        ids = other.encode_sources(TEXTS)
        assert one.encode_sources(TEXTS) == ids
        assert one.engine.translate(ids, GREEDY) == other.engine.translate(ids, GREEDY)
    outputs = [*model.facts.tokenizer.names, *SPAN_TOKENS]
    assert json.loads((folder / "target_vocabulary.json").read_text()) == outputs
    (note,) = json.loads((folder / "translate_ddp.json").read_text())["notes"]
    assert note.endswith("before each source: >>it<< for Italian, >>en<< for English")


def test_transformers_translate_with_the_tokenizer_of_each_direction(
    model: TrainedModel, both: Path, tmp_path: Path
):
    folder, translator = tmp_path / "hf", Translator.open(str(both))
    export(model, "huggingface", folder, validation_set(both))
    pegasus = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    for subfolder, target in {"": "it", "en-it": "it", "it-en": "en"}.items():
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, subfolder=subfolder)
        expected = translator.to(target).encode_sources(TEXTS)
        assert tokenizer(TEXTS)["input_ids"] == [[*ids, EOS] for ids in expected]
        assert len(tokenizer) == len(model.facts.tokenizer) + 8 + 2
        ours = model.engine().translate(expected, GREEDY)
        for text, (best,) in zip(TEXTS, ours, strict=True):
            inputs = tokenizer([text], return_tensors="pt")
            found = pegasus.generate(**inputs, num_beams=1, max_new_tokens=20)[0, 1:].tolist()
            assert found == [*best.ids, EOS][:20] or found[: len(best.ids)] == best.ids
            assert max(found) < len(model.facts.tokenizer) + 8
    card = (folder / "README.md").read_text()
    assert '- "en"\n- "it"\n' in card and "# English, Italian\n" in card
    assert "Languages: English (en) to Italian (it), Italian (it) to English (en)" in card
    assert '.from_pretrained("hf", subfolder="en-it")' in card and "source: en-it, it-en." in card
    assert "\n- en-it: BLEU " in card and "\n- it-en: BLEU " in card


def test_references_are_scored_by_direction(both: Path, tmp_path: Path, one_search: None):
    model, sentences = trained_model(both), validation_set(both)
    # All 20 pairs, of which every second is taken.
    assert sentences.sizes == dict.fromkeys(DIRECTIONS, 5)
    translator = Translator.open(str(both), precision="fp32")
    verification = export(model, "ctranslate2", tmp_path / "ct2", sentences)
    chrf = list[float]()
    for number, direction in enumerate(DIRECTIONS):
        rows = slice(5 * number, 5 * number + 5)
        texts, references = sentences.source_texts[rows], sentences.references[rows]
        assert [text.isupper() for text in texts] == [direction.src == "it"] * 5
        own = translator.to(direction.tgt)
        assert [list(ids) for ids in sentences.sources[rows]] == own.encode_sources(texts)
        found = own.translate(texts, beam_width=1, split="none")
        chrf.append(score_texts(texts, found, references, direction.tgt)["chrf"])
        assert verification.scores[f"{direction}/chrf"] == pytest.approx(chrf[-1])
    assert verification.scores["chrf"] == pytest.approx(fmean(chrf)) and chrf[0] != chrf[1]
    _, line = verify_quality(model, model.engine(), sentences)
    assert "of the validation set (mean of 2 directions, smallest p = " in line


def test_sources_of_each_direction_begin_with_its_tag(both: Path, tmp_path: Path):
    model = trained_model(both)
    size = len(model.facts.tokenizer) + 8  # with span tokens
    random = choose_sentences(model, "", "", NO_RUN)
    assert [ids[0] for ids in random.sources[:3]] == [size, size + 1, size]
    rest = [i for ids in (*(ids[1:] for ids in random.sources), *random.targets) for i in ids]
    assert 4 <= min(rest) and max(rest) < size
    for code, text in (("en", "sun\nmoon\n"), ("it", "SOL\nLUN\n")):
        (tmp_path / f"dev.{code}").write_text(text)
    source, reference = str(tmp_path / "dev.{src}"), str(tmp_path / "dev.{tgt}")
    found = choose_sentences(model, source, reference, NO_RUN)
    pairs = dict(zip(found.source_texts, found.references, strict=True))
    assert pairs == {"SOL": "sun", "sun": "SOL"}
    tags = {text: ids[0] for text, ids in zip(found.source_texts, found.sources, strict=True)}
    assert tags == {"sun": size, "SOL": size + 1}
    named_by_target = str(tmp_path / "dev.e{tgt}")  # one of en, no file of it
    shutil.copy(tmp_path / "dev.en", tmp_path / "dev.een")
    some = choose_sentences(model, named_by_target, "", NO_RUN)
    assert some.source_texts == ["sun", "moon"] and some.sources[0][0] == size + 1
    alone = choose_sentences(model, str(tmp_path / "dev.en"), "", NO_RUN)
    assert alone.source_texts == ["sun", "moon"] and alone.sources[0][0] == size
