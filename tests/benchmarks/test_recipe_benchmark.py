"""The benchmark of recipes: its protocol, its records, and the intervals of its comparisons."""

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from benchmarks.common import ROOT, as_flags
from benchmarks.recipe import report, scoring
from benchmarks.recipe.record import Record, Scored, Setting, best, load_records, save_translations
from benchmarks.recipe.report import RecipeReport, compare, sentence_counts, write_recipe_report
from benchmarks.recipe.scoring import CONVENTIONS, TEST, read_lines
from benchmarks.recipe.scoring import test_settings as settings_for_test
from tests import faults
from tests.helpers.commands import environment
from tests.helpers.tiny_run import TINY_RUN
from translate_ddp.errors import UserError
from translate_ddp.presets import with_preset
from translate_ddp.runtime.fault_injection import VARIABLE as FAULT_VARIABLE
from translate_ddp.settings import Config

WORDS = "the a man woman dog plays runs on grass street red blue with ball hat".split()


def sentences(count: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(4, 9))) for _ in range(count)]


def damaged(texts: list[str], share: float, seed: int) -> list[str]:
    """The texts with a share of their words replaced."""
    generator = random.Random(seed)
    replaced = [
        [generator.choice(WORDS) if generator.random() < share else word for word in text.split()]
        for text in texts
    ]
    return [" ".join(words) for words in replaced]


def counts(texts: list[str], references: list[str]) -> np.ndarray:
    return sentence_counts(CONVENTIONS["raw"].metric(), texts, references)


record = partial(
    Record,
    convention="tok",
    flags=[],
    config={},
    parameters=1,
    steps=1,
    epochs=1.0,
    target_tokens=1,
    minutes=1.0,
    facts={},
    signature="",
)


def test_difference_is_that_of_mean_scores_and_its_interval_that_of_resampled_texts(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(report, "RESAMPLES", 30)
    references = sentences(12, 0)
    sides = [[damaged(references, s, seed) for seed in (1, 2)] for s in (0.2, 0.3)]
    found = compare(*([counts(texts, references) for texts in side] for side in sides))

    def difference(rows: Sequence[int]) -> float:
        chosen = [references[row] for row in rows]
        means = [
            np.mean(
                [
                    sacrebleu.corpus_bleu([texts[row] for row in rows], [chosen]).score
                    for texts in side
                ]
            )
            for side in sides
        ]
        return float(means[0] - means[1])

    assert found.mean == pytest.approx(difference(range(12)))
    draws = np.random.default_rng(0).integers(12, size=(30, 12))
    expected = np.quantile([difference(rows.tolist()) for rows in draws], (0.025, 0.975))
    assert (found.low, found.high) == pytest.approx(expected)


def test_p_value_agrees_with_sacrebleu_and_is_1_for_equal_systems():
    references = sentences(60, 0)
    texts = {"baseline": damaged(references, 0.3, 1), "system": damaged(references, 0.2, 2)}
    metric = CONVENTIONS["raw"].metric()
    _, theirs = PairedTest(list(texts.items()), {"BLEU": metric}, [references], test_type="bs")()
    their_result: Any = theirs["BLEU"][1]
    ours = [counts(found, references) for found in texts.values()]
    assert compare(ours[1:], ours[:1]).p == pytest.approx(their_result.p_value, abs=0.05)
    equal = compare(ours[:1], ours[:1])
    assert (equal.mean, equal.low, equal.high, equal.p) == (0, 0, 0, 1)


def test_settings_for_the_test_set_are_chosen_by_validation():
    scores = {
        Setting(1, 1): 30.0,
        Setting(5, 1): 31.0,
        Setting(1, 5, 0.5): 33.0,
        Setting(1, 5, 1.0): 32.0,
        Setting(5, 5, 0.5): 33.5,
        Setting(5, 5, 1.0): 34.0,
    }
    assert settings_for_test([Scored(*entry) for entry in scores.items()], beam_width=5) == {
        "chosen": Setting(5, 5, 1.0),
        "greedy": Setting(5, 1),
        "last, beam": Setting(1, 5, 0.5),
        "last, greedy": Setting(1, 1),
    }


def test_changed_translations_are_not_compared(tmp_path: Path):
    chosen = Setting(1, 5, 0.5)
    lines = ["ein mann .", "", "eine frau ."]
    found = record(
        name="a",
        seed=1,
        validation=[Scored(chosen, 1.0)],
        chosen=chosen,
        test={"chosen": Scored(chosen, 2.0)},
        sha256={"val": save_translations(tmp_path, "a-tok-1", "val", lines)},
    )
    assert Record.load(found.save(tmp_path)) == found
    assert found.translations(tmp_path, "val") == lines
    save_translations(tmp_path, "a-tok-1", "val", lines[::-1])
    with pytest.raises(ValueError, match="is not the file that a-tok-1.json describes"):
        found.translations(tmp_path, "val")


def test_lines_are_read_plain_or_compressed_and_only_newlines_end_them(tmp_path: Path):
    text = "one\ttwo\x85three\n\nfour"
    (tmp_path / "a.en").write_text(text, encoding="utf-8")
    (tmp_path / "b.en.gz").write_bytes(gzip.compress(text.encode()))
    expected = ["one\ttwo\x85three", "", "four"]
    assert [read_lines(str(tmp_path / name)) for name in ("a.en", "b.en")] == [expected, expected]
    with pytest.raises(UserError, match="There is no file .*c.en"):
        read_lines(str(tmp_path / "c.en"))


def test_clock_adds_the_processes_of_a_run_and_failed_training_ends_the_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = tmp_path / "seconds.txt"
    clock.write_text("100\n")
    monkeypatch.setattr(scoring, "python", lambda _: [sys.executable, "-c", "exit(0)"])
    scoring.train([], 1, clock)
    assert 100 < float(clock.read_text()) < 200
    monkeypatch.setattr(scoring, "python", lambda _: [sys.executable, "-c", "exit(3)"])
    with pytest.raises(UserError, match=r"train.py ended with code 3"):
        scoring.train([], 1, clock)


def write_pairs(folder: Path) -> None:
    """A corpus of the layout of Multi30k's: the target is the reversed source."""
    for seed, (split, count) in enumerate(
        {"train": 200, "val": 12, "test_2016_flickr": 15}.items()
    ):
        lines = sentences(count, seed)
        for language, side in (("en", lines), ("de", [line[::-1] for line in lines])):
            text = "".join(f"{line}\n" for line in side)
            (folder / f"{split}.lc.norm.tok.{language}").write_text(text)


def test_recipe_is_trained_scored_and_recorded(tmp_path: Path):
    write_pairs(tmp_path)
    flags = [*TINY_RUN, "--lang_tgt", "de"]
    paths = {"corpus": tmp_path, "results": tmp_path, "model_root": tmp_path / "models"}
    own = ["--convention", "tok", "--name", "full", "--averages", "1", "2"]
    own += ["--length_penalties", "0", "1.5"]
    command = [sys.executable, "-m", "benchmarks.recipe", *as_flags(paths), *own, "--", *flags]

    def run(**changed: str) -> subprocess.CompletedProcess[str]:
        variables = environment() | changed
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=variables)

    stopped = run(**{FAULT_VARIABLE: faults.request("term", "batch", time=3)})
    assert stopped.returncode == 2 and "train.py ended with code 3" in stopped.stderr
    assert not (tmp_path / "recipe").exists()
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr

    found = Record.load(tmp_path / "recipe" / "full-tok-1.json")
    assert found.flags == flags and found.epochs == 2
    assert len(found.validation) == 2 + 2 * 2
    assert found.chosen == best(found.validation, beam_width=5)
    for split, bleu in (
        ("val", found.validation_score(found.chosen)),
        ("test_2016_flickr", found.test["chosen"].bleu),
    ):
        references = read_lines(str(tmp_path / f"{split}.lc.norm.tok.de"))
        translations = found.translations(tmp_path / "recipe", split)
        score = sacrebleu.corpus_bleu(translations, [references], tokenize="none").score
        assert bleu == pytest.approx(score)
    metrics = (tmp_path / "models" / "full-tok-1" / "metrics.jsonl").read_text().splitlines()
    assert found.steps == json.loads(metrics[-1])["step"]


