"""The sentences of a text as the model receives them: split, whole, or kept as they are."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import translate_ddp
from tests.helpers.sources import record_sources
from tests.helpers.states import make_facts
from translate_ddp.apps.commands import translate
from translate_ddp.apps.serving.words import words_of
from translate_ddp.data.tokenizer import train_tokenizer
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.settings import TokenizerConfig
from translate_ddp.spans import MARK
from translate_ddp.translator import Translator


def test_text_without_letters_is_never_sent_to_the_model(
    trained: Path, monkeypatch: pytest.MonkeyPatch
):
    translator = Translator.open(str(trained))
    one, two = translator.translate(["Sun moon.", "Fish wolf."])
    sent = record_sources(translator, monkeypatch)
    texts = [
        "😀",
        "---",
        "#",
        "?",
        "1,234.5",
        "€ 100",
        "१२३",
        "5! 3? Ⅳ",
        "| 5 |   6\u00a0€ |",
        "1\u2028 2\n3",
    ]
    done: list[int] = []
    assert translator.translate(texts, on_done=done.append) == texts
    assert sum(done) == len(texts)
    for split in ("sentences", "none"):
        for found in translator.translate(texts, n_best=3, split=split):
            assert [each.text for each in found] == [found[0].text] * 3
            assert [each.score for each in found] == [0.0] * 3
    assert sent == []
    mixed = "Sun moon. 😀 --- Fish wolf."
    assert translator.translate([mixed]) == [f"{one} 😀 --- {two}"]
    assert len(sent) == 2
    for found in translator.translate([mixed], n_best=2)[0]:
        kept = found.sentences[1]
        assert (kept.source, kept.text, kept.log_probs) == ("😀 ---", "😀 ---", [0.0, 0.0])
        words = {word.text.strip(): word.probability for word in words_of(found, "it")}
        assert words["😀"] == words["---"] == 1.0 > min(words.values())
        assert "".join(word.text for word in words_of(found, "it")) == found.text


def test_sentence_in_capitals_is_translated_as_in_sentence_case(
    trained: Path, monkeypatch: pytest.MonkeyPatch
):
    translator = Translator.open(str(trained))
    plain, single = translator.translate(["Sun moon, fish %s wolf.", "SUN"])
    sent = record_sources(translator, monkeypatch)
    text, name = "SUN MOON, FISH %s WOLF.", "SUN"
    found, kept = translator.translate([text, name])
    assert found == plain.upper().replace("%S", "%s") != plain
    assert kept == single
    assert translator.tokenizer.encode(["SUN"])[0] in sent
    assert not any("MOON" in translator.tokenizer.decode([ids])[0] for ids in sent)
    both = translator.translate(["Sun moon, fish %s wolf.", text], n_best=2)
    for plain, found in zip(*both, strict=True):
        assert found.sentences[0].source == text and found.score == plain.score
        tokens = [each.upper().replace("%S", "%s") for each in plain.sentences[0].tokens]
        assert found.sentences[0].tokens == tokens


@pytest.mark.parametrize("kind", ["bpe", "word"])
@pytest.mark.parametrize(
    ("known", "text", "read"),
    [
        ('it\'s - "a dog"...', "it’s – “a dog”… %s", 'it\'s - "a dog"... %s'),
        ("it’s a – dog", "it’s a – dog %s", "it’s a – dog %s"),
        ("it’s – “a dog”…", "it’s – “a dog”… %s", "it’s – “a dog”… %s"),
        ("п'ять", "п’ять %s", "п'ять %s"),
        ("dog", "%s –", None),  # no letters: kept
    ],
)
def test_marks_are_read_as_the_training_text_has_them(
    trained: Path, kind: Any, known: str, text: str, read: str | None
):
    model = Translator.open(str(trained))
    tokenizer = train_tokenizer([known] * 9, TokenizerConfig(tokenizer=kind, vocab_size=300))
    engine = Recorder()
    facts = replace(model.facts, tokenizer=tokenizer)
    translator = Translator(engine, facts)  # type: ignore[arg-type]
    ((found,),) = translator.translate([text], n_best=1)
    assert found.sentences[0].source == text
    if read is None:
        assert engine.sources == [] and found.text == text
    else:
        marked = read.replace("%s", MARK)
        assert engine.sources[0] == tokenizer.encode_marked([marked], [[0]])[0]


class Recorder:
    """An engine that keeps what it is to translate, and translates it to one span."""

    fingerprint = "recorder"

    def __init__(self) -> None:
        self.sources: list[list[int]] = []

    def translate(self, sources: list[list[int]], *_: Any, **__: Any) -> list[list[Hypothesis]]:
        self.sources += sources
        return [[Hypothesis([max(source)], 0.0)] for source in sources]

    def log_probs(self, sources: object, targets: list[list[int]], *_: Any) -> list[np.ndarray]:
        return [np.zeros(len(target) + 1) for target in targets]


def test_long_sentence_in_capitals_stays_in_capitals(trained: Path):
    translator = Translator.open(str(trained))
    words = "SUN STRAßE FISH WOLF " * 50
    (found,) = translator.translate([words], n_best=1, report=lambda row, message: None)
    assert found[0].text.isupper() and found[0].sentences[0].source == words.strip()


def test_part_without_letters_of_a_long_sentence_is_kept(
    trained: Path, monkeypatch: pytest.MonkeyPatch
):
    translator = Translator.open(str(trained))
    sent = record_sources(translator, monkeypatch)
    (found,) = translator.translate(["7 " * 100 + "sun moon"], report=lambda row, message: None)
    assert found.startswith("7 " * 80)
    assert len(sent) == 1 and "sun moon" in translator.tokenizer.decode(sent)[0]


def test_split_none_translates_a_text_as_one_sentence(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    translator, line = Translator.open(str(trained)), "sun  moon. fish wolf."
    sent = record_sources(translator, monkeypatch)
    (whole,) = translator.translate([line, ""], split="none")[:1]
    assert sent == translator.tokenizer.encode(["sun moon. fish wolf."])
    assert len(translator.translate([line], n_best=1)[0][0].sentences) == 2
    saved = translate.SavedModel(str(trained))
    opened = saved.open(split="none")
    assert opened.translate([line, ""]) == [whole, ""]
    assert opened.identity != translator.identity == saved.open().identity
    words = ("--model_folder", str(trained), "--split", "none", "--format", "jsonl", line)
    code, output = translate_ddp(tmp_path, "translate", *words)
    assert code == 0
    assert [len(each["sentences"]) for each in json.loads(output)["translations"]] == [1]


def test_learnt_abbreviations_split_the_texts_of_their_language(trained: Path):
    plain = Translator.open(str(trained))
    facts = make_facts(plain.tokenizer, ("en_US", "it"), ("it", "en_US"))
    learnt = replace(facts, abbreviations={"en": ["zrb"], "it": ["brz"]})
    translator = Translator(plain.engine, learnt)
    texts = ["A Zrb. Obama. B", "A Brz. Rossi. B"]
    assert [len(translator.sentences(text)) for text in texts] == [2, 3]
    assert [len(translator.to("en").sentences(text)) for text in texts] == [3, 2]
    assert translator.identity != Translator(plain.engine, facts).identity
    translator.split = "none"
    assert translator.to("en").split == "none"
