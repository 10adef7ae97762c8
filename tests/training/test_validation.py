"""Validations by direction, on a sample during training, and on all pairs at its end."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests import faults
from tests.helpers.commands import translate_ddp
from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_run, last_state, metrics, validations
from tests.helpers.states import TOKENIZER, make_facts, make_state
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.identifier import Identifier
from translate_ddp.data.mix import Block, hashes
from translate_ddp.data.tokenizer import train_tokenizer
from translate_ddp.modeling.engine import TorchEngine
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.world import World
from translate_ddp.settings import BatchConfig, LanguagePair, ModelConfig, TokenizerConfig
from translate_ddp.training.identity import describe_changes
from translate_ddp.training.metrics import METRICS, score_texts
from translate_ddp.training.validation import (
    SALT,
    ValidationSet,
    sample_tokens,
    validate,
)

PAIRS = [LanguagePair("en", tgt) for tgt in ("hau", "ibo", "lug")]


def set_of(*lengths: list[int]) -> ValidationSet:
    """A direction for each list of target lengths, [EOS] included; texts are the row numbers."""
    rows = [[4] * (length - 1) for part in lengths for length in part]
    texts = [str(number) for number in range(len(rows))]
    ids = Ragged.of([[number] for number in range(len(rows))])
    sizes = dict(zip(PAIRS, map(len, lengths), strict=False))
    return ValidationSet(ParallelDataset(ids, Ragged.of(rows)), texts, texts, sizes)


def test_a_sample_has_an_equal_part_of_each_direction_and_the_smallest_hashes():
    # 2,000 tokens, of which the second direction needs 200: the others have 900 each.
    data = set_of([3] * 700, [2] * 100, [5, 1] * 150)
    sample = data.sample(2000)
    assert [*sample.sizes.values()] == [300, 100, 300]
    sample = data.sample(1400)
    assert [*sample.sizes.values()][:2] == [200, 100]
    chosen = sorted(np.argsort(hashes(SALT, np.arange(700)))[:200].tolist())
    assert sample.sources[:200] == [*map(str, chosen)] and chosen != [*range(200)]
    assert sample.references == sample.sources
    assert [str(sample.pairs.source[row][0]) for row in range(len(sample.pairs))] == sample.sources
    tokens = sum(len(sample.pairs.target[row]) + 1 for row in range(300, len(sample.pairs)))
    assert 600 - 5 < tokens <= 600
    # A larger sample contains a smaller one; at least 100 pairs of each direction, if it has them.
    assert {*sample.sources} < {*data.sample(1500).sources}
    assert [*data.sample(1).sizes.values()] == [100, 100, 100]
    assert data.sample(3200).sources == data.sources


@pytest.mark.parametrize(
    ("every", "batch_size", "expected"),
    [
        (0, 0, 40 * 2.5 + 5 * 4),  # an epoch: each pair of the second block half a time
        (2, 0, 2 * 50),
        (3, 0, 120),  # an epoch is less than 3 steps of 50 tokens
        (2, 4, 2 * 4 * 3 * 120 / 45),  # 4 pairs on each of 3 ranks
    ],
)
def test_a_sample_has_a_fifth_of_the_tokens_between_two_validations(
    every: int, batch_size: int, expected: float
):
    targets = Ragged.of([[4], [4, 4]] * 20 + [[4, 4, 4]] * 10)
    data: Any = SimpleNamespace(
        train=ParallelDataset(targets, targets), blocks=[Block(0, 0, 40), Block(1, 0, 10)]
    )
    sampler: Any = SimpleNamespace(
        mix=SimpleNamespace(counts=(40, 5)),
        config=BatchConfig(batch_tokens=50, seq_len=20, batch_size=batch_size),
        world_size=3,
    )
    assert sample_tokens(data, sampler, every) == pytest.approx(0.2 * expected)


LINES = ["sun moon", "tree river stone", "bird", "", "fish wolf sun tree moon", "stone stone"]


def test_each_direction_has_its_scores_and_the_mean_has_their_names():
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300))
    torch.manual_seed(1)
    model = Transformer(ModelConfig(d_model=16, num_heads=2, d_ff=32), len(tokenizer))
    engine = TorchEngine(model.eval(), World().device, max_tokens=40)
    ids = Ragged.of(tokenizer.encode(LINES))
    sizes = {LanguagePair("it", "th"): 2, LanguagePair("en", "it"): 4}
    data = ValidationSet(ParallelDataset(ids, ids), LINES, LINES, sizes)
    found = validate(engine, data, tokenizer, World(), "rank0")
    each = {}
    for pair, rows in data.directions:
        part = ParallelDataset(*(data.pairs.source.take(range(6)[rows]) for _ in range(2)))
        alone = ValidationSet(part, LINES[rows], LINES[rows], {pair: sizes[pair]})
        each[pair] = validate(engine, alone, tokenizer, World(), "rank0")
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
    ids = Ragged.of(tokenizer.encode(LINES))
    sizes = {LanguagePair("en", "it"): 4, LanguagePair("en", "fr"): 2}
    data = ValidationSet(ParallelDataset(ids, ids), LINES, LINES, sizes)
    found = validate(engine, data, tokenizer, World(), "rank0", identifier=identifier).scores
    # moon and tree of three texts; sun of two, as no language has "river".
    assert found["en-it/off_target"] == pytest.approx(2 / 3)
    assert found["en-fr/off_target"] == 1 / 2 and found["off_target"] == pytest.approx(7 / 12)


def test_auto_is_no_change_for_one_direction():
    state, now = make_state(), {"device": "cpu", "numpy": np.__version__}
    config = {part: dict(values) for part, values in state.run.config.items()}
    state.run.config["train"]["best_metric"], state.environment = "BLEU", now
    assert describe_changes(state, config, now) == []
    state.facts = make_facts(TOKENIZER, ("en", "it"), ("it", "en"))
    (message,) = describe_changes(state, config, now)
    assert message == "Changed: best_metric: BLEU in the checkpoint, chrf now."


# --- runs ---


@pytest.fixture
def sampled(tmp_path: Path) -> list[str]:
    """Flags of a validation of 150 pairs, of which 100 are the sample."""
    lines = [
        f"river {'stone ' * n}{'moon ' * m}{'bird ' * k}".strip()
        for n in range(6)
        for m in range(5)
        for k in range(5)
    ]
    for language in ("en", "it"):
        (tmp_path / f"held.{language}").write_text("".join(f"{line}\n" for line in lines))
    return ["--validation", str(tmp_path / "held")]


def test_a_finished_run_scores_all_pairs_once_with_its_last_and_its_best_weights(
    run: Run, sampled: list[str], tmp_path: Path
):
    # The learning rate rises to 3, so that the loss rises after epoch 1.
    flags = [*sampled, "--lr", "3", "--warmup_steps", "30", "--best_metric", "loss"]
    output = run.start(*flags).succeed()
    assert "100 of 150 pairs in each validation; all of them at the end" in output
    position = last_state(run.folder)["position"]
    assert (position["epoch"], position["best_epoch"]) == (2, 1)
    recorded = metrics(run.folder)
    for group, preload in (("validation_all", "latest"), ("validation_all_best", "best")):
        [record] = (each for each in recorded if f"{group}/loss" in each)
        assert (record["step"], record["epoch"]) == (recorded[-1]["step"], 2)
        # Another code path: the command that reads the texts.
        files = ["--source", f"{sampled[1]}.en", "--reference", f"{sampled[1]}.it"]
        words = ["validate", "--model_folder", str(run.folder), "--preload", preload, *files]
        code, text = translate_ddp(tmp_path, *words)
        scores = (f"{name} {record[f'{group}/{name}']:.4g}" for name in ("loss", "chrf", "cer"))
        assert code == 0 and all(f"{score} " in text.replace(",", " ") for score in scores), text
    assert "epoch 2, step 30: best epoch, all validation pairs: loss " in output
    run.start(*flags).succeed()  # nothing is left to do
    assert metrics(run.folder) == recorded


def test_a_run_keeps_its_sample_when_the_times_of_validation_change(run: Run, sampled: list[str]):
    run.start(*sampled, "--max_steps", "4").succeed()
    tokens = last_state(run.folder)["run"]["sample_tokens"]
    run.start(*sampled, "--validate_every", "1", "--max_steps", "5").succeed()
    assert last_state(run.folder)["run"]["sample_tokens"] == tokens > 0


STOP = faults.several(
    faults.request("term", "validating", time=3), faults.sleep(1, "validating", time=3)
)


@pytest.mark.parametrize("flags", [[], ["--average", "2"], ["--max_steps", "20"]])
def test_a_run_that_is_stopped_while_it_scores_all_pairs_does_it_again(
    run: Run, sampled: list[str], flags: list[str]
):
    straight, flags = run.copy("straight"), [*sampled, *flags]
    straight.start(*flags).succeed()
    found = [record for record in metrics(straight.folder) if "validation_all/loss" in record]
    assert len(found) == 1
    stop = STOP.replace('"time": 3', '"time": 4') if "--average" in flags else STOP
    run.start(*flags, fault=stop).succeed()
    assert run.status["state"] == "preempted"
    assert not any("validation_all/loss" in record for record in metrics(run.folder))
    run.start(*flags).succeed()
    assert run.status["state"] == "finished"
    assert_same_run(straight.folder, run.folder)


def test_a_run_of_two_directions_logs_each_and_chooses_by_chrf(run: Run, sampled: list[str]):
    flags = [*sampled, "--bidirectional"]
    output = run.start(*flags, "--num_epochs", "1").succeed()
    assert "200 of 300 pairs in each validation" in output
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

    other = run.copy("other")
    other.start(*flags, "--validate_on", "all", "--num_epochs", "1", size=2).succeed()
    [again] = (each for each in metrics(other.folder) if "validation/chrf" in each)
    assert again.keys() == record.keys()
    output = run.start(*flags, "--best_metric", "it-en/loss").succeed()
    position = last_state(run.folder)["position"]
    assert position["best_metric"] == "it-en/loss"
    assert position["best_score"] == min(validations(run.folder, "it-en/loss"))
    error = run.start(*flags, "--best_metric", "en-de/loss").fail()
    assert "such as en-it/loss" in error
