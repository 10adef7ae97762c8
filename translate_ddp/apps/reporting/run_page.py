"""The report of one run as an HTML page."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.reporting.curve_charts import curve_charts
from translate_ddp.apps.reporting.page_template import (
    Block,
    Curves,
    Details,
    HeatMap,
    Page,
    Paragraph,
    Problem,
    Problems,
    Sample,
    Samples,
    Section,
    Table,
    Values,
    render_page,
    untrusted,
)
from translate_ddp.apps.reporting.run_summary import Summary, last_score, scores_of, summarize
from translate_ddp.apps.reporting.svg_charts import shortened
from translate_ddp.apps.reporting.translation_scores import few, marked, worst
from translate_ddp.console import describe_seconds, number
from translate_ddp.data.tokenizer_models import SPACE
from translate_ddp.run_record import (
    REPORT_FILE,
    LastValidation,
    LaunchFacts,
    RunRecord,
    read_run,
)
from translate_ddp.runtime.files import write_atomically
from translate_ddp.training.metrics import METRICS, OFF_TARGET, TITLES

MAX_ROWS = 50  # launches, or ranks of the last one
MAX_NOTICES = 100
MAX_REASONS = 20  # for dropped rows
MAX_SAMPLES = 5  # sentences
VERSIONS = 10  # translations of a sentence; one that stays the same for some time counts once
WORST = 10  # sentences
TOKEN_CHARACTERS = 16  # a longer token is shortened
SCORES = [*(metric.name for metric in METRICS), OFF_TARGET]
OF_100 = ("BLEU", "chrf")  # scores from 0 to 100
DEVICES = {"cuda": "GPU", "cpu": "CPU"}
# Fields of the last launch.
DATA = {
    "train_pairs": "training pairs",
    "validation_pairs": "validation pairs",
    "vocab_size": "vocabulary",
}
ENVIRONMENT = {
    "preset": "preset",
    "model": "model",
    "parameters": "parameters",
    "precision": "precision",
    "version": "translate_ddp",
    "torch": "torch",
    "python": "Python",
    "device": "device",
    "world_size": "ranks",
    "nodes": "nodes",
    "threads": "threads of a rank",
}
RESUME = "The same command resumes from the last checkpoint."
KILLED = "STATUS.json says that the run is running, but no process holds the folder."


def write_report(folder: Path) -> Path:
    """Write the page of the run in a folder there, and return its path. Raises OSError."""
    path = folder / REPORT_FILE
    write_atomically(path, render_run(read_run(folder), time.time()))
    return path


def render_run(record: RunRecord, now: float) -> str:
    """The page at the time `now`, complete in itself and below 1 MB.

    While the run goes on, browsers load it again once a minute.
    """
    run = summarize(record, now)
    launch = run.launch
    languages = (untrusted(name or "?") for name in (launch.lang_src, launch.lang_tgt))
    return render_page(
        Page(
            title=f"{' to '.join(languages)}: {untrusted(' '.join(launch.datasets))}",
            subtitle=f"As of {utc(now)} UTC: step {steps_text(run)}.",
            tiles=list(_tiles(run)),
            top=list(_top(run)),
            sections=[
                Section("curves", "Scores and curves", list(_curves(run))),
                Section("samples", "Sentences at each validation", list(_samples(record))),
                Section("validation", "Last validation", list(_validation(record.validation))),
                Section("data", "Data", list(_data(launch))),
                Section("settings", "Settings", list(_settings(run))),
                Section("environment", "Model and environment", list(_environment(launch))),
                Section("history", "History", list(_history(run))),
            ],
            is_loaded_again=run.state == "running",
        )
    )


def steps_text(run: Summary) -> str:
    """`720 of 1,800`."""
    return f"{run.step:,} of {run.total_steps:,}" if run.total_steps else f"{run.step:,}"


def score_text(metric: str, value: float) -> str:
    """With two decimals if it is from 0 to 100, as papers have it: `41.64`, `0.4627`."""
    return f"{value:.2f}" if metric.rpartition("/")[2] in OF_100 else number(value)


def flag_text(value: Any) -> str:
    """The value of a setting, as a flag has it."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def utc(time: float) -> str:
    """`2026-11-23 08:24`, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


# --- state and progress ---


def _tiles(run: Summary) -> Iterator[tuple[str, str]]:
    yield "state", run.state
    epochs = f" of {run.launch.num_epochs}" if run.launch.num_epochs else ""
    yield "epoch", f"{number(round(run.epoch, 2))}{epochs}"
    yield "training time", describe_seconds(run.clock.total)
    if run.seconds_left is not None:
        yield "time left", f"about {describe_seconds(run.seconds_left)}"
    if run.tokens_per_second is not None:
        yield "recent tokens/s", number(run.tokens_per_second)
    for name, score in (("best", run.best), ("last", run.last)):
        if score is not None:
            metric = run.launch.best_metric
            yield f"{name} {TITLES.get(metric, metric)}", score_text(metric, score.value)


def _top(run: Summary) -> Iterator[Block]:
    """The progress, why the run does not go on, and problems of its record."""
    if run.seconds_left is not None:
        progress = '<progress max="{}" value="{}" aria-label="Finished steps"></progress>'
        yield Paragraph(Markup(progress).format(run.total_steps, run.step))
    reason = str(run.record.status.get("reason", ""))
    if run.state == "finished" and reason:
        yield Paragraph(f"It has finished early: {untrusted(reason)}.")
    ends = {
        "failed": f"The run has failed: {reason or 'no reason was recorded'}",
        "lost": reason,  # with how to continue
        "preempted": f"The run was stopped on request ({reason}). {RESUME}",
        "killed": f"{KILLED} {RESUME}",
    }
    problems = [ends[run.state]] if run.state in ends else []
    if problems := problems + run.record.problems:
        yield Problems(list(map(Problem, problems)))


# --- scores and curves ---


def _curves(run: Summary) -> Iterator[Block]:
    scores, validation = _scores(run), run.record.validation
    yield scores if scores.rows else Paragraph("There is no validation yet.")
    for signature in validation.bleu_signature.split("\n") if validation else ():
        if signature:
            yield Paragraph(f"Signature of BLEU: {untrusted(signature)}")
    if charts := curve_charts([run]):
        yield Curves(charts)
        yield Paragraph(
            "Losses of training are means over the steps since the point before. The training "
            "objective includes label smoothing and regularisation, the others do not. Pauses "
            "between launches are not part of the time."
        )


def _scores(run: Summary) -> Table:
    """The scores at the best and the last validation, and of the average.

    With several directions, these are means, and the last ones of each direction follow.
    """
    record, metric = run.record, run.launch.best_metric
    names = [each for each in SCORES if f"validation/{each}" in record.curves]
    names.sort(key=lambda name: not metric.endswith(name))  # the first one is seen on a phone
    average = last_score(record, f"validation_average/{metric}")
    shown = [("best", "validation", run.best), ("last", "validation", run.last)]
    shown.append(("average", "validation_average", average))
    shown += [(each, f"validation/{each}", run.last) for each in record.directions]
    rows = [
        [
            f"{title}: epoch {epoch_text(record, score.step)}",
            *(_score_at(record, f"{group}/{name}", score.step) for name in names),
        ]
        for title, group, score in shown
        if score
    ]
    columns = ["", *(TITLES.get(name, name) for name in names)]
    return Table("Scores of validations", columns, rows, has_numbers=True)


def _score_at(record: RunRecord, name: str, step: int) -> str:
    """The score at this step; "" if there is none."""
    values = (each.value for each in scores_of(record, name) if each.step == step)
    return next((score_text(name.rpartition("/")[2], value) for value in values), "")


def epoch_text(record: RunRecord, step: int) -> str:
    """The epochs done at a step, as `2.5`; "0" if the record does not say."""
    curve = record.curves.get("epoch")
    return number(round(float(np.interp(step, curve.steps, curve.values)), 2)) if curve else "0"


# --- translations ---


def _samples(record: RunRecord) -> Iterator[Block]:
    """The sentences of the last validation with their translations at all validations."""
    if not record.samples:
        return
    explanation = Markup(
        "From the oldest to the newest. <mark>Marked</mark>: words that differ from the reference. "
        "Of more than {0} different translations, {0} are shown, with the first and the last."
    )
    found = []
    for place, (source, reference, _) in enumerate(record.samples[-1].rows[:MAX_SAMPLES]):
        translations = [
            (each.step, text)
            for each in record.samples
            for *sentence, text in each.rows[place : place + 1]
            if sentence == [source, reference]
        ]
        groups = [list(same) for _, same in groupby(translations, key=itemgetter(1))]
        versions = [
            (f"epoch {' to '.join(_epochs(record, same))}", marked(reference, same[0][1]))
            for same in few(groups, VERSIONS)
        ]
        found.append(Sample(source, reference, versions))
    yield Paragraph(explanation.format(VERSIONS))
    yield Samples(found)


def _epochs(record: RunRecord, same: Sequence[tuple[int, str]]) -> list[str]:
    """The first and the last epoch of a translation, given its steps; once if they are equal."""
    return list(dict.fromkeys(epoch_text(record, same[place][0]) for place in (0, -1)))


def _validation(validation: LastValidation | None) -> Iterator[Block]:
    if validation is None:
        return
    yield Paragraph(f"Step {validation.step:,}, {len(validation.rows):,} sentences.")
    if validation.attention:
        yield Paragraph(
            "Attention: the weights of the source tokens (columns) for each predicted token "
            "(rows), the mean of all layers and heads. A dot (·) is a space."
        )
    for each in validation.attention:
        rows = list(zip(map(_token, each.predicted), each.weights, strict=False))
        yield HeatMap(each.sentence, list(map(_token, each.source)), rows)
    if found := worst(validation.rows, WORST):
        samples = [
            Sample(src, tgt, [(f"chrF {score:.1f}", marked(tgt, text))])
            for score, (src, tgt, text) in found
        ]
        summary = f"The {len(samples)} sentences with the lowest chrF"
        yield Details(summary, [Samples(samples)])


def _token(text: str) -> str:
    """The token, with a dot for the sign of a space, which fonts show as a thick line."""
    return shortened(untrusted(text), TOKEN_CHARACTERS).replace(SPACE, "·")


# --- facts ---


def facts(launch: LaunchFacts, labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """The labels and the values of the known fields among these."""
    values = {label: getattr(launch, name) for name, label in labels.items()}
    return [
        (label, f"{value:,}" if isinstance(value, int) else value)
        for label, value in values.items()
        if value
    ]


def _data(launch: LaunchFacts) -> Iterator[Block]:
    """Sizes of the corpus; nothing for a run that did not record them."""
    if not launch.train_pairs:
        return
    padding = f"{launch.padding:.1%} of the tokens of a step"
    reasons = Counter(launch.dropped).most_common(MAX_REASONS)
    yield Values(
        [
            *facts(launch, DATA),
            ("padding", padding),
            ("dropped rows", f"{sum(launch.dropped.values()):,}"),
            *((f"dropped: {reason}", f"{count:,}") for reason, count in reasons),
        ]
    )


def _settings(run: Summary) -> Iterator[Block]:
    """The settings that differ from the preset, and all settings of config.yaml."""
    if changed := run.launch.changed:
        yield Paragraph("Settings that differ from the preset:")
        yield Values([(name, flag_text(value)) for name, value in changed.items()])
    if settings := run.record.settings:
        rows = [(name, flag_text(value) or "–") for name, value in settings.items()]
        yield Details("All settings, as in config.yaml", [Values(rows)])


def _environment(launch: LaunchFacts) -> Iterator[Block]:
    """Model, versions, precision and ranks of the last launch."""
    if launch.ranks:
        ranks = (("", rank) for rank in launch.ranks[:MAX_ROWS])
        yield Values([*facts(launch, ENVIRONMENT), *ranks])


# --- history ---


def _history(run: Summary) -> Iterator[Block]:
    record = run.record
    if record.launches:
        columns = ["start (UTC)", "from step", "ranks", "time", "end"]
        yield Table("Launches", columns, _launches(run)[-MAX_ROWS:], short_columns=4)
        yield Paragraph(f"Cost: {_cost(run)}.")
    # Of equal notices, the last one.
    once = sorted({each.text: each for each in record.notices}.values(), key=lambda each: each.time)
    if shown := once[-MAX_NOTICES:]:
        of = f" of {len(once):,}" if len(once) > len(shown) else ""
        rows = [[utc(each.time), f"{each.step:,}", each.text.replace("\n", " ")] for each in shown]
        table = Table("Notices", ["time (UTC)", "step", "notice"], rows, short_columns=2)
        yield Details(f"The last {len(shown)}{of} notices", [table])


def _launches(run: Summary) -> list[list[str]]:
    """When each launch began and how it ended."""
    launches = run.record.launches
    rows = []
    next_starts = [*(launch.time for launch in launches[1:]), float("inf")]
    for launch, until, seconds in zip(launches, next_starts, run.clock.of_launches, strict=True):
        ended = "without a record: killed, or its machine was lost"
        if launch is launches[-1]:
            ended = run.state
        for end in run.record.ends:
            if launch.time <= end.time < until:
                ended = f"{end.state}: {end.reason}".removesuffix(": ")
        nodes = f" on {launch.nodes:,} nodes" if launch.nodes > 1 else ""
        where = f"{launch.world_size:,}{nodes} × {DEVICES.get(launch.device, launch.device)}"
        begun = [utc(launch.time), f"{launch.step:,}"]
        rows.append([*begun, where, describe_seconds(seconds), ended])
    return rows


def _cost(run: Summary) -> str:
    """The core or GPU hours of all launches."""
    hours: dict[str, float] = defaultdict(float)
    for launch, seconds in zip(run.record.launches, run.clock.of_launches, strict=True):
        is_gpu = launch.device == "cuda"
        count = launch.world_size * (1 if is_gpu else launch.threads)
        hours["GPU" if is_gpu else "core"] += count * seconds / 3600
    return " and ".join(f"{amount:,.3g} {unit} hours" for unit, amount in hours.items())