@pytest.mark.parametrize("stem", ["small-tok-1", "small-raw-3"])
def test_preset_small_is_the_recipe_that_was_measured(stem: str):
    measured = Record.load(ROOT / f"benchmarks/results/recipe/{stem}.json")
    preset = with_preset(Config(), "small", set()).to_dict()
    for part in ("model", "loss", "optimizer", "tokenizer"):
        assert measured.config[part] == preset[part]
    for name in ("batch_tokens", "batch_size", "seq_len"):
        assert measured.config["batches"][name] == preset["batches"][name]
    assert measured.config["train"]["num_epochs"] == preset["train"]["num_epochs"]


def write_record(folder: Path, name: str, seed: int, share: float, splits: list[str]) -> None:
    """A record of a system that translates `share` of the words wrongly."""
    chosen, sha256, scores = Setting(5, 5, 1.0), {}, {}
    for split in splits:
        _, references = CONVENTIONS["tok"].read(folder, split)
        texts = damaged(references, share, seed)
        scores[split] = Scored(chosen, CONVENTIONS["tok"].bleu(texts, references))
        sha256[split] = save_translations(folder / "recipe", f"{name}-tok-{seed}", split, texts)
    record(
        name=name,
        seed=seed,
        validation=[scores["val"], Scored(Setting(5, 1), 1.5)],
        chosen=chosen,
        test={"chosen": scores[TEST]} if TEST in scores else {},
        sha256=sha256,
    ).save(folder / "recipe")


def test_report_compares_by_name_over_all_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_pairs(tmp_path)
    (tmp_path / "recipe").mkdir()
    for seed in (1, 2):
        write_record(tmp_path, "full", seed, 0.1, ["val", TEST])
    write_record(tmp_path, "without-x", 1, 0.4, ["val"])
    write_recipe_report(
        RecipeReport(results=tmp_path, corpus=tmp_path, against=("full", "without-x"))
    )
    shown = capsys.readouterr().out
    records = {record.stem: record for record in load_records(tmp_path / "recipe")}
    full = [records[f"full-tok-{seed}"] for seed in (1, 2)]
    found = [record.test["chosen"].bleu for record in full]
    assert f"| {sum(found) / 2:.2f} ({min(found):.2f} to {max(found):.2f}) |" in shown
    scores = [found.validation_score(found.chosen) for found in [*full, records["without-x-tok-1"]]]
    difference = scores[2] - (scores[0] + scores[1]) / 2
    assert f"| tok, without-x, val | {difference:+.2f} |" in shown
    assert f"| tok, full, val | {-difference:+.2f} |" in shown
    titles = [f"Difference to {name}, BLEU" for name in ("full", "without-x")]
    assert [line for line in shown.splitlines() if line.startswith("## ")] == [
        f"## {title}" for title in titles
    ]
    with pytest.raises(UserError, match="no record of 'y', only of full, without-x"):
        write_recipe_report(RecipeReport(results=tmp_path, corpus=tmp_path, against=("y",)))
