"""`inspect`: the tokenizer, the plan and the estimated time are those of the training."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.inspected import inspected, problem, sentences
from translate_ddp.apps.inspecting import inspection, tables
from translate_ddp.apps.inspecting.pace import Pace
from translate_ddp.apps.inspecting.terminal import report_lines
from translate_ddp.data.dataset import load_prepared
from translate_ddp.data.preparation import prepare
from translate_ddp.errors import UserError


def test_long_pairs_are_reported_and_none_that_fits_ends_nothing(tmp_path: Path):
    found = inspected(tmp_path, sentences(200), seq_len=2)
    assert found.epoch is None
    assert problem(found, "No pair has fewer than 2 tokens").advice == "Raise --seq_len."
    assert any(line.startswith("TRAINING") for line in report_lines(found))


def test_a_sample_stands_for_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = inspected(tmp_path, sentences(2000))
    monkeypatch.setattr(inspection, "SAMPLE_PAIRS", 500)
    folder = tmp_path / "sample"
    part = inspected(folder, sentences(2000))
    assert (part.pairs, len(part.texts), part.is_sample) == (2000, 500, True)
    assert whole.epoch is not None and part.epoch is not None
    assert part.epoch.tokens == pytest.approx(whole.epoch.tokens, rel=0.05)
    assert part.epoch.steps == pytest.approx(whole.epoch.steps, rel=0.15)
    assert "a sample of 500 of the 2,000 training pairs" in "\n".join(report_lines(part))


def test_an_epoch_has_the_pairs_of_the_weights(tmp_path: Path):
    plain, double = (
        inspected(tmp_path / name, sentences(300), **settings).epoch
        for name, settings in {"plain": {}, "double": {"dataset_weight": (2.0,)}}.items()
    )
    assert plain is not None and double is not None
    assert double.tokens == 2 * plain.tokens


def test_steps_are_measured_for_several_datasets_with_weights(tmp_path: Path):
    other = tmp_path / "other"
    inspected(other, sentences(200, seed=2))
    datasets = (str(tmp_path / "train"), str(other / "train"))
    weighted = {"dataset": datasets, "dataset_weight": (1.0, 5.0)}
    found = inspected(tmp_path, sentences(200), seconds=0.01, **weighted)
    assert found.pairs == 400 and found.pace is not None and found.pace.steps >= 1


def test_tokenizer_and_tokens_are_those_of_the_training(tmp_path: Path):
    found = inspected(tmp_path, sentences(300), bidirectional=True, perturb=True)
    config, folder = found.config, tmp_path / "prepared"
    seq_len = config.batches.seq_len
    prepared = prepare(
        config.corpus, config.tokenizer, seq_len, folder, config.augment, shown=False
    )
    data = load_prepared(prepared)
    assert data.tokenizer.text == found.vocabulary.tokenizer.text
    tokens = len(data.train.source.tokens) + len(data.train.target.tokens) + 2 * len(data.train)
    # Twice the first direction: the second differs by the words of the other language.
    assert found.epoch is not None and found.epoch.tokens == pytest.approx(tokens, rel=0.02)


def test_a_tokenizer_file_is_read_but_never_written(tmp_path: Path):
    file = tmp_path / "tokenizer.json"
    found = inspected(tmp_path, sentences(200), sentences(9, seed=1), tokenizer_file=str(file))
    assert found.vocabulary.is_trained and not file.exists()
    file.write_text("no tokenizer")
    folder = tmp_path / "second"
    with pytest.raises(UserError, match="cannot be used as tokenizer"):
        inspected(folder, sentences(200), sentences(9, seed=1), tokenizer_file=str(file))


def test_a_training_of_many_days_is_a_problem(tmp_path: Path):
    found = inspected(tmp_path, sentences(300))
    assert found.epoch is not None and found.training_seconds is None
    epochs = found.config.train.num_epochs
    per_second = found.epoch.tokens * epochs / (5 * 86_400)
    found = replace(found, pace=Pace(per_second, 1, 1000, "the CPU", "fp32"))
    assert "about 5 days on this machine" in problem(found, "The training would take").what
    assert "1 training step:" in " ".join(" ".join(report_lines(found)).split())


def test_durations_have_a_unit_that_fits():
    seconds = (0.2, 40, 720, 12_600, 90_000, 180_000)
    assert [tables.duration(each) for each in seconds] == [
        *("1 s", "40 s", "12 min", "3.5 h", "25 h", "2.1 days")
    ]
