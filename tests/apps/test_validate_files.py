"""`validate` and `score`: files of every format, existing translations, and comparisons."""

import json
import os
import re
import tempfile
from pathlib import Path

import pytest
import sacrebleu

from tests.helpers import file_translation, processes
from tests.helpers.commands import run_translate_ddp, translate_ddp
from tests.helpers.runs import records, validations
from translate_ddp.apps.commands.info import InfoConfig
from translate_ddp.apps.commands.model_commands import SavedModel
from translate_ddp.translator import Translator

SOURCES = ["sun moon", "tree {river} fish", "wolf stone moon bird", "river", "fish sun sun"]
REFERENCES = ["moon sun", "fish river tree", "bird moon stone wolf", "river", "sun sun fish"]
HYPOTHESES = ["moon sun", "fish river moon", "bird moon stone wolf", "sun", "sun fish"]


def lines(path: Path, texts: list[str]) -> str:
    path.write_text("".join(f"{text}\n" for text in texts))
    return str(path)


@pytest.fixture
def table(tmp_path: Path) -> str:
    rows = zip(SOURCES, REFERENCES, strict=True)
    return lines(tmp_path / "set.jsonl", [json.dumps({"en": en, "it": it}) for en, it in rows])


def command(tmp_path: Path, *words: str) -> str:
    code, output = translate_ddp(tmp_path / "printed", *words)
    assert code == 0, output
    return output


def score_line(output: str) -> str:
    (line,) = [line for line in output.splitlines() if "sentences: " in line]
    return line.partition("sentences: ")[2]


def test_table_and_two_files_give_the_same_scores(trained: Path, tmp_path: Path, table: str):
    folder = ["--model_folder", str(trained)]
    by_table = command(tmp_path, "validate", "--source", table, *folder)
    rows = zip(REFERENCES, SOURCES, strict=True)
    named = lines(tmp_path / "x.tsv", ["text\ttranslation", *map("\t".join, rows)])
    flags = ["--source", named, "--src_column", "translation", "--tgt_column", "text", *folder]
    assert score_line(command(tmp_path, "validate", *flags)) == score_line(by_table)
    source = lines(tmp_path / "a.en", SOURCES)
    files = ["--source", source, "--reference", lines(tmp_path / "a.it", REFERENCES)]
    assert score_line(command(tmp_path, "validate", *files, *folder)) == score_line(by_table)
    assert "{" not in by_table.replace("{river}", "")  # of the JSON


def test_written_translations_have_the_scores_of_the_model(
    trained: Path, tmp_path: Path, table: str
):
    output = str(tmp_path / "out.it")
    flags = ["--source", table, "--beam_width", "2"]
    model = command(
        tmp_path, "validate", *flags, "--model_folder", str(trained), "--output", output
    )
    translator = Translator.open(str(trained))
    written = Path(output).read_text().splitlines()
    assert written == translator.translate(SOURCES, 2)  # each has one sentence
    languages = ["--from", "en", "--to", "it", "--model_folder", "nowhere"]
    files = ["--source", table, "--hypothesis", output]
    existing = command(tmp_path, "validate", *files, *languages)
    loss, _, others = score_line(model).partition(", ")
    assert loss.startswith("loss ") and score_line(existing) == others
    code, printed = translate_ddp(
        tmp_path, "validate", *flags, "--model_folder", str(trained), "--output", output
    )
    assert code == 2 and f"error: {output} exists already" in printed
    assert Path(output).read_text().splitlines() == written


def test_output_without_a_folder_ends_before_the_model_is_opened(tmp_path: Path, table: str):
    output = tmp_path / "missing" / "out.it"
    flags = ["--source", table, "--model_folder", "nowhere", "--output", str(output)]
    code, printed = translate_ddp(tmp_path, "validate", *flags)
    assert code == 2 and f"error: There is no folder {output.parent}" in printed


def test_validation_reports_the_scores_of_sacrebleu(tmp_path: Path, table: str):
    files = ["--source", table, "--hypothesis", lines(tmp_path / "h.it", HYPOTHESES)]
    other = lines(tmp_path / "other.it", SOURCES)
    languages = ["--from", "en", "--to", "it"]
    output = command(tmp_path, "validate", *files, *languages, "--compare", other)
    shown = score_line(output)
    assert "BLEU signature: nrefs:1|case:mixed" in output
    for name, score in (
        ("BLEU", sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES])),
        ("chrf++", sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES], word_order=2)),
        ("ter", sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES])),
    ):
        assert f"{name} {score.score:.4g}" in shown, name
    bleu = sacrebleu.BLEU().corpus_score(HYPOTHESES, [REFERENCES], n_bootstrap=1000)
    assert f"samples): BLEU {bleu._mean:.4g} ± {bleu._ci:.4g}, chrf " in output
    difference = bleu.score - sacrebleu.corpus_bleu(SOURCES, [REFERENCES]).score
    assert f"{other}: BLEU " in output and f"BLEU {difference:+.4g} (p = 0." in output


