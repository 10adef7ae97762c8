"""Validation, decoded one sentence at a time, and its scores, against tools that define them."""

import random
import re
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch

from config import parse
from tests.helpers.states import make_validation
from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.tokenizer import EOS, SOS, train_tokenizer
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError
from translate_ddp.modeling.engine import TorchEngine, length_limit
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.world import World
from translate_ddp.settings import ModelConfig, TokenizerConfig
from translate_ddp.text import normalize
from translate_ddp.training.metrics import (
    METRICS,
    bleu_signature,
    compare_systems,
    find_metric,
    score_intervals,
    score_texts,
)
from translate_ddp.training.validation import validate


def test_scores_equal_those_of_sacrebleu_and_counts_by_hand():
    references = ["the cat sat on the mat today", "one two three four"]
    predictions = ["the cat sat on the mat today", "one two tree four"]
    scores = score_texts(["", ""], predictions, references, "it")
    assert scores["BLEU"] == sacrebleu.corpus_bleu(predictions, [references]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(predictions, [references]).score
    assert 0 < scores["chrf"] < 100
    assert scores["wer"] == pytest.approx(1 / 11)  # one word of eleven
    assert scores["cer"] == pytest.approx(1 / 46)  # one letter missing of 46 characters
    assert bleu_signature("it").startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_empty_predictions():
    references = ["the cat sat on the mat", "and it was so warm"]
    empty = score_texts(["", ""], ["", ""], references, "it")
    assert empty["BLEU"] == 0 and empty["cer"] == 1


def test_better_is_higher_or_lower_and_anything_is_better_than_nan():
    bleu, loss = (find_metric(name, [LanguagePair("en", "it")]) for name in ("bleu", "LOSS"))
    assert (bleu.name, loss.name) == ("BLEU", "loss")
    assert bleu.is_better(2, 1) and not bleu.is_better(1, 2) and not bleu.is_better(1, 1)
    assert loss.is_better(1, 2) and not loss.is_better(2, 1) and not loss.is_better(1, 1)
    assert loss.is_better(9, float("nan")) and not loss.is_better(float("nan"), 9)


def test_unknown_metric_lists_the_known_ones():
    with pytest.raises(UserError, match="'f1' .* it: choose one of loss, BLEU, chrf, cer, wer"):
        find_metric("f1", [LanguagePair("en", "it")])


def test_a_metric_may_be_that_of_one_direction():
    pairs = [LanguagePair("en", "th"), LanguagePair("en", "it")]
    assert find_metric("en-IT/WER", pairs) == replace(find_metric("wer", pairs), name="en-it/wer")
    assert not find_metric("en-th/cer", pairs).higher_is_better
    for name in ("en-th/wer", "it-en/BLEU"):
        with pytest.raises(UserError, match="th, it: choose one of .*, wer, or one of a direction"):
            find_metric(name, pairs)


PERFECT = {"BLEU": pytest.approx(100), "chrf": pytest.approx(100), "cer": 0, "wer": 0}


def test_composed_and_decomposed_text_is_equal_in_all_scores():
    references = [
        "Me\u0323yi a\u0192eme, e\u0300nya\u0301 wo\u0301 e\u0323 la",
        "e\u0301 e\u0301 e\u0301 e\u0301",
    ]
    predictions = [unicodedata.normalize("NFC", text) for text in references]
    assert predictions != references
    for texts in ((predictions, references), (references, predictions)):
        scores = score_texts(["", ""], *texts, "ee")
        assert {name: scores[name] for name in PERFECT} == PERFECT


CHINESE_TEXT = "老医生在花园里读一封很长的信"
THAI_TEXT = "หมอแก่อ่านจดหมายยาวในสวน"


@pytest.mark.parametrize(
    ("language", "text", "tokenizer"),
    [("zh_CN", CHINESE_TEXT, "zh"), ("cmn_Hans", CHINESE_TEXT, "zh"), ("tha", THAI_TEXT, "char")],
)
def test_text_without_blanks_is_scored_by_character(language: str, text: str, tokenizer: str):
    # With 13a a sentence is one word, and its BLEU is 0 or 100.
    prediction, reference = [f"{text[:5]}x{text[6:]}"], [text]
    scores = score_texts([""], prediction, reference, language)
    metric = sacrebleu.BLEU(tokenize=tokenizer)
    assert 0 < scores["BLEU"] == metric.corpus_score(prediction, [reference]).score < 100
    assert scores["cer"] == pytest.approx(1 / len(text))
    assert bleu_signature(language) == str(metric.get_signature())


@pytest.mark.parametrize(("language", "has_words"), [("ja", False), ("kor_Hang", True)])
def test_japanese_and_korean_are_scored_by_character_without_their_extras(
    monkeypatch: pytest.MonkeyPatch, language: str, has_words: bool
):
    for module in "tokenizer_ja_mecab", "tokenizer_ko_mecab":
        monkeypatch.setattr(f"sacrebleu.tokenizers.{module}.MeCab", None)
    text = "医者が手紙を読む"
    scores = score_texts([""], [f"{text}。"], [text], language)
    characters = sacrebleu.BLEU(tokenize="char").corpus_score([f"{text}。"], [[text]]).score
    assert 0 < scores["BLEU"] == characters < 100
    assert "|tok:char|" in bleu_signature(language) and ("wer" in scores) == has_words


def test_language_without_blanks_has_no_word_error_rate():
    names = [each.name for each in METRICS if each.compute and each.name != "wer"]
    assert list(score_texts([""], ["a"], ["a"], "th")) == names
    with pytest.raises(UserError, match="'wer' .* th: choose one of loss, BLEU, chrf, cer"):
        find_metric("wer", [LanguagePair("en", "th")])
    with pytest.raises(UserError, match="'wer' .* zh_CN: choose one of"):
        parse(["--best_metric", "wer", "--lang_tgt", "zh_CN"])


LINES = ["sun moon", "tree river stone", "bird", "fish wolf sun tree moon", "stone stone"]


@pytest.fixture
def validation() -> tuple[Transformer, PreparedData]:
    torch.manual_seed(0)
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300))
    model = Transformer(
        ModelConfig(d_model=16, num_heads=2, d_ff=32, dropout=0.5), len(tokenizer)
    ).train()
    return model, make_validation(LINES, tokenizer, {("it", "en"): len(LINES)})


