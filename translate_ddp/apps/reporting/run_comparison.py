"""The page that compares several runs: scores, curves, and what differs."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.reporting.curve_charts import POINTS, CurveCharts, Line, panels
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
    untrusted,
)
from translate_ddp.apps.reporting.run_page import LABELS, flag_text, score_text, utc
from translate_ddp.apps.reporting.run_summary import Summary, best_score, summarize
from translate_ddp.quantities import describe_seconds
from translate_ddp.run_record import Curve, RunRecord
from translate_ddp.training.metrics import METRICS

MAX_OTHERS = 4  # charts of curves that PANELS does not have
LINE_POINTS = 4 * POINTS  # of all lines of a chart, so that the page stays below 1 MB
# Facts of the last launch, beside the settings.
FACTS = {
    "model": "model",
    "parameters": "parameters",
    "precision": "precision",
    "device": "device",
    "world_size": "ranks",
    "nodes": "nodes",
    "threads": "threads of a rank",
    "train_pairs": "training pairs",
    "validation_pairs": "validation pairs",
    "vocab_size": "vocabulary",
    "version": "translate_ddp",
    "torch": "torch",
}
PLACES = ("model_folder", "model_basename")  # settings without an effect on the result
EMPTY = Curve(np.empty(0), np.empty(0), np.empty(0))
NOT_COMPARABLE = Problem(
    "The runs differ in languages or in the number of validation pairs: their scores cannot be "
    "compared"
)


@dataclass(frozen=True)
class ComparedRun:
    name: str
    record: RunRecord
    summary: Summary


def render_comparison(records: Sequence[RunRecord], now: float) -> str:
    """The page of two to eight runs at the time `now`, complete in itself and below 1 MB."""
    names = run_names([record.folder for record in records])
    runs = [
        ComparedRun(name, record, summarize(record, now))
        for name, record in zip(names, records, strict=True)
    ]
    problems = [
        Problem(f"{run.name}: {problem}") for run in runs for problem in run.record.problems
    ]
    scores: list[Block] = [
        scores_table(runs),
        Paragraph(
            "The best score of each metric; in brackets: the step of its validation. Whether a "
            "difference may be chance, `python -m translate_ddp validate --compare` tests."
        ),
    ]
    return render_page(
        Page(
            title=f"Comparison of {len(runs)} runs",
            subtitle=f"As of {utc(now)} UTC.",
            sections=[
                Section("scores", "Scores", scores),
                Section("curves", "Curves", [Curves(comparison_charts(runs))]),
                Section("differences", "What differs", [differences(runs)]),
            ],
            top=[Problems(found)] if (found := problems + not_comparable(runs)) else [],
        )
    )


def run_names(folders: Sequence[Path]) -> list[str]:
    """The paths below the folder that all have in common."""
    paths = [folder.resolve() for folder in folders]
    common = os.path.commonpath([path.parent for path in paths])
    return [os.path.relpath(path, common) for path in paths]


def not_comparable(runs: Sequence[ComparedRun]) -> list[Problem]:
    """The problem of runs with other languages or another known number of validation pairs."""
    pairs = {run.summary.launch.validation_pairs for run in runs} - {0}
    languages = {(run.summary.launch.lang_src, run.summary.launch.lang_tgt) for run in runs}
    is_comparable = len(pairs) < 2 and len(languages) == 1
    return [] if is_comparable else [NOT_COMPARABLE]


def scores_table(runs: Sequence[ComparedRun]) -> Table:
    """State, time and speed of each run, and its best score of each metric with the step."""
    names = [metric.name for metric in METRICS]
    best = {name: [best_score(run.record, name) for run in runs] for name in names}
    names = [name for name in names if any(best[name])]
    rows = []
    for number, run in enumerate(runs):
        summary = run.summary
        of = f" of {summary.total_steps:,}" if summary.total_steps else ""
        speed = summary.tokens_per_second
        row = [run.name, summary.state, f"{summary.step:,}{of}"]
        row += [describe_seconds(summary.clock.total), f"{speed:,.0f}" if speed else "–"]
        for name in names:
            score = best[name][number]
            row.append(f"{score_text(name, score.value)} ({score.step:,})" if score else "–")
        rows.append(row)
    columns = ["run", "state", "steps", "training time", "tokens/s"]
    columns += [LABELS.get(name, name) for name in names]
    return Table("Scores of the runs", columns, rows, has_numbers=True)


def comparison_charts(runs: Sequence[ComparedRun]) -> list[tuple[Markup, Markup]]:
    """Each chart over steps and over time, with a line for each run."""
    curves = [item for run in runs for item in run.record.curves.items()]
    known = dict.fromkeys(name for name, curve in curves if len(curve) > 1)
    last_step = max(float(run.summary.step) for run in runs)
    last_second = max(run.summary.clock.total for run in runs)
    charts = CurveCharts(last_step, last_second, points=LINE_POINTS // len(runs))
    found = []
    for panel in panels(known, MAX_OTHERS):
        for name in filter(known.__contains__, panel.names):
            lines = []
            for run in runs:
                curve = run.record.curves.get(name, EMPTY)
                seconds = run.summary.clock.seconds(curve.times)
                lines.append(Line(untrusted(run.name), curve, seconds))
            is_one = len(panel.names) == 1
            title = panel.title if is_one else f"{panel.title}: {panel.names[name]}"
            found.append(charts.draw(title, lines, panel.y_from_zero))
    return found


def differences(runs: Sequence[ComparedRun]) -> Block:
    """The settings and facts in which the runs differ: the name, and the value of each run."""
    launches = [run.summary.launch for run in runs]
    rows = [
        [label, *(_fact(getattr(launch, name)) for launch in launches)]
        for name, label in FACTS.items()
    ]
    names = dict.fromkeys(name for run in runs for name in run.record.settings)
    rows += [
        [name, *(flag_text(run.record.settings.get(name, "")) or "–" for run in runs)]
        for name in names
        if name not in PLACES
    ]
    rows = [row for row in rows if len(set(row[1:])) > 1]
    if not rows:
        return Paragraph("The settings are the same.")
    return Table("What differs", ["setting", *(run.name for run in runs)], rows, short_columns=1)


def _fact(value: object) -> str:
    return f"{value:,}" if value and isinstance(value, int) else str(value or "–")