@pytest.mark.slow
def test_model_is_compared_with_another_checkpoint(trained: Path, tmp_path: Path, table: str):
    (first,) = trained.glob("tmodel_epoch_0001_*")
    flags = ["--source", table, "--model_folder", str(trained)]
    with_file = command(tmp_path, "validate", *flags, "--compare", str(first))
    by_itself = command(tmp_path, "validate", "--source", table, "--preload", str(first))
    baseline = next(
        line for line in with_file.splitlines() if line.startswith(f"{first} (epoch 1, ")
    )
    scores = score_line(by_itself).partition(", chrf++")[0]
    assert baseline.rpartition(": ")[2] == scores
    same = command(tmp_path, "validate", *flags, "--compare", str(trained))
    assert "BLEU +0 (p = 1.000), chrf +0 (p = 1.000)" in same


def test_perturbed_sources_are_not_split_as_those_of_the_scores_above(
    trained: Path, tmp_path: Path
):
    texts = ["sun. moon.", "tree", "", "wolf. bird! fish?"]
    source = lines(tmp_path / "s.en", texts)
    flags = ["--source", source, "--reference", source, "--model_folder", str(trained)]
    output = command(tmp_path, "validate", *flags, "--perturbed")
    above = re.search(r"BLEU \S+, chrf \S+, cer \S+", score_line(output))
    found = dict(line.split(": ", 1) for line in output.splitlines() if ", BLEU " in line)
    assert list(found)[1:] == ["lower case", "upper case", "no end punctuation"]
    assert above and above[0] in found["lower case"] and "Warning" not in output
    assert output.count("2 of the 4 sources have several sentences") == 1


def test_unusable_combinations_are_reported(trained: Path, tmp_path: Path, table: str):
    short = lines(tmp_path / "short.it", HYPOTHESES[1:])
    languages = ["--from", "en", "--to", "it"]
    for words, message in (
        (["--source", table, "--hypothesis", short], "needs --from and --to"),
        (["--source", table, "--hypothesis", short, *languages], "has 4 translations for 5"),
        (["--hypothesis", short, "--perturbed"], "--perturbed needs a model"),
        (["--reference", short], "--reference needs --source"),
        (["--src_column", "a"], "for a --source with both sides"),
        (["--output", "x.xz"], "lines of text: pass a name without .xz"),
        (["--output", "x.XLSX"], "lines of text: pass a name without .XLSX"),
    ):
        code, output = translate_ddp(tmp_path, "validate", *words, "--model_folder", str(trained))
        plain = " ".join(output.replace("│", " ").split())
        assert code == 2 and message in plain and "Traceback" not in output, plain


def test_unusable_names_of_a_model_are_errors_of_the_command_line():
    for read in (SavedModel, InfoConfig):
        with pytest.raises(ValueError, match="model_basename may hold letters"):
            read(model_basename="a b")
    with pytest.raises(ValueError, match="model_folder is empty"):
        SavedModel("")


def test_validation_by_several_processes_is_an_error(trained: Path, tmp_path: Path):
    words = ("validate", "--model_folder", str(trained))
    output = processes.start(run_translate_ddp, tmp_path, 2, None, words).fail()
    assert "validate is one process: start it without torchrun" in output


def run_in(folder: Path, words: tuple[str, ...]) -> None:
    os.chdir(folder / "here")
    tempfile.tempdir = str(folder / "temporary")
    run_translate_ddp(words)


@pytest.mark.slow
def test_nothing_is_written_to_the_current_folder(trained: Path, tmp_path: Path):
    (first,) = trained.glob("tmodel_epoch_0001_*")
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    loss = f"loss {validations(trained, 'loss')[0]:.4g} "
    words = ("validate", "--model_folder", str(first))
    job = processes.start(run_in, tmp_path / "printed", 1, None, tmp_path, words)
    assert loss in job.succeed()
    assert os.listdir(tmp_path / "here") == os.listdir(tmp_path / "temporary") == []
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_scores_of_the_validation_set_give_its_loss(trained: Path, tmp_path: Path):
    output = str(tmp_path / "scores.jsonl")
    words = ["score", "--model_folder", str(trained), "--preload", "2", "--output", output]
    printed = file_translation.start(tmp_path / "printed", *words, size=2).succeed()
    rows = [json.loads(line) for line in Path(output).read_text().splitlines()]
    values = [value for row in rows for value in row["log_probs"]]
    loss = [record for record in records(trained) if "validation/loss" in record][-1]
    assert -sum(values) / len(values) == pytest.approx(loss["validation/loss"], abs=1e-5)
    (shown,) = re.findall(rf"^{len(rows)} pairs, {len(values):,} tokens: (\S+)", printed, re.M)
    assert float(shown) == pytest.approx(loss["validation/loss"], abs=1e-5)
    for row in rows:
        assert len(row["tokens"]) == len(row["log_probs"])
        assert "".join(row["tokens"]) == f" {row['reference']}"
        assert row["log_prob"] == pytest.approx(sum(row["log_probs"]), abs=1e-5)
        assert row["score"] == pytest.approx(row["log_prob"] / len(row["tokens"]), abs=1e-5)


def test_scores_of_a_table_equal_those_of_the_engine(trained: Path, tmp_path: Path, table: str):
    output = command(tmp_path, "score", "--source", table, "--model_folder", str(trained))
    translator = Translator.open(str(trained))
    sources, targets = (translator.tokenizer.encode(side) for side in (SOURCES, REFERENCES))
    expected = translator.engine.log_probs(sources, targets)
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert [row["source"] for row in rows] == SOURCES
    for row, log_probs in zip(rows, expected, strict=True):
        assert row["log_probs"] == pytest.approx(log_probs.tolist(), abs=2e-6)
