"""The report of one run as an HTML page."""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.reporting.curve_charts import run_charts
from translate_ddp.apps.reporting.page_template import (
    Block,
    Charts,
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
from translate_ddp.apps.reporting.run_summary import Summary, best_score, epoch_at, summarize
from translate_ddp.apps.reporting.svg_charts import Bar, Series, bars, lines, shortened
from translate_ddp.apps.reporting.translation_scores import few, marked, worst
from translate_ddp.data.tokenizer import SPACE
from translate_ddp.quantities import describe_seconds, number, size
from translate_ddp.run_record import (
    REPORT_FILE,
    Attention,
    Curve,
    LastValidation,
    LaunchFacts,
    RunRecord,
    SampleRows,
    read_run,
)
from translate_ddp.runtime.files import write_atomically
from translate_ddp.training.checkpoint_name import parse_name
from translate_ddp.training.metrics import METRICS

MAX_ROWS = 50  # of launches and checkpoints
MAX_NOTICES = 100
MAX_REASONS = 20  # of dropped rows
MAX_SAMPLES = 5  # sentences
VERSIONS = 10  # of a sentence's translation; one that stays the same for some time is one
WORST = 10  # sentences
MAX_ATTENTION = 3  # pictures
MAX_TOKENS = 40  # of each side of a picture
TOKEN_CHARACTERS = 16  # of a token at most
OF_100 = ("BLEU", "chrf")  # scores from 0 to 100
LABELS = {"loss": "loss (nats/token)", "chrf": "chrF", "cer": "CER", "wer": "WER"}
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
    summary = summarize(record, now)
    launch = summary.launch
    parts = [f"{launch.model}, "] if launch.model else []
    parts += [f"preset {launch.preset}. "] if launch.preset else []
    of = f" of {summary.total_steps:,}" if summary.total_steps else ""
    parts.append(f"As of {utc(now)} UTC: step {summary.step:,}{of}.")
    languages = (untrusted(name or "?") for name in (launch.lang_src, launch.lang_tgt))
    return render_page(
        Page(
            title=f"{' to '.join(languages)}: {untrusted(' '.join(launch.datasets))}",
            subtitle=untrusted("".join(parts)),
            tiles=list(_tiles(summary)),
            top=list(_top(summary, record)),
            sections=[
                Section("curves", "Scores and curves", list(_curves(record, summary))),
                Section("samples", "Sentences at each validation", _samples(record)),
                Section("validation", "Last validation", list(_validation(record.validation))),
                Section("data", "Data", list(_data(launch))),
                Section("settings", "Settings", list(_settings(record, launch))),
                Section("environment", "Environment", list(_environment(launch))),
                Section(
                    "checkpoints", "Checkpoints", list(_checkpoints(record, launch.best_metric))
                ),
                Section("history", "History", list(_history(record, summary))),
            ],
            is_loaded_again=summary.state == "running",
        )
    )


def score_text(metric: str, value: float) -> str:
    """With two decimals if it is from 0 to 100, as papers have it: `41.64`, `0.4627`."""
    return f"{value:.2f}" if metric in OF_100 else number(value)


def flag_text(value: Any) -> str:
    """The value of a setting, as a flag has it."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def utc(time: float) -> str:
    """`2026-11-23 08:24`, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


# --- state and progress ---


def _tiles(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "state", summary.state
    epochs = f" of {summary.launch.num_epochs}" if summary.launch.num_epochs else ""
    yield "epoch", f"{number(round(summary.epoch, 2))}{epochs}"
    yield "training time", describe_seconds(summary.clock.total)
    if summary.seconds_left is not None:
        yield "time left", f"about {describe_seconds(summary.seconds_left)}"
    if summary.tokens_per_second is not None:
        yield "recent tokens/s", number(summary.tokens_per_second)
    for name, score in (("best", summary.best), ("last", summary.last)):
        if score is not None:
            metric = summary.launch.best_metric
            yield f"{name} {LABELS.get(metric, metric)}", score_text(metric, score.value)


def _top(summary: Summary, record: RunRecord) -> Iterator[Block]:
    """The progress, why the run does not go on, and problems of its record."""
    if summary.seconds_left is not None:
        progress = '<progress max="{}" value="{}" aria-label="Finished steps"></progress>'
        yield Paragraph(Markup(progress).format(summary.total_steps, summary.step))
    reason, problems = str(record.status.get("reason", "")), []
    if summary.state == "finished" and reason:
        yield Paragraph(f"It has finished early: {untrusted(reason)}.")
    elif summary.state == "failed":
        problems.append(f"The run has failed: {reason or 'no reason was recorded'}")
    elif summary.state == "preempted":
        problems.append(f"The run was stopped on request ({reason}). {RESUME}")
    elif summary.state == "killed":
        problems.append(f"{KILLED} {RESUME}")
    if problems or record.problems:
        yield Problems(list(map(Problem, problems + record.problems)))


# --- scores and curves ---


def _curves(record: RunRecord, summary: Summary) -> Iterator[Block]:
    scores = _scores(record, summary)
    yield scores if scores.rows else Paragraph("There is no validation yet.")
    if record.validation and record.validation.bleu_signature:
        yield Paragraph(f"Signature of BLEU: {untrusted(record.validation.bleu_signature)}")
    if charts := run_charts(record, summary.clock):
        yield Curves(charts)
        yield Paragraph(
            "Losses of training are those of the steps since the point before. The training "
            "objective includes label smoothing and regularisation, the others do not. Pauses "
            "between launches are not part of the time."
        )


def _scores(record: RunRecord, summary: Summary) -> Table:
    """The scores at the best and the last validation, and those of the average."""
    names = [each.name for each in METRICS if f"validation/{each.name}" in record.curves]
    names.sort(
        key=lambda name: name != summary.launch.best_metric
    )  # the first one is seen on a phone
    found = [("best", "validation", summary.best.step)] if summary.best else []
    for title, group in (("last", "validation"), ("average", "validation_average")):
        curves = [curve for name, curve in record.curves.items() if name.startswith(f"{group}/")]
        step = max((int(curve.steps[-1]) for curve in curves if len(curve)), default=None)
        found += [(title, group, step)] if step is not None else []
    rows = []
    for title, group, step in found:
        epoch = number(round(epoch_at(record, step), 2))
        cells = [_score_at(record, group, name, step) for name in names]
        rows.append([f"{title}: epoch {epoch}", *cells])
    columns = ["", *(LABELS.get(name, name) for name in names)]
    return Table("Scores of validations", columns, rows, has_numbers=True)


def _score_at(record: RunRecord, group: str, name: str, step: int) -> str:
    value = _value_at(record.curves.get(f"{group}/{name}"), step)
    return "" if value is None else score_text(name, value)


def _value_at(curve: Curve | None, step: int) -> float | None:
    """The value at this step; None if there is none."""
    places = np.flatnonzero(curve.steps == step) if curve else []
    return float(curve.values[places[0]]) if curve and len(places) else None


# --- translations ---


def _samples(record: RunRecord) -> list[Block]:
    """The sentences of the last validation with their translations at all validations."""
    if not record.samples:
        return []
    explanation = Markup(
        "From the oldest to the newest. <mark>Marked</mark>: words that differ from the reference. "
        "Of more than {0} different translations, {0} are shown, with the first and the last."
    )
    found = []
    for source, reference, _ in record.samples[-1].rows[:MAX_SAMPLES]:
        translations = [
            (validation.step, text)
            for validation in record.samples
            if (text := _translation(validation, source, reference)) is not None
        ]
        groups = [list(same) for _, same in groupby(translations, key=itemgetter(1))]
        versions = [
            (_steps_text(record, same[0][0], same[-1][0]), marked(reference, same[0][1]))
            for same in few(groups, VERSIONS)
        ]
        found.append(Sample(source, reference, versions))
    return [Paragraph(explanation.format(VERSIONS)), Samples(found)]


def _translation(validation: SampleRows, source: str, reference: str) -> str | None:
    """That of the first such sentence; None if there is none."""
    found = (text for src, tgt, text in validation.rows if (src, tgt) == (source, reference))
    return next(found, None)


def _steps_text(record: RunRecord, first: int, last: int) -> str:
    """`epoch 3`, `epoch 3 to 5`, or steps if the record has no epochs."""
    epochs = [number(round(epoch_at(record, step), 2)) for step in (first, last)]
    unit, ends = ("epoch", epochs) if "0" not in epochs else ("step", [f"{first:,}", f"{last:,}"])
    return f"{unit} {' to '.join(dict.fromkeys(ends))}"


def _validation(validation: LastValidation | None) -> Iterator[Block]:
    if validation is None:
        return
    yield Paragraph(f"Step {validation.step:,}, {len(validation.rows):,} sentences.")
    complete = [each for each in validation.attention if _is_complete(each)]
    if complete:
        yield Paragraph(
            "Attention: the weights of the source tokens (columns) for each predicted token "
            "(rows), the mean of all layers and heads. A dot (·) is a space."
        )
        for each in complete[:MAX_ATTENTION]:
            weights = [of_token[:MAX_TOKENS] for of_token in each.weights[:MAX_TOKENS]]
            predicted = map(_token, each.predicted)
            rows = list(zip(predicted, weights, strict=False))
            yield HeatMap(each.sentence, list(map(_token, each.source[:MAX_TOKENS])), rows)
    if found := worst(validation.rows, WORST):
        samples = [
            Sample(src, tgt, [(f"chrF {each.score:.1f}", marked(tgt, text))])
            for each in found
            for src, tgt, text in [each.row]
        ]
        summary = f"The {len(samples)} sentences with the lowest chrF"
        yield Details(summary, [Samples(samples)])


def _is_complete(attention: Attention) -> bool:
    is_square = all(len(weights) == len(attention.source) for weights in attention.weights)
    return is_square and 0 < len(attention.weights) == len(attention.predicted)


def _token(text: str) -> str:
    """The token, with a dot for the sign of a space, which fonts show as a thick line."""
    return shortened(untrusted(text), TOKEN_CHARACTERS).replace(SPACE, "·")


# --- facts ---


def _data(launch: LaunchFacts) -> Iterator[Block]:
    """Sizes of the corpus; nothing for a run that did not record them."""
    if not launch.train_pairs:
        return
    yield Values(
        [
            ("training pairs", f"{launch.train_pairs:,}"),
            ("validation pairs", f"{launch.validation_pairs:,}"),
            ("dropped rows", f"{sum(launch.dropped.values()):,}"),
            ("vocabulary", f"{launch.vocab_size:,} tokens"),
            ("padding", f"{launch.padding:.1%} of the tokens of a step"),
        ]
    )
    charts = []
    if launch.dropped:
        counts = sorted(launch.dropped.items(), key=lambda each: -each[1])[:MAX_REASONS]
        items = [Bar(untrusted(why), count, f"{count:,}") for why, count in counts]
        charts.append(bars("Dropped rows", items))
    edges = launch.length_edges
    sides = (launch.lang_src, launch.source_lengths), (launch.lang_tgt, launch.target_lengths)
    if len(edges) > 1 and all(len(counts) == len(edges) - 1 for _, counts in sides):
        series = [Series(untrusted(name), counts, edges[:-1]) for name, counts in sides]
        label = "tokens with [EOS]; the last point: also longer ones"
        charts.append(lines("Training sentences by length", series, label))
    yield Charts(charts)


def _settings(record: RunRecord, launch: LaunchFacts) -> Iterator[Block]:
    """The settings that differ from the preset, and those of config.yaml."""
    if launch.changed:
        yield Paragraph("Settings that differ from the preset:")
        yield Values([(name, flag_text(value)) for name, value in launch.changed.items()])
    if record.settings:
        rows = [(name, flag_text(value) or "–") for name, value in record.settings.items()]
        yield Details("All settings, as in config.yaml", [Values(rows)])


def _environment(launch: LaunchFacts) -> Iterator[Block]:
    """Versions, precision and ranks of the last launch."""
    programs = ("translate_ddp", launch.version), ("torch", launch.torch), ("Python", launch.python)
    rows = [
        ("model", f"{launch.parameters:,} parameters" if launch.parameters else ""),
        ("precision", launch.precision),
        ("versions", ", ".join(f"{name} {version}" for name, version in programs if version)),
        ("ranks", ranks(launch) if launch.ranks else ""),
        *(("", rank) for rank in launch.ranks[:MAX_ROWS]),
    ]
    if known := [(name, value) for name, value in rows if value]:
        yield Values(known)


def ranks(launch: LaunchFacts) -> str:
    """`8 on 2 nodes`, `1`."""
    nodes = f" on {launch.nodes:,} nodes" if launch.nodes > 1 else ""
    return f"{launch.world_size:,}{nodes}"


def _checkpoints(record: RunRecord, metric: str) -> Iterator[Block]:
    """The files in the folder, the newest first."""
    best = best_score(record, metric)
    rows = []
    for path in sorted(record.folder.glob("*.pt")):
        if (found := parse_name(path)) is None:
            continue
        score = _score_at(record, "validation", metric, found.step)
        is_best = best is not None and found.step == best.step and found.epoch is not None
        shown = f"{score} (best)" if score and is_best else score
        epoch = "" if found.epoch is None else str(found.epoch)
        cells = [epoch, f"{found.step:,}", _file_size(path), shown, path.name]
        rows.append((found.order, cells))
    if not rows:
        yield Paragraph("The folder has none.")
        return
    newest = [cells for _, cells in sorted(rows, reverse=True)[:MAX_ROWS]]
    columns = ["epoch", "step", "size", LABELS.get(metric, metric), "file"]
    yield Table("Checkpoints", columns, newest, short_columns=4)
    if len(rows) > MAX_ROWS:
        yield Paragraph(f"The newest {MAX_ROWS} of {len(rows):,}.")


def _file_size(path: Path) -> str:
    try:
        return size(path.stat().st_size)
    except OSError:  # deleted since
        return ""


# --- history ---


def _history(record: RunRecord, summary: Summary) -> Iterator[Block]:
    columns = ["start (UTC)", "from step", "ranks", "time", "end"]
    if record.launches:
        rows = _launches(record, summary)[-MAX_ROWS:]
        yield Table("Launches", columns, rows, short_columns=4)
        yield Paragraph(f"Cost: {_cost(record, summary.clock.of_launches)}.")
    # Of equal notices, the last one.
    once = sorted({each.text: each for each in record.notices}.values(), key=lambda each: each.time)
    if once:
        shown = once[-MAX_NOTICES:]
        of = f" of {len(once):,}" if len(once) > len(shown) else ""
        rows = [[utc(each.time), f"{each.step:,}", each.text.replace("\n", " ")] for each in shown]
        table = Table("Notices", ["time (UTC)", "step", "notice"], rows, short_columns=2)
        yield Details(f"The last {len(shown)}{of} notices", [table])


def _launches(record: RunRecord, summary: Summary) -> list[list[str]]:
    """When each launch began and how it ended."""
    rows = []
    starts = [*(launch.time for launch in record.launches[1:]), float("inf")]
    seconds = summary.clock.of_launches
    for launch, next_start, length in zip(record.launches, starts, seconds, strict=True):
        ends = [end for end in record.ends if launch.time <= end.time < next_start]
        if ends:
            ended = f"{ends[-1].state}: {ends[-1].reason}".removesuffix(": ")
        elif launch is record.launches[-1]:
            ended = summary.state
        else:
            ended = "without a record: killed, or its machine was lost"
        device = {"cuda": "GPU", "cpu": "CPU"}.get(launch.device, launch.device)
        where = f"{ranks(launch)} × {device}" if device else ranks(launch)
        begun = [utc(launch.time), f"{launch.step:,}"]
        rows.append([*begun, where, describe_seconds(length), ended])
    return rows


def _cost(record: RunRecord, seconds: Sequence[float]) -> str:
    """The core or GPU hours of all launches."""
    hours: dict[str, float] = {}
    for launch, length in zip(record.launches, seconds, strict=True):
        is_gpu = launch.device == "cuda"
        count = launch.world_size * (1 if is_gpu else launch.threads)
        unit = "GPU" if is_gpu else "core"
        hours[unit] = hours.get(unit, 0.0) + count * length / 3600
    return " and ".join(f"{amount:,.3g} {unit} hours" for unit, amount in hours.items())
