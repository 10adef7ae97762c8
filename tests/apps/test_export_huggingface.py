"""Exported folders for `transformers`, opened as its users do."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.exports import NO_RUN, trained_model, validation_set, with_sentencepiece
from tests.helpers.texts import ODD_TEXTS, SCRIPTS
from translate_ddp.apps.commands.export import export
from translate_ddp.apps.exporting import huggingface_export
from translate_ddp.apps.exporting.huggingface_export import (
    HuggingFaceEngine,
    tokenizer_json,
    verify_huggingface,
)
from translate_ddp.apps.exporting.trained_model import NotTheSame, TrainedModel, choose_sentences
from translate_ddp.data.tokenizer import EOS, NO_EXTRA_TOKENS, UNK, train_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.settings import TokenizerConfig
from translate_ddp.text import normalize

transformers: Any = pytest.importorskip("transformers")
safetensors: Any = pytest.importorskip("safetensors.torch")

LITERALS = [
    "[EOS]",
    "a [EOS] b [PAD] [SOS] [UNK]",
    "[ EOS ]",
    "\ufeff sun \t moon\r\n",
    " a\u2028b ",
]


@pytest.fixture
def exported(trained: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "hf"
    export(trained_model(trained), "huggingface", folder, validation_set(trained))
    return folder


def opened(folder: Path) -> tuple[Any, Any]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def test_generate_translates_as_the_model(exported: Path, trained: Path):
    model, sentences = trained_model(trained), validation_set(trained)
    tokenizer, pegasus = opened(exported)
    texts = sentences.source_texts
    greedy = model.engine().translate(sentences.sources, NBestConfig(1))
    for text, (best,) in zip(texts, greedy, strict=True):
        inputs = tokenizer([text], return_tensors="pt")
        count = max(1, len(best.ids))
        (ids,) = pegasus.generate(**inputs, num_beams=1, early_stopping=False, max_new_tokens=count)
        assert ids.tolist() == [2, *best.ids]
        (decoded,) = tokenizer.batch_decode([ids], skip_special_tokens=True)
        assert decoded == model.facts.tokenizer.decode([best.ids])[0]
    sources = [[], *sentences.sources, []]
    ours = model.engine().translate(sources, NBestConfig(1))
    assert HuggingFaceEngine(transformers, exported).translate(sources, NBestConfig(1)) == ours


def test_folder_lacks_and_adds_no_tensor(exported: Path):
    _, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        exported, output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    settings = json.loads((exported / "generation_config.json").read_text())
    assert settings["num_beams"] == 4 and settings["max_length"] == 1024
    assert {path.name for path in exported.iterdir()} == {
        *("model.safetensors", "config.json", "generation_config.json"),
        *("tokenizer.json", "tokenizer_config.json", "README.md"),
    }


@pytest.mark.parametrize("kind", ["byte-level BPE", "SentencePiece unigram", "SentencePiece BPE"])
def test_tokenizer_is_fast_and_gives_the_same_ids_and_text(
    trained: Path, tmp_path: Path, kind: str
):
    model = trained_model(trained)
    if kind != "byte-level BPE":
        pytest.importorskip("sentencepiece")
        model = with_sentencepiece(model, is_bpe=kind == "SentencePiece BPE")
    (tmp_path / "lines").write_text("sun moon\nstone [EOS] bird?\n")
    sentences = choose_sentences(model, str(tmp_path / "lines"), "", NO_RUN)
    export(model, "huggingface", tmp_path / "hf", sentences)
    theirs = opened(tmp_path / "hf")[0]
    assert theirs.is_fast and theirs.pad_token_id == 0 and theirs.eos_token_id == 3
    texts = ["sun moon", "", "unknown: ž 字😀", *LITERALS, *SCRIPTS, *ODD_TEXTS]
    expected = model.facts.tokenizer.encode([normalize(text) for text in texts])
    assert theirs(texts)["input_ids"] == [[*ids, EOS] for ids in expected]
    decoded = theirs.batch_decode([[*ids, EOS] for ids in expected], skip_special_tokens=True)
    assert decoded == model.facts.tokenizer.decode(expected)
    assert set(theirs(["sun", "sun moon tree"], padding=True)) == {"input_ids", "attention_mask"}


def test_sentencepiece_model_without_an_equal_is_refused(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("sentencepiece")
    model = with_sentencepiece(trained_model(trained))
    fast = tokenizer_json(model.facts.tokenizer)
    fast.normalizer = None  # as if the model had another normalization
    monkeypatch.setattr(huggingface_export, "tokenizer_json", lambda *_: fast)
    sentences = choose_sentences(model, "", "", NO_RUN)
    with pytest.raises(UserError, match="has no equal in transformers.*--format ctranslate2"):
        export(model, "huggingface", tmp_path / "hf", sentences)
    assert list(tmp_path.iterdir()) == []


def test_model_card_names_languages_data_sizes_scores_and_usage(exported: Path, trained: Path):
    card = (exported / "README.md").read_text()
    model = trained_model(trained)
    assert card.startswith('---\nlanguage:\n- "en"\n- "it"\nlibrary_name: transformers\n')
    for text in (
        "# English to Italian",
        f"{model.parameters:,} parameters",
        f"on train, fingerprint {model.data}",
        "BLEU signature: nrefs:1|case:mixed",
        "chrf ",
        "log-probabilities of",
        'AutoTokenizer.from_pretrained("hf")',
    ):
        assert text in card
    assert len(model.data) == 12 and str(trained) not in card


def test_folder_with_any_flipped_weight_is_rejected(exported: Path, trained: Path):
    model, sentences = trained_model(trained), validation_set(trained)
    file = exported / "model.safetensors"
    tensors = safetensors.load_file(file)
    # Biases of keys and values are zero, and have no weight to flip.
    names = [name for name, tensor in tensors.items() if tensor.any()]
    assert len(names) > len(model.state.model)
    for name in names:
        changed = tensors[name].clone()
        changed.view(-1)[changed.abs().argmax()] *= -1
        if "embed_positions" in name:
            changed[2] *= -1  # a position that is used
        safetensors.save_file(tensors | {name: changed}, file, metadata={"format": "pt"})
        with pytest.raises(NotTheSame, match="sentence"):
            verify_huggingface(exported, model, sentences)


def test_word_tokenizer_is_exported(trained: Path, tmp_path: Path):
    lines = ["sun moon tree", "sun moon tree river"]
    tokenizer = train_tokenizer(lines, TokenizerConfig(tokenizer="word", vocab_size=300))
    model = trained_model(trained)
    rows = {"embedding.weight": model.state.model["embedding.weight"][: len(tokenizer)]}
    facts = replace(model.facts, tokenizer=tokenizer, extra=NO_EXTRA_TOKENS)
    state = replace(model.state, model=model.state.model | rows, facts=facts)
    words = TrainedModel.of(state)
    export(words, "huggingface", tmp_path / "hf", choose_sentences(words, "", "", NO_RUN))
    (sun,) = tokenizer.encode(["sun"])
    assert opened(tmp_path / "hf")[0](["sun unknown"])["input_ids"] == [[*sun, UNK, EOS]]
