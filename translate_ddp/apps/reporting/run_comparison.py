"""The page that compares several runs: scores, curves, and what differs."""

import os
from collections.abc import Sequence
from pathlib import Path

from translate_ddp.apps.reporting.curve_charts import curve_charts
from translate_ddp.apps.reporting.page_template import (
    Block,
    Curves,
    Page,
    Paragraph,
    Problem,
    Problems,
    Section,
    Table,
    render_page,
)
from translate_ddp.apps.reporting.run_page import (
    DATA,
    ENVIRONMENT,
    facts,
    flag_text,
    score_text,
    steps_text,
    utc,
)
from translate_ddp.apps.reporting.run_summary import Summary, best_score, summarize
from translate_ddp.console import describe_seconds
from translate_ddp.run_record import RunRecord
from translate_ddp.training.metrics import METRICS, TITLES

PLACES = ("model_folder", "model_basename")  # settings without an effect on the result
NOT_COMPARABLE = Problem(
    "The runs differ in languages or in the number of validation pairs: their scores cannot be "
    "compared"
)


def render_comparison(records: Sequence[RunRecord], now: float) -> str:
    """The page of two to eight runs at the time `now`, complete in itself and below 1 MB."""
    names = run_names([record.folder for record in records])
    runs = [summarize(record, now, name) for name, record in zip(names, records, strict=True)]
    problems = [
        Problem(f"{run.name}: {problem}") for run in runs for problem in run.record.problems
    ]
    if not are_comparable(runs):
        problems.append(NOT_COMPARABLE)
    explanation = Paragraph(
        "The best score of each metric; in brackets: the step of its validation. Whether a "
        "difference may be chance, `translate-ddp validate --compare` tests."
    )
    return render_page(
        Page(
            title=f"Comparison of {len(runs)} runs",
            subtitle=f"As of {utc(now)} UTC.",
            sections=[
                Section("scores", "Scores", [scores_table(runs), explanation]),
                Section("curves", "Curves", [Curves(curve_charts(runs))]),
                Section("differences", "What differs", [differences(runs)]),
            ],
            top=[Problems(problems)] if problems else [],
        )
    )


def run_names(folders: Sequence[Path]) -> list[str]:
    """The paths below the folder that all have in common."""
    paths = [folder.resolve() for folder in folders]
    common = os.path.commonpath([path.parent for path in paths])
    return [os.path.relpath(path, common) for path in paths]


def are_comparable(runs: Sequence[Summary]) -> bool:
    """Whether the languages and the known numbers of validation pairs are the same."""
    pairs = {run.launch.validation_pairs for run in runs} - {0}
    languages = {(run.launch.lang_src, run.launch.lang_tgt) for run in runs}
    return len(pairs) < 2 and len(languages) == 1


def scores_table(runs: Sequence[Summary]) -> Table:
    """State, time and speed of each run, and its best score of each metric with the step."""
    names = [
        each.name
        for each in METRICS
        if any(f"validation/{each.name}" in run.record.curves for run in runs)
    ]
    rows = []
    for run in runs:
        speed = f"{run.tokens_per_second:,.0f}" if run.tokens_per_second else "–"
        row = [run.name, run.state, steps_text(run), describe_seconds(run.clock.total), speed]
        for name in names:
            score = best_score(run.record, name)
            row.append(f"{score_text(name, score.value)} ({score.step:,})" if score else "–")
        rows.append(row)
    columns = ["run", "state", "steps", "training time", "tokens/s"]
    columns += [TITLES.get(name, name) for name in names]
    return Table("Scores of the runs", columns, rows, has_numbers=True)


def differences(runs: Sequence[Summary]) -> Block:
    """The settings and facts in which the runs differ: the name, and the value of each run."""
    known = [
        dict(facts(run.launch, ENVIRONMENT | DATA))
        | {name: flag_text(value) for name, value in run.record.settings.items()}
        for run in runs
    ]
    names = dict.fromkeys(name for each in known for name in each if name not in PLACES)
    rows = [[name, *(each.get(name) or "–" for each in known)] for name in names]
    rows = [row for row in rows if len(set(row[1:])) > 1]
    if not rows:
        return Paragraph("The settings are the same.")
    return Table("What differs", ["setting", *(run.name for run in runs)], rows, short_columns=1)
