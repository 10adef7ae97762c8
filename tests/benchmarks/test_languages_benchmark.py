"""The benchmark of several languages: what it trains, scores, keeps and reports."""

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu

from benchmarks import languages
from benchmarks.languages import LanguagesBenchmark, measure
from tests.helpers import processes
from tests.helpers.tiny_run import TINY_RUN
from translate_ddp.data.tokenizer import SPAN_TOKENS
from translate_ddp.errors import UserError
from translate_ddp.translator import Translator

WORDS = ["sun", "moon", "tree", "river", "stone", "bird"]
FLAGS = " ".join(TINY_RUN[4 : TINY_RUN.index("--num_epochs")]) + " --num_epochs 1"


def write_tables(folder: Path) -> None:
    choose = random.Random(0)
    for language in ("de", "fr"):
        for split, count in (("train", 40), ("dev", 3), ("test", 3)):
            rows = []
            for _ in range(count):
                words = choose.choices(WORDS, k=5)
                pair = {"en": " ".join(words), language: " ".join(f"{w}{language}" for w in words)}
                rows.append(json.dumps({"translation": pair}))
            path = folder / f"en-{language}.{split}.json.gz"
            path.write_bytes(gzip.compress("\n".join(rows).encode()))


def train_forked(flags: list[str], count: int, clock: Path) -> None:
    processes.train(flags, clock.parent, count).succeed()
    clock.write_text("60\n")


@pytest.mark.slow
def test_models_alone_together_and_tuned_are_scored_on_the_test_set_of_each_direction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_tables(tmp_path)
    settings = LanguagesBenchmark(
        results=tmp_path,
        corpus=str(tmp_path / "en-{tgt}.{split}.json.gz"),
        languages=("de", "fr"),
        run_folder=tmp_path / "runs",
        alone=(f"300 {FLAGS}",),
        temperatures=(5.0,),
        together_flags=FLAGS,
        tuned_flags="--no_report --batch_tokens 100 --seq_len 60 --num_epochs 1",
        processes=1,
    )
    monkeypatch.setattr(languages, "train", train_forked)
    measure(settings)
    report = tmp_path / "languages_1.json"
    first = json.loads(report.read_text())
    assert [row["label"] for row in first["rows"]] == ["en-de", "en-fr", "mean"]
    assert all([*row["values"]] == ["alone", "together, 5", "tuned"] for row in first["rows"])
    alone = json.loads((tmp_path / "alone_1.json").read_text())["rows"]
    assert [(row["label"], row["values"]["flags"]) for row in alone][1] == ("en-fr, 300", FLAGS)
    tuned = Translator.open(str(tmp_path / "runs/tuned-fr-1"), preload="best")
    assert [*tuned.facts.extra.names] == [*SPAN_TOKENS, ">>de<<", ">>fr<<"]
    content = gzip.decompress((tmp_path / "en-fr.test.json.gz").read_bytes()).splitlines()
    pairs = [json.loads(line)["translation"] for line in content]
    found = tuned.translate([pair["en"] for pair in pairs], 5)
    expected = sacrebleu.corpus_chrf(found, [[pair["fr"] for pair in pairs]]).score
    assert first["rows"][1]["values"]["tuned"].startswith(f"{expected:.1f} / ")
    # The records suffice: the runs may be on another machine.
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    monkeypatch.setattr(languages, "train", None)
    measure(settings)
    assert json.loads(report.read_text())["rows"] == first["rows"]
    with pytest.raises(UserError, match="alone-de-300-1.json has other flags"):
        measure(replace(settings, alone=("300 --preset small",)))
