"""The verification that two engines compute the same model, without other libraries."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.exports import NO_RUN, flipped, trained_model, validation_set
from translate_ddp.apps.exporting.trained_model import (
    NotTheSame,
    TrainedModel,
    choose_sentences,
    translate_greedily,
    verify_equal,
    verify_quality,
)
from translate_ddp.modeling.engine import TorchEngine, ignore
from translate_ddp.modeling.search import Hypothesis


@pytest.mark.slow
def test_verification_rejects_every_flipped_weight(trained: Path):
    model, sentences = trained_model(trained), validation_set(trained)
    own = model.engine()
    found, lines = verify_equal(own, model.engine(), sentences)
    assert found == translate_greedily(own, sentences) and "are equal" in lines[1]
    for name in model.state.model:
        with pytest.raises(NotTheSame, match="sentence"):
            verify_equal(own, flipped(model, name).engine(), sentences)


class Unusable(TorchEngine):
    """A model with a log-probability that is not a number."""

    def log_probs(self, sources, targets, on_done=lambda count: None):  # pyright: ignore
        *others, last = super().log_probs(sources, targets, on_done)
        return [*others, np.where(np.arange(len(last)), last, np.nan)]


def test_log_probability_that_is_not_a_number_is_rejected(trained: Path):
    model, sentences = trained_model(trained), validation_set(trained)
    own = model.engine()
    with pytest.raises(NotTheSame, match=r"sentence \d+ differ by nan"):
        verify_equal(own, Unusable(own.model, own.device), sentences)


class Changed(TorchEngine):
    """A model with other greedy translations of some rows."""

    rows: dict[int, list[int]] = {}

    def translate(self, sources, config, on_done=ignore, unrepeated=0):
        found = super().translate(sources, config, on_done, unrepeated)
        return [[Hypothesis(self.rows.get(n, best.ids), None)] for n, (best,) in enumerate(found)]


def test_single_translations_may_differ_as_at_ties(trained: Path):
    model, sentences = trained_model(trained), validation_set(trained)
    own = model.engine()
    other = Changed(own.model, own.device)
    other.rows = {0: [7]}
    _, lines = verify_equal(own, other, sentences)
    assert "are equal, but 1 that differ" in lines[1]
    other.rows = {0: [7], 1: [7]}  # of fewer than 200
    with pytest.raises(NotTheSame, match=r"2 of \d+ greedy translations differ"):
        verify_equal(own, other, sentences)


def test_without_references_log_probabilities_must_be_close(trained: Path):
    model = trained_model(trained)
    sentences, own = choose_sentences(model, "", "", NO_RUN), model.engine()
    _, line = verify_quality(model, own, sentences)
    assert "differ by 0.000 nats on average (there are no references for BLEU)" in line
    weights = {name: tensor.clone() for name, tensor in model.state.model.items()}
    weights["decoder_norm.weight"] *= 2  # a wrong scale
    wrong = TrainedModel.of(replace(model.state, model=weights)).engine()
    with pytest.raises(NotTheSame, match=r"nats on average, more than 0\.2"):
        verify_quality(model, wrong, sentences)


def test_model_that_loses_more_than_half_a_bleu_is_rejected(
    trained: Path, monkeypatch: pytest.MonkeyPatch
):
    model, sentences = trained_model(trained), validation_set(trained)
    lines = [f"{word} moon tree river stone bird fish" for word in ("sun", "wolf")] * 200
    many = replace(
        sentences,
        sources=[[4]] * len(lines),
        references=lines,
        sizes=dict.fromkeys(model.facts.directions, len(lines)),
    )
    ids, own = model.facts.tokenizer.encode(lines), model.engine()
    perfect, other = (Changed(own.model, own.device) for _ in range(2))
    monkeypatch.setattr(TrainedModel, "engine", lambda self: perfect)
    perfect.rows = dict(enumerate(ids))
    other.rows = perfect.rows | {0: ids[1]}  # another word in one sentence of 400, and of 14
    few = replace(many, sources=many.sources[:14], references=lines[:14])
    assert "BLEU 100.00 of the checkpoint, 99.9" in verify_quality(model, other, many)[1]
    assert "0.000 nats on average" in verify_quality(model, other, few)[1]
    broken = type("Broken", (Changed, Unusable), {"rows": other.rows})(own.model, own.device)
    with pytest.raises(NotTheSame, match=r"nan nats on average, more than 0\.2"):
        verify_quality(model, broken, few)
    other.rows = perfect.rows | dict.fromkeys(range(0, 40, 2), ids[1])
    with pytest.raises(NotTheSame, match=r"BLEU 100\.00 .* a loss of more than 0\.5"):
        verify_quality(model, other, many)
