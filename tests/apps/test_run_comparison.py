"""The page that compares runs: names, scores, curves, and settings."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.charts import drawn, svg, texts
from tests.helpers.pages import Page, section, tables
from tests.helpers.records import (
    START,
    STEPS,
    launch,
    write_events,
    write_metrics,
    write_run,
)
from translate_ddp.apps.reporting.curve_charts import curve_charts
from translate_ddp.apps.reporting.page_template import Paragraph, Table
from translate_ddp.apps.reporting.run_comparison import (
    differences,
    render_comparison,
    run_names,
    scores_table,
)
from translate_ddp.apps.reporting.run_summary import Summary, summarize
from translate_ddp.apps.reporting.svg_charts import LEFT, RIGHT, WIDTH
from translate_ddp.run_record import (
    SETTINGS_FILE,
    RunRecord,
    read_run,
)

NOW = START + 100_000


def compared(*records: RunRecord) -> list[Summary]:
    return [summarize(record, NOW, f"run {number}") for number, record in enumerate(records, 1)]


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    write_run(tmp_path / "one")
    return read_run(tmp_path / "one")


def test_runs_are_named_by_their_paths_below_the_folder_that_they_have_in_common():
    assert run_names([Path("/a/x"), Path("/a/y")]) == ["x", "y"]
    assert run_names([Path("/a/x"), Path("/b/x"), Path("/b/y")]) == ["a/x", "b/x", "b/y"]
    assert run_names([Path("/x"), Path("/x/b")]) == ["x", "x/b"]


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
    settings = f"seed: 3\nmodel_folder: {tmp_path}\ndataset: [x, y]\ndeterministic: true\n"
    (tmp_path / "a" / SETTINGS_FILE).write_text(settings + "lr: 0.003\n")
    other = settings.replace("seed: 3", "seed: 4").replace("[x, y]", "[x]").replace("true", "false")
    other = other.replace(str(tmp_path), "elsewhere")
    (tmp_path / "b" / SETTINGS_FILE).write_text(other)
    write_events(tmp_path / "b", [launch(START, 0, world_size=16, train_pairs=0)])
    found = differences(compared(*(read_run(tmp_path / name) for name in ("a", "b"))))
    assert isinstance(found, Table) and found.rows == [
        ["ranks", "2", "16"],
        ["training pairs", "29,000", "–"],
        ["seed", "3", "4"],
        ["dataset", "x y", "x"],
        ["deterministic", "true", "false"],
        ["lr", "0.003", "–"],
    ]


def test_runs_with_the_same_settings_have_no_table_of_differences(record: RunRecord):
    assert differences(compared(record, record)) == Paragraph("The settings are the same.")


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


def test_each_chart_has_a_line_for_each_run(record: RunRecord, tmp_path: Path):
    without = {name: curve for name, curve in record.curves.items() if name != "validation/BLEU"}
    other = replace(record, folder=tmp_path / "two", curves=without)
    html = render_comparison([record, other], NOW)
    captions = re.findall("<figcaption>(.*?)</figcaption>", html)
    over_steps, over_time = captions[: len(captions) // 2], captions[len(captions) // 2 :]
    assert over_steps == over_time
    assert captions[0] == "Loss, in nats per token: training objective"
    assert {"BLEU and chrF of validation: BLEU", "Learning rate"} <= set(captions)
    figures = figures_of(html)
    assert all("one" in Page(figure).text and "two" in Page(figure).text for figure in figures)
    bleu, _ = [each for each in figures if "validation: BLEU<" in each]
    assert "two: no values" in bleu and "40 at 1,800" in bleu


def test_the_page_has_the_scores_the_differences_and_the_problems(
    record: RunRecord, tmp_path: Path
):
    other = replace(
        record, folder=tmp_path / "two", settings={"seed": 8}, problems=["a <b>"], curves={}
    )
    html = render_comparison([replace(record, settings={"seed": 7}), other], NOW)
    text = Page(html).text
    assert "As of 2027-01-16 11:46 UTC" in text and "two: a <b>" in text
    for name, expected in (("scores", "40.00 (1,800)"), ("differences", "seed 7 8")):
        found = section(html, name)
        assert found is not None
        assert expected in " ".join(cell for row in tables(found)[0] for cell in row)


def figures_of(html: str) -> list[str]:
    return re.findall("<figure.*?</figure>", html, re.S)


def test_runs_are_compared_over_their_own_time_of_training(tmp_path: Path):
    for name, first, every in (("one", 1000.0, 30), ("two", 5e8, 60)):
        lines = [
            {"step": n, "time": first + n * every, "train/lr": 1.0 + n} for n in range(0, 11, 2)
        ]
        write_metrics(tmp_path / name, lines)
    write_metrics(tmp_path / "three", [{"step": 1, "time": 7.0, "train/nll": 1.0}])
    found = compared(*(read_run(tmp_path / name) for name in ("three", "one", "two")))
    [(over_steps, over_time)] = (
        tuple(map(svg, pair)) for pair in curve_charts(found) if "Learning rate" in pair[0]
    )
    ends = [
        [line[-1][0] if line else None for line in drawn(c, "line")]
        for c in (over_steps, over_time)
    ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    assert ends == [[None, WIDTH - RIGHT, WIDTH - RIGHT], [None, middle, WIDTH - RIGHT]]
    # The first run has no points, and its colour stays free.
    lines = [group.get("class") for group in over_time.iter("g") if group.find("title") is not None]
    assert lines == ["color-0", "color-1", "color-2"] and "minutes of training" in texts(over_time)