def test_scores_and_texts_equal_those_of_single_sentences(
    validation: tuple[Transformer, PreparedData],
):
    model, data = validation
    decoded: list[int] = []
    scored: list[int] = []  # the loss takes time, too: a run may be stopped meanwhile
    engine = TorchEngine(model.eval(), World().device, max_tokens=40)
    result = validate(
        *(engine, data, World(), "rank0"),
        on_decoded=decoded.append,
        on_loss=scored.append,
    )
    assert sum(decoded) == sum(scored) == len(LINES)

    total, count, predictions = 0.0, 0, []
    for row in range(len(LINES)):
        ids = data.validation.source[row].astype(np.int64).tolist()
        source = torch.tensor([[*ids, EOS]])
        logits = model.logits(model(source, torch.tensor([[SOS, *ids]])))
        log_probabilities = logits.log_softmax(dim=-1)[0]
        total -= sum(log_probabilities[t, i].item() for t, i in enumerate([*ids, EOS]))
        count += len(ids) + 1
        written: list[int] = []
        while len(written) < length_limit(len(ids)):
            logits = model.logits(model(source, torch.tensor([[SOS, *written]])))
            written.append(int(logits[0, -1].argmax()))
            if written[-1] == EOS:
                break
        predictions.append(data.facts.tokenizer.decode([written])[0])
    scores = result.scores
    assert list(scores) == [metric.name for metric in METRICS]
    assert scores.pop("loss") == pytest.approx(total / count, rel=1e-5)
    assert scores == score_texts(LINES, predictions, LINES, "en")
    assert result.predictions == list(map(normalize, predictions))


RANDOM = random.Random(0)
WORDS = "the old man reads a long letter in his garden and then goes home".split()
REFERENCES = [" ".join(RANDOM.choices(WORDS, k=9)) for _ in range(60)]


def changed(words: int) -> list[str]:
    """The references with that many other words in each."""
    texts = [text.split() for text in REFERENCES]
    for text in texts:
        for _ in range(words):
            text[RANDOM.randrange(len(text))] = RANDOM.choice(WORDS)
    return list(map(" ".join, texts))


GOOD, BAD = changed(2), changed(2)


@pytest.mark.parametrize(("language", "tokenizer"), [("it", "13a"), ("zh", "zh")])
def test_intervals_equal_those_of_sacrebleu(language: str, tokenizer: str):
    found = score_intervals(GOOD, REFERENCES, language)
    metrics = {"BLEU": sacrebleu.BLEU(tokenize=tokenizer), "chrf": sacrebleu.CHRF()}
    assert list(found) == list(metrics)
    for name, metric in metrics.items():
        score = metric.corpus_score(GOOD, [REFERENCES], n_bootstrap=1000)
        expected = (score._mean, score._ci)
        assert tuple(found[name]) == pytest.approx(expected) and found[name].half_width > 0


def test_paired_test_equals_that_of_the_sacrebleu_command(tmp_path: Path):
    files = {"references": REFERENCES, "bad": BAD, "good": GOOD}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    reference, *systems = (str(tmp_path / name) for name in files)
    words = ["sacrebleu", reference, "-i", *systems, "-m", "bleu", "chrf", "--paired-bs"]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--format", "text"], capture_output=True, text=True
    )
    (base,) = re.findall(r"bad +│ +([\d.]+) .*│ +([\d.]+) ", done.stdout)
    (system,) = re.findall(r"good +│ +([\d.]+) .*│ +([\d.]+) ", done.stdout)
    p_values = re.findall(r"\(p = ([\d.]+)\)", done.stdout)
    found = compare_systems(GOOD, BAD, REFERENCES, "it").values()
    assert [f"{each.baseline:.1f}" for each in found] == list(base)
    assert [f"{each.score:.1f}" for each in found] == list(system)
    assert [f"{each.p_value:.4f}" for each in found] == p_values != ["0.0010"] * 2


def test_equal_systems_do_not_differ():
    # sacreBLEU's p-value would be 0.001.
    found = compare_systems(GOOD, GOOD, REFERENCES, "it")
    assert {each.p_value for each in found.values()} == {1.0}
