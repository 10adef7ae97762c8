"""Validation, compared with decoding and scoring one sentence at a time."""

import numpy as np
import pytest
import torch

from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import EOS, SOS, train_tokenizer
from translate_ddp.modeling.decoding import length_limit
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World
from translate_ddp.settings import ModelConfig, TokenizerConfig
from translate_ddp.training.metrics import METRICS, score_texts
from translate_ddp.training.validation import ValidationSet, choose_samples, validate

LINES = ["sun moon", "tree river stone", "bird", "fish wolf sun tree moon", "stone stone"]


@pytest.fixture
def validation() -> tuple[Transformer, ValidationSet]:
    torch.manual_seed(0)
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300))
    encoded = Ragged.of(tokenizer.encode(LINES))
    model = Transformer(
        ModelConfig(d_model=16, num_heads=2, d_ff=32, dropout=0.5), len(tokenizer)
    ).train()
    return model, ValidationSet(ParallelDataset(encoded, encoded), LINES, LINES)


def test_scores_and_texts_equal_those_of_single_sentences(
    validation: tuple[Transformer, ValidationSet], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("translate_ddp.training.validation.NUM_SAMPLES", len(LINES))
    model, data = validation
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300))
    done: list[int] = []
    result = validate(model, data, tokenizer, World(), "rank0", 40, on_done=done.append)
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
    scores = result.scores
    assert list(scores) == [metric.name for metric in METRICS]
    assert scores.pop("loss") == pytest.approx(total / count, rel=1e-5)
    assert scores == score_texts(LINES, predictions, LINES)
    assert result.samples == list(zip(LINES, LINES, predictions, strict=True))


def test_samples_are_the_same_sentences_at_every_validation():
    assert choose_samples(3, 100) == choose_samples(3, 100)
    rows = choose_samples(3, 100)
    assert len(set(rows)) == 3 and set(rows) <= set(range(100)) and rows == sorted(rows)
    assert choose_samples(3, 2) == [0, 1]
