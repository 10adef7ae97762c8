"""The page that compares runs: names, scores, curves, settings, and paired tests."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from tests.helpers.charts import drawn, svg
from tests.helpers.pages import Page, section, tables
from tests.helpers.records import START, STEPS, launch, write_events, write_metrics, write_run
from translate_ddp.apps.reporting import comparison
from translate_ddp.apps.reporting.axes import LEFT, RIGHT
from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.comparison import (
    ComparedRun,
    charts,
    differences,
    paired_tests,
    render_comparison,
    run_names,
    scores_table,
)
from translate_ddp.apps.reporting.reading import read_run
from translate_ddp.apps.reporting.summary import summarize
from translate_ddp.apps.reporting.svg import WIDTH
from translate_ddp.run_record import (
    METRICS_FILE,
    SETTINGS_FILE,
    VALIDATION_FILE,
    LastValidation,
    RunRecord,
)
from translate_ddp.training.bootstrap import Comparison, compare

NOW = START + 100_000


def compared(*records: RunRecord) -> list[ComparedRun]:
    clocks = map(Clock.of, records)
    return [
        ComparedRun(f"run {number}", record, summarize(record, clock, NOW), clock)
        for number, (record, clock) in enumerate(zip(records, clocks, strict=True), 1)
    ]


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    write_run(tmp_path / "one")
    return read_run(tmp_path / "one")


def with_texts(record: RunRecord, change: Callable[[str], str]) -> RunRecord:
    """The record with other translations in its last validation."""
    validation = record.validation
    assert validation is not None
    rows = [(source, reference, change(text)) for source, reference, text in validation.rows]
    return replace(record, validation=replace(validation, rows=rows))


def test_runs_are_named_by_as_many_parts_of_their_paths_as_tell_them_apart():
    assert run_names([Path("/a/x"), Path("/b/y")]) == ["x", "y"]
    assert run_names([Path("/a/x"), Path("/b/x"), Path("/b/y")]) == ["a/x", "b/x", "b/y"]
    assert run_names([Path("/x"), Path("/b/x")]) == ["/x", "b/x"]


def test_the_best_score_of_each_metric_has_its_step(record: RunRecord):
    table = scores_table(compared(record, replace(record, curves={})))
    first, second = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    last = f"({10 * STEPS:,})"
    assert first["BLEU"] == f"40.00 {last}" and first["chrF"] == f"62.00 {last}"
    assert first["loss (nats/token)"].endswith(last) and first["WER"] == f"0.55 {last}"
    assert first["state"] == "finished" and first["steps"] == f"{10 * STEPS:,} of {10 * STEPS:,}"
    assert second["BLEU"] == second["tokens/s"] == "–"


def test_only_what_differs_is_shown(tmp_path: Path):
    for name in ("a", "b"):
        write_run(tmp_path / name)
    settings = f"seed: 3\nmodel_folder: {tmp_path}\ndataset: [x, y]\ncompile: true\n"
    (tmp_path / "a" / SETTINGS_FILE).write_text(settings + "lr: 0.003\n")
    other = settings.replace("seed: 3", "seed: 4").replace("[x, y]", "[x]").replace("true", "false")
    other = other.replace(str(tmp_path), "elsewhere")
    (tmp_path / "b" / SETTINGS_FILE).write_text(other)
    write_events(tmp_path / "b", [launch(START, 0, world_size=16, train_pairs=0)])
    found = differences(compared(*(read_run(tmp_path / name) for name in ("a", "b"))))
    assert found == [
        ["ranks", "2", "16"],
        ["training pairs", "29,000", "–"],
        ["seed", "3", "4"],
        ["dataset", "x y", "x"],
        ["compile", "true", "false"],
        ["lr", "0.003", "–"],
    ]


def test_translations_of_the_same_sentences_are_tested_in_pairs(record: RunRecord):
    other = with_texts(record, lambda text: text.replace("Mann", "Frau"))
    rows, reasons = paired_tests(compared(record, other))
    assert record.validation and other.validation and not reasons
    sides = (each.rows for each in (record.validation, other.validation))
    old, new = ([row[2] for row in rows] for rows in sides)
    expected = compare(new, old, [row[1] for row in record.validation.rows], "de")
    bleu, chrf = expected["BLEU"], expected["chrf"]
    step = f"{10 * STEPS:,}"
    assert rows[0] == [
        "run 1",
        step,
        f"{bleu.baseline:.2f}",
        "",
        "",
        f"{chrf.baseline:.2f}",
        "",
        "",
    ]
    assert rows[1][:3] == ["run 2", step, f"{bleu.score:.2f}"]
    assert rows[1][3].startswith("\u2212")
    difference = float(rows[1][3].replace("\u2212", "-"))
    assert difference == pytest.approx(bleu.score - bleu.baseline, abs=0.005) and difference < 0
    assert bleu.p_value < 0.001 and rows[1][4] == rows[1][7] == "< 0.001"


@pytest.mark.parametrize(("language", "tokenizer"), [("de", "13a"), ("zh", "zh"), ("th", "char")])
def test_the_target_language_chooses_the_tokenizer_of_the_paired_test(
    record: RunRecord, language: str, tokenizer: str
):
    rows = [(f"{n}", "我们去公园, abc def ghi", f"我们去花园, abc {n}ef ghi") for n in range(5)]
    runs = [
        replace(record, validation=LastValidation(1, language, texts))
        for texts in (rows, [(source, target, target) for source, target, _ in rows])
    ]
    [old, new], _ = paired_tests(compared(*runs))
    bleu = sacrebleu.BLEU(tokenize=tokenizer)
    expected = bleu.corpus_score([row[2] for row in rows], [[row[1] for row in rows]]).score
    assert old[2] == f"{expected:.2f}" and new[2:4] == ["100.00", f"+{100 - expected:.2f}"]


@pytest.mark.parametrize(
    ("second", "is_one"),
    [
        ({}, True),
        ({"validation_pairs": 1015}, False),
        ({"lang_tgt": "fr"}, False),
        ({"lang_src": "fr"}, False),
        ({"datasets": ["other"], "train_pairs": 3}, True),  # another corpus for training
    ],
)
def test_scores_of_other_languages_or_sentences_are_named_as_not_comparable(
    tmp_path: Path, second: dict[str, Any], is_one: bool
):
    for name, values in (("one", {}), ("two", second)):
        write_metrics(tmp_path / name, [])
        write_events(tmp_path / name, [launch(START, 0, **values)])
    html = render_comparison([read_run(tmp_path / name) for name in ("one", "two")], NOW)
    assert ("their scores cannot be compared" not in html) == is_one


def test_runs_with_other_sentences_or_none_are_not_tested(record: RunRecord):
    assert record.validation is not None
    fewer = replace(record, validation=replace(record.validation, rows=record.validation.rows[1:]))
    none = replace(record, validation=None)
    empty = replace(record, validation=LastValidation(1, "de", []))
    rows, reasons = paired_tests(compared(record, fewer, none, empty, record))
    assert [row[0] for row in rows] == ["run 1", "run 5"] and float(rows[1][4]) == 1
    assert reasons == [
        "<bdi>run 2</bdi> was validated with other sentences than <bdi>run 1</bdi>.",
        "<bdi>run 3</bdi> has not kept the translations of a validation.",
        "<bdi>run 4</bdi> has not kept the translations of a validation.",
    ]
    rows, reasons = paired_tests(compared(none, record, fewer))
    assert not rows and list(map(str, reasons)) == [
        "<bdi>run 1</bdi> has not kept the translations of a validation."
    ]


def test_each_chart_has_a_line_for_each_run(record: RunRecord, tmp_path: Path):
    without = {name: curve for name, curve in record.curves.items() if name != "validation/BLEU"}
    other = replace(record, folder=tmp_path / "two", curves=without)
    html = render_comparison([record, other], NOW)
    captions = re.findall("<figcaption>(.*?)</figcaption>", html)
    over_steps, over_time = captions[: len(captions) // 2], captions[len(captions) // 2 :]
    assert over_steps == over_time
    assert captions[0] == "Loss, in nats per token: training objective"
    assert {"BLEU and chrF of validation: BLEU", "Learning rate"} <= set(captions)
    figures = re.findall("<figure.*?</figure>", html, re.S)
    assert all("one" in Page(figure).text and "two" in Page(figure).text for figure in figures)
    bleu, _ = [each for each in figures if "validation: BLEU<" in each]
    assert "two: no values" in bleu and "40 at 1,800" in bleu


def test_the_page_has_the_tests_the_differences_and_the_problems(record: RunRecord, tmp_path: Path):
    worse = with_texts(record, lambda text: text.replace("Mann", "Frau"))
    worse = replace(worse, folder=tmp_path / "two", settings={"seed": 8}, problems=["a <b>"])
    none = replace(record, folder=tmp_path / "three", validation=None, settings={})
    html = render_comparison([replace(record, settings={"seed": 7}), worse, none], NOW)
    names = ("scores", "tests", "differences", "problems")
    parts = {name: part for name in names if (part := section(html, name)) is not None}
    texts = {name: " ".join("".join(part.itertext()).split()) for name, part in parts.items()}
    assert "As of 2027-01-16 11:46 UTC" in texts["scores"]
    [tested] = tables(parts["tests"])
    expected, _ = paired_tests(compared(record, worse))
    assert [row[1:] for row in tested[1:]] == [row[1:] for row in expected]
    assert "three has not kept the translations" in texts["tests"]
    [differing] = tables(parts["differences"])
    assert differing == [["setting", "one", "two", "three"], ["seed", "7", "8", "–"]]
    assert "two: a <b>" in texts["problems"]


def test_the_axes_of_all_charts_end_with_the_longest_run(record: RunRecord, tmp_path: Path):
    write_run(tmp_path / "half", 5, "preempted", planned=5)
    half = read_run(tmp_path / "half")
    found = [figure for pair in charts(compared(record, half)) for figure in map(svg, pair)]
    for figure in found:
        long, short = (drawn(figure, "line")[number][-1][0] for number in (0, 1))
        assert long > short > LEFT
        assert long == pytest.approx(WIDTH - RIGHT, abs=10)  # the last record is just before it


def test_a_page_of_eight_long_runs_is_below_a_megabyte(tmp_path: Path):
    noise = [(n * 7919) % 10_007 / 10_007 for n in range(3000)]
    names = ["train/loss", "train/nll", "train/lr", "train/grad_norm", "train/tokens_per_second"]
    names += ["validation/loss", "validation/BLEU", "validation/chrf", "validation/cer", "extra"]
    for number in range(8):
        folder = tmp_path / f"{number} {'long name ' * 20}"
        write_run(folder)
        lines = [
            {"step": n + 1, "time": START + n} | {name: noise[n] * n for name in names}
            for n in range(len(noise))
        ]
        (folder / METRICS_FILE).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        (folder / VALIDATION_FILE).unlink()
    html = render_comparison([read_run(folder) for folder in sorted(tmp_path.iterdir())], NOW)
    assert 100_000 < len(html.encode()) < 1_000_000


def test_the_same_translations_are_tested_once(record: RunRecord, monkeypatch: pytest.MonkeyPatch):
    calls: list[object] = []

    def counted(*texts: Any) -> dict[str, Comparison]:
        calls.append(texts)
        return compare(*texts)

    monkeypatch.setattr(comparison, "compare", counted)
    other = with_texts(record, str.upper)
    for _ in range(3):
        paired_tests(compared(record, other))
    assert len(calls) == 1
