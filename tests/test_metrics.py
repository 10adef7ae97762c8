"""Validation scores, against the tools that define them, values worked by hand and new entries."""

from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from config import parse
from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import last_state, validations
from translate_ddp.errors import UserError
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.metrics import (
    METRICS,
    Metric,
    Texts,
    bleu_signature,
    find_metric,
    score_texts,
)


def test_scores_equal_those_of_sacrebleu_and_counts_by_hand():
    references = ["the cat sat on the mat today", "one two three four"]
    predictions = ["the cat sat on the mat today", "one two tree four"]
    scores = score_texts(["", ""], predictions, references)
    assert scores["BLEU"] == sacrebleu.corpus_bleu(predictions, [references]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(predictions, [references]).score
    assert 0 < scores["chrf"] < 100
    assert scores["wer"] == pytest.approx(1 / 11)  # one word of eleven
    assert scores["cer"] == pytest.approx(1 / 46)  # one letter missing of 46 characters
    assert bleu_signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_perfect_and_empty_predictions():
    references = ["the cat sat on the mat", "and it was so warm"]
    perfect = score_texts(["", ""], references, references)
    assert perfect["BLEU"] == pytest.approx(100) and perfect["wer"] == 0
    empty = score_texts(["", ""], ["", ""], references)
    assert empty["BLEU"] == 0 and empty["cer"] == 1


def test_better_is_higher_or_lower_and_anything_is_better_than_nan():
    bleu, loss = find_metric("bleu"), find_metric("LOSS")
    assert (bleu.name, loss.name) == ("BLEU", "loss")
    assert bleu.is_better(2, 1) and not bleu.is_better(1, 2) and not bleu.is_better(1, 1)
    assert loss.is_better(1, 2) and not loss.is_better(2, 1) and not loss.is_better(1, 1)
    assert loss.is_better(9, float("nan")) and not loss.is_better(float("nan"), 9)


def test_unknown_metric_lists_the_known_ones():
    with pytest.raises(UserError, match="metric 'f1': choose one of loss, BLEU, chrf, cer, wer"):
        find_metric("f1")


def output_length(sources: Texts, predictions: Texts, references: Texts) -> float:
    """A new metric. Like many a library, it returns a number of NumPy."""
    return np.mean([len(text) for text in predictions])  # pyright: ignore[reportReturnType]


def train_with_new_metric(flags: list[str]) -> None:
    from translate_ddp.training import metrics

    new = Metric("length", "characters", higher_is_better=True, compute=output_length)
    metrics.METRICS = (*METRICS, new)
    processes.run_train(flags)


def test_new_entry_is_computed_logged_and_selectable(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--best_metric", "length"]
    with pytest.raises(UserError, match="no validation metric 'length'"):
        parse(flags)
    output = processes.start(train_with_new_metric, tmp_path, 1, None, flags).succeed()
    lengths = validations(tmp_path / "model", "length")
    assert len(lengths) == 2 and "length " in output
    position = last_state(tmp_path / "model")["position"]
    assert position["best_metric"] == "length" and position["best_score"] == max(lengths)
    assert position["best_epoch"] == 1 + lengths.index(max(lengths))
    assert f"Best finished epoch: {position['best_epoch']}, length" in output


def test_newest_checkpoints_and_that_of_lowest_loss_are_kept(run: Run):
    # The rate rises to 1, so that the loss falls in epoch 1 and rises again later.
    flags = ["--best_metric", "loss", "--num_epochs", "4", "--max_steps", "50", "--keep_last", "1"]
    run.start(*flags, "--lr", "1", "--warmup_steps", "50", "--label_smoothing", "0").succeed()
    *losses, _ = validations(run.folder, "loss")  # at the ends of epochs, and at the last step
    position = last_state(run.folder)["position"]
    best = position["best_epoch"]
    assert position["best_metric"] == "loss" and position["best_score"] == min(losses)
    assert best == 1 + losses.index(min(losses)) and best not in (3, 1 + losses.index(max(losses)))
    held = CheckpointStore(CheckpointConfig(str(run.folder))).list()
    assert [(c.epoch, c.step) for c in held] == [(None, 50), (3, 45), (best, 15 * best)]


def test_another_metric_on_resume_starts_a_new_best(finished: Run):
    # No loss of the tiny run is below its BLEU: the two scores must not be compared.
    before = last_state(finished.folder)["position"]
    output = finished.start("--best_metric", "loss", "--num_epochs", "3").succeed()
    assert "Changed: best_metric: BLEU in the checkpoint, loss now." in output
    position = last_state(finished.folder)["position"]
    last = validations(finished.folder, "loss")[-1]
    assert before["best_metric"] == "BLEU" and last > before["best_score"]
    assert position["best_metric"] == "loss"
    assert (position["best_epoch"], position["best_score"]) == (3, last)
