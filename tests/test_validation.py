"""Scores, against the tools that define them and values worked by hand."""

import numpy as np
import pytest
import sacrebleu
import torch

from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import EOS, SOS, train_tokenizer
from translate_ddp.modeling.decoding import length_limit
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World
from translate_ddp.settings import ModelConfig, TokenizerConfig
from translate_ddp.training.validation import ValidationSet, choose_samples, score_texts, validate

LINES = ["sun moon", "tree river stone", "bird", "fish wolf sun tree moon", "stone stone"]


def test_texts_are_scored_by_the_fields_own_definitions():
    references = ["the cat sat on the mat today", "one two three four"]
    predictions = ["the cat sat on the mat today", "one two tree four"]
    scores = score_texts(predictions, references)
    assert scores["bleu"] == sacrebleu.corpus_bleu(predictions, [references]).score
    assert scores["wer"] == pytest.approx(1 / 11)  # one word of eleven
    assert scores["cer"] == pytest.approx(1 / 46)  # one letter missing of 46 characters
    assert 0 < scores["chrf"] < 100
    assert scores["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_perfect_and_empty_predictions():
    references = ["the cat sat on the mat", "and it was so warm"]
    perfect = score_texts(references, references)
    assert perfect["bleu"] == pytest.approx(100) and perfect["wer"] == 0
    empty = score_texts(["", ""], references)
    assert empty["bleu"] == 0 and empty["cer"] == 1


@pytest.fixture
def validation() -> tuple[Transformer, ValidationSet]:
    torch.manual_seed(0)
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300))
    encoded = Ragged.of(tokenizer.encode(LINES))
    model = Transformer(
        ModelConfig(d_model=16, num_heads=2, d_ff=32, dropout=0.5), len(tokenizer)
    ).train()
    return model, ValidationSet(ParallelDataset(encoded, encoded), LINES, LINES)


def test_loss_and_text_are_those_of_one_sentence_at_a_time(
    validation: tuple[Transformer, ValidationSet],
):
    model, data = validation
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300))
    done: list[int] = []
    scores = validate(
        model, data, tokenizer, World(), "rank0", 40, show=range(5), on_done=done.append
    )
    assert model.training  # as it was before
    assert sum(done) == len(LINES)

    model.eval()
    total, count, predictions = 0.0, 0, []
    for row in range(len(LINES)):
        ids = data.pairs.source[row].astype(np.int64).tolist()
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
        predictions.append(tokenizer.decode([written])[0])
    assert scores["loss"] == pytest.approx(total / count, rel=1e-5)
    assert scores["samples"] == list(zip(LINES, LINES, predictions, strict=True))


def test_samples_differ_from_time_to_time_but_repeat():
    assert choose_samples(3, 100, step=5) == choose_samples(3, 100, step=5)
    assert choose_samples(3, 100, step=5) != choose_samples(3, 100, step=6)
    assert choose_samples(3, 2, step=5) == [0, 1]
