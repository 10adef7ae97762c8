"""Validations by direction, and of the average at the end of a run."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.faults import Run
from tests.helpers.runs import last_state, metrics
from tests.helpers.states import make_validation
from translate_ddp.data.identifier import Identifier
from translate_ddp.data.tokenizer import train_tokenizer
from translate_ddp.modeling.engine import TorchEngine
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.world import World
from translate_ddp.settings import ModelConfig, TokenizerConfig
from translate_ddp.training.metrics import METRICS, score_texts
from translate_ddp.training.validation import validate, validation_rows

LINES = ["sun moon", "tree river stone", "bird", "", "fish wolf sun tree moon", "stone stone"]


def test_each_direction_has_its_scores_and_the_mean_has_their_names():
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300))
    torch.manual_seed(1)
    model = Transformer(ModelConfig(d_model=16, num_heads=2, d_ff=32), len(tokenizer))
    engine = TorchEngine(model.eval(), World().device, max_tokens=40)
    data = make_validation(LINES, tokenizer, {("it", "th"): 2, ("en", "it"): 4})
    found = validate(engine, data, World(), "rank0")
    each = {}
    for pair, rows in validation_rows(data).items():
        alone = make_validation(LINES[rows], tokenizer, {pair: len(LINES[rows])})
        each[pair] = validate(engine, alone, World(), "rank0")
        assert each[pair].predictions == found.predictions[rows]
        texts = LINES[rows], each[pair].predictions, LINES[rows]
        assert each[pair].scores.items() >= score_texts(*texts, pair.tgt).items()
        for name, score in each[pair].scores.items():
            assert found.scores[f"{pair}/{name}"] == pytest.approx(score)
    th, it = (result.scores for result in each.values())
    assert "wer" not in th and found.scores["wer"] == it["wer"]  # Thai has no words
    for name in ("loss", "BLEU", "chrf", "cer"):
        assert found.scores[name] == pytest.approx((th[name] + it[name]) / 2)
    assert len(found.scores) == 3 * len(METRICS) - 1


def test_the_off_target_share_is_that_of_translations_with_text(monkeypatch: pytest.MonkeyPatch):
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300))
    words = ["sun", "moon", "tree", "", "sun", "river"]  # the translations
    (sun,), (moon,) = (set(tokenizer.encode([word])[0]) for word in ("sun", "moon"))
    counts = np.zeros((3, len(tokenizer)))
    counts[0, sun] = counts[1, moon] = counts[2, tokenizer.encode(["tree"])[0]] = 9
    identifier = Identifier.of(["it", "fr", "en"], counts)
    rows = [[SimpleNamespace(ids=ids)] for ids in tokenizer.encode(words)]
    engine: Any = SimpleNamespace(
        translate=lambda *_: rows, log_probs=lambda sources, *_: [np.zeros(1)] * len(sources)
    )
    sizes = {("en", "it"): 4, ("en", "fr"): 2}
    data = make_validation(LINES, tokenizer, sizes, identifier=identifier)
    found = validate(engine, data, World(), "rank0").scores
    # moon and tree of three texts; sun of two, as no language has "river".
    assert found["en-it/off_target"] == pytest.approx(2 / 3)
    assert found["en-fr/off_target"] == 1 / 2 and found["off_target"] == pytest.approx(7 / 12)


# --- runs ---


@pytest.mark.slow
def test_a_run_of_two_directions_logs_each_and_chooses_by_chrf(run: Run):
    flags = ["--bidirectional"]
    output = run.start(*flags, "--num_epochs", "1").succeed()
    [record] = (each for each in metrics(run.folder) if "validation/chrf" in each)
    names = {
        f"{part}{name}"
        for part in ("", "en-it/", "it-en/")
        for name in (*(metric.name for metric in METRICS), "off_target")
    }
    assert {name.removeprefix("validation/") for name in record if "/" in name} == names
    for pair in ("en-it", "it-en"):
        assert f" {pair}  chrF {record[f'validation/{pair}/chrf']:5.2f}  BLEU" in output
    assert f"validation mean loss {record['validation/loss']:.4g} nats/token" in output
    position = last_state(run.folder)["position"]
    assert (position["best_metric"], position["best_score"]) == ("chrf", record["validation/chrf"])

    error = run.start(*flags, "--best_metric", "it-en/loss").fail()
    assert "best_metric: auto in the checkpoint, it-en/loss now" in error
    error = run.start(*flags, "--best_metric", "en-de/loss").fail()
    assert "such as en-it/loss" in error
