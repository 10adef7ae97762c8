"""The page that compares several runs: scores, curves, what differs, and paired tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.curves import Axis, Line, Panel, TimeUnit, panels
from translate_ddp.apps.reporting.details import flag_text, label, score_text, utc
from translate_ddp.apps.reporting.page_template import render_page, untrusted
from translate_ddp.apps.reporting.sentences import MAX_SCORED
from translate_ddp.apps.reporting.summary import Summary, best_score, last_launch, summarize
from translate_ddp.apps.reporting.table import Table
from translate_ddp.apps.reporting.thinning import few
from translate_ddp.quantities import describe_seconds
from translate_ddp.run_record import Curve, RunRecord, TextRow
from translate_ddp.training.bootstrap import Comparison, compare
from translate_ddp.training.metrics import METRICS

TEMPLATE = Path(__file__).with_name("comparison.html")
MAX_OTHERS = 4  # charts of curves that PANELS does not have
POINTS = 1600  # of all lines of a chart, so that the page stays below 1 MB
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


@dataclass(frozen=True)
class ComparedRun:
    name: str
    record: RunRecord
    summary: Summary
    clock: Clock

    @property
    def rows(self) -> list[TextRow]:
        """The translations of the last validation."""
        return self.record.validation.rows if self.record.validation else []

    @property
    def step(self) -> str:
        """That of the last validation."""
        return f"{self.record.validation.step:,}" if self.record.validation else ""


def render_comparison(records: Sequence[RunRecord], now: float) -> str:
    """The page of two to eight runs at the time `now`, complete in itself and below 1 MB."""
    names = run_names([record.folder for record in records])
    runs = [
        ComparedRun(name, record, summarize(record, clock, now), clock)
        for name, record, clock in zip(names, records, map(Clock.of, records), strict=True)
    ]
    tested, untested = paired_tests(runs)
    return render_page(
        TEMPLATE,
        names=[untrusted(run.name) for run in runs],
        made=utc(now),
        scores=scores_table(runs),
        has_one_corpus=has_one_corpus(runs),
        charts=charts(runs),
        tests=tested,
        untested=untested,
        max_scored=MAX_SCORED,
        differences=differences(runs),
        problems=[(run.name, problem) for run in runs for problem in run.record.problems],
    )


def run_names(folders: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as tell the folders apart."""
    parts = [folder.resolve().parts for folder in folders]
    counts = range(1, max(map(len, parts)) + 1)
    candidates = ([str(Path(*each[-count:])) for each in parts] for count in counts)
    return next(names for names in candidates if len(set(names)) == len(names))


def scores_table(runs: Sequence[ComparedRun]) -> Table:
    """State, time and speed of each run, and its best score of each metric with the step."""
    metrics = [
        metric.name
        for metric in METRICS
        if any(best_score(run.record, metric.name) for run in runs)
    ]
    columns = ["run", "state", "steps", "training time", "tokens/s"]
    columns += [label(name) for name in metrics]
    return Table(columns, [_scores(run, metrics) for run in runs])


def has_one_corpus(runs: Sequence[ComparedRun]) -> bool:
    """Whether the languages and the known numbers of validation pairs are the same."""
    pairs = {last_launch(run.record).validation_pairs for run in runs}
    return len(pairs - {0}) < 2 and len({run.summary.languages for run in runs}) == 1


def _scores(run: ComparedRun, metrics: Sequence[str]) -> list[str]:
    summary = run.summary
    of = f" of {summary.total_steps:,}" if summary.total_steps else ""
    speed = summary.tokens_per_second
    best = [best_score(run.record, name) for name in metrics]
    return [
        run.name,
        summary.state,
        f"{summary.step:,}{of}",
        describe_seconds(summary.elapsed_seconds),
        f"{speed:,.0f}" if speed else "–",
        *(
            f"{score_text(name, score.value)} ({score.step:,})" if score else "–"
            for name, score in zip(metrics, best, strict=True)
        ),
    ]


