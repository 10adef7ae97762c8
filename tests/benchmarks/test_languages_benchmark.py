"""The benchmark of several languages: what it trains, scores, keeps and reports."""

import gzip
import json
import random
from pathlib import Path

import pytest
import sacrebleu

from benchmarks import languages
from benchmarks.languages import LanguagesBenchmark, measure
from tests.helpers.tiny_run import TINY_RUN
from translate_ddp.data.tokenizer import SPAN_TOKENS
from translate_ddp.translator import Translator

WORDS = ["sun", "moon", "tree", "river", "stone", "bird"]
FLAGS = " ".join(TINY_RUN[4 : TINY_RUN.index("--num_epochs")]) + " --num_epochs 1"
TUNED_FLAGS = "--no_report --batch_tokens 100 --seq_len 60 --num_epochs 1"


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


@pytest.mark.parametrize("into_english", [False, True])
def test_models_alone_together_and_tuned_are_scored_on_the_test_set_of_each_direction(
    tmp_path: Path, into_english: bool, monkeypatch: pytest.MonkeyPatch
):
    write_tables(tmp_path)
    settings = LanguagesBenchmark(
        results=tmp_path,
        corpus=tmp_path,
        languages=("fr",) if into_english else ("de", "fr"),
        into_english=into_english,
        run_folder=tmp_path / "runs",
        vocabularies=(300,),
        temperatures=(5.0,),
        alone_flags=FLAGS.replace("--vocab_size 300 ", ""),
        together_flags=FLAGS,
        tuned_flags=TUNED_FLAGS,
        processes=1,
    )
    measure(settings)
    side = settings.side
    report = tmp_path / f"languages_{side}_english_1.json"
    first = json.loads(report.read_text())
    names = ["fr-en", "mean"] if into_english else ["en-de", "en-fr", "mean"]
    assert [row["label"] for row in first["rows"]] == names
    columns = ["alone", "together, 5", "tuned"]
    assert all(list(row["values"]) == columns for row in first["rows"])
    tuned = Translator.open(str(tmp_path / f"runs/tuned-fr-{side}-1"), preload="best")
    tags = [] if into_english else [">>de<<", ">>fr<<"]
    assert tuned.state.run.extra_tokens == [*SPAN_TOKENS, *tags]
    content = gzip.decompress((tmp_path / "en-fr.test.json.gz").read_bytes()).decode()
    pairs = [json.loads(line)["translation"] for line in content.splitlines()]
    source, target = ("fr", "en") if into_english else ("en", "fr")
    found = tuned.translate([pair[source] for pair in pairs], 5)
    expected = sacrebleu.corpus_chrf(found, [[pair[target] for pair in pairs]]).score
    record = json.loads((tmp_path / f"languages/tuned-fr-{side}-1.json").read_text())
    assert record["test"][f"{source}-{target}"]["chrf"] == pytest.approx(expected)
    assert first["rows"][-2]["values"]["tuned"].startswith(f"{expected:.1f} / ")

    def train_again(*_: object) -> None:
        raise AssertionError("everything is trained")

    # The records suffice: the runs may be on another machine.
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    monkeypatch.setattr(languages, "train", train_again)
    measure(settings)
    assert json.loads(report.read_text())["rows"] == first["rows"]
