"""Exports of a model with span tokens, which stand in sources and are generated."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.exports import NO_RUN, trained_model, with_sentencepiece
from translate_ddp.apps.commands.export import export
from translate_ddp.apps.exporting.trained_model import TrainedModel, choose_sentences
from translate_ddp.data.tokenizer import EOS, SPAN_TOKENS
from translate_ddp.errors import UserError
from translate_ddp.modeling.ctranslate2_engine import open_exported
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.spans import MARK

ctranslate2: Any = pytest.importorskip("ctranslate2")

GREEDY = NBestConfig(1)
TEXTS = [f"sun {MARK} moon", f"{MARK}river{MARK} tree stone.", f"bird fish wolf {MARK}"]
NUMBERS = [[0], [7, 3], [5]]


def with_likely_spans(model: TrainedModel) -> TrainedModel:
    """The model with larger embeddings of its span tokens, which it then generates often."""
    weights = {name: tensor.clone() for name, tensor in model.state.model.items()}
    weights["embedding.weight"][len(model.facts.tokenizer) :] *= 4
    return TrainedModel.of(replace(model.state, model=weights))


def marked(model: TrainedModel) -> tuple[list[list[int]], list[list[int]]]:
    """Sources with span tokens, and the checkpoint's translations, of which some have them."""
    sources = model.facts.tokenizer.encode_marked(TEXTS, NUMBERS)
    found = [list(best.ids) for (best,) in model.engine().translate(sources, GREEDY)]
    assert any(i >= len(model.facts.tokenizer) for ids in found for i in ids)
    return sources, found


def test_ctranslate2_folder_translates_spans_as_the_checkpoint(trained: Path, tmp_path: Path):
    model = with_likely_spans(trained_model(trained))
    assert model.facts.extra.names == SPAN_TOKENS
    sources, expected = marked(model)
    export(model, "ctranslate2", tmp_path / "ct2", choose_sentences(model, "", "", NO_RUN))
    engine, _ = open_exported(tmp_path / "ct2", 1)
    assert [best.ids for (best,) in engine.translate(sources, GREEDY)] == expected
    ours, theirs = (each.log_probs(sources, sources[::-1]) for each in (model.engine(), engine))
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p, q, atol=2e-5)
    # One vocabulary of both sides, with the names of the tokens.
    file = tmp_path / "ct2" / "shared_vocabulary.json"
    assert json.loads(file.read_text()) == [*model.facts.tokenizer.names, *SPAN_TOKENS]
    description = json.loads((tmp_path / "ct2" / "translate_ddp.json").read_text())
    description["facts"]["extra_tokens"] = list(SPAN_TOKENS[::-1])
    (tmp_path / "ct2" / "translate_ddp.json").write_text(json.dumps(description))
    with pytest.raises(UserError, match="has the vocabulary of another model"):
        open_exported(tmp_path / "ct2", 1)


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_transformers_translate_spans_as_the_checkpoint(trained: Path, tmp_path: Path, kind: str):
    transformers: Any = pytest.importorskip("transformers")
    model = trained_model(trained)
    if kind == "sentencepiece":
        pytest.importorskip("sentencepiece")
        model = with_sentencepiece(model)
    model = with_likely_spans(model)
    sources, expected = marked(model)
    export(model, "huggingface", tmp_path / "hf", choose_sentences(model, "", "", NO_RUN))
    pegasus = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for source, ids in zip(sources, expected, strict=True):
        inputs = torch.tensor([[*source, EOS]])
        found = pegasus.generate(inputs, num_beams=1, early_stopping=False, max_new_tokens=len(ids))
        assert found[0, 1:].tolist() == ids
        (text,) = tokenizer.batch_decode([ids], skip_special_tokens=True)
        assert text == model.facts.tokenizer.decode([ids])[0]
    # No text is a span token.
    (ids,) = tokenizer(["sun [P1] moon"])["input_ids"]
    assert [ids[:-1]] == model.facts.tokenizer.encode(["sun [P1] moon"])
    first = len(model.facts.tokenizer)
    assert tokenizer.convert_tokens_to_ids([*SPAN_TOKENS]) == [*range(first, first + 8)]