def charts(runs: Sequence[ComparedRun]) -> list[tuple[Markup, Markup]]:
    """Each chart over steps and over time, with a line for each run."""
    curves = [item for run in runs for item in run.record.curves.items()]
    found = dict.fromkeys(name for name, curve in curves if len(curve) > 1)
    shown = [
        (panel, name)
        for panel in panels(found, MAX_OTHERS)
        for name in panel.names
        if name in found
    ]
    seconds = max(run.clock.until(run.clock.last) for run in runs)
    steps = max(float(run.summary.step) for run in runs)
    unit = TimeUnit.for_length(seconds)

    over_steps, over_time = Axis("steps", steps), Axis(unit.label, seconds / unit.seconds)

    def chart(
        axis: Axis, panel: Panel, name: str, x: Callable[[ComparedRun, Curve], np.ndarray]
    ) -> Markup:
        found = [(run, run.record.curves.get(name, EMPTY)) for run in runs]
        shown = [Line(untrusted(run.name), curve, x(run, curve)) for run, curve in found]
        title = f"{panel.title}: {panel.names[name]}" if len(panel.names) > 1 else panel.title
        return axis.chart(title, shown, panel.y_from_zero, POINTS // len(runs))

    return [
        (
            chart(over_steps, panel, name, lambda _, curve: curve.steps),
            chart(
                over_time,
                panel,
                name,
                lambda run, curve: run.clock.seconds(curve.times) / unit.seconds,
            ),
        )
        for panel, name in shown
    ]


def differences(runs: Sequence[ComparedRun]) -> list[list[str]]:
    """The settings and facts in which the runs differ: the name, and the value of each run."""
    launches = [last_launch(run.record) for run in runs]
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
    return [row for row in rows if len(set(row[1:])) > 1]


def _fact(value: object) -> str:
    return f"{value:,}" if value and isinstance(value, int) else str(value or "–")


def paired_tests(runs: Sequence[ComparedRun]) -> tuple[list[list[str]], list[Markup]]:
    """Rows of a table that compares the last validation of each run with that of the first.

    Also why runs are not compared.
    """
    first, *others = runs
    rows: list[list[str]] = []
    reasons: list[Markup] = []
    for run in others:
        if reason := _why_not(first, run):
            reasons.append(reason)
            continue
        found = _compare(first, run)
        if not rows:
            scores = [cell for each in found.values() for cell in (f"{each.baseline:.2f}", "", "")]
            rows.append([first.name, first.step, *scores])
        cells = [
            cell
            for each in found.values()
            for cell in (
                f"{each.score:.2f}",
                f"{each.score - each.baseline:+.2f}".replace("-", "\u2212"),
                _p_text(each.p_value),
            )
        ]
        rows.append([run.name, run.step, *cells])
    return rows, list(dict.fromkeys(reasons))


def _p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"  # 1/1001 is the least of 1,000 samples


def _why_not(first: ComparedRun, run: ComparedRun) -> Markup:
    """Why the translations of two runs cannot be compared; empty if they can."""
    for each in (first, run):
        if not each.rows:
            return Markup("<bdi>{}</bdi> has not kept the translations of a validation.").format(
                untrusted(each.name)
            )
    if [row[:2] for row in first.rows] != [row[:2] for row in run.rows]:
        return Markup(
            "<bdi>{}</bdi> was validated with other sentences than <bdi>{}</bdi>."
        ).format(untrusted(run.name), untrusted(first.name))
    return Markup()


def _compare(first: ComparedRun, run: ComparedRun) -> dict[str, Comparison]:
    assert first.record.validation is not None
    language = first.record.validation.lang_tgt
    return _compare_texts(*(tuple(few(each.rows, MAX_SCORED)) for each in (first, run)), language)


@lru_cache(maxsize=16)  # a page that is followed is rendered often, and a test takes seconds
def _compare_texts(
    first: tuple[TextRow, ...], other: tuple[TextRow, ...], language: str
) -> dict[str, Comparison]:
    new, old = ([text for _, _, text in rows] for rows in (other, first))
    return compare(new, old, [reference for _, reference, _ in first], language)
