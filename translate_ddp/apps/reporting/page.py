"""The report of one run as an HTML page."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from markupsafe import Markup

from translate_ddp.apps.reporting import details
from translate_ddp.apps.reporting.charts import Series, bars, heat_map, histogram
from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.curves import charts
from translate_ddp.apps.reporting.page_template import render_page, untrusted
from translate_ddp.apps.reporting.reading import read_run
from translate_ddp.apps.reporting.sentences import LengthBin, ScoredRow, by_length, marked, worst
from translate_ddp.apps.reporting.summary import KILLED, Summary, epoch_at, last_launch, summarize
from translate_ddp.apps.reporting.svg import shortened
from translate_ddp.apps.reporting.thinning import few
from translate_ddp.data.tokenizer import SPACE
from translate_ddp.quantities import describe_seconds, number
from translate_ddp.run_record import (
    REPORT_FILE,
    Attention,
    LastValidation,
    LaunchFacts,
    RunRecord,
    SampleRows,
)
from translate_ddp.runtime.files import write_atomically

TEMPLATE = Path(__file__).with_name("report.html")
MAX_SAMPLES = 5  # sentences
VERSIONS = 10  # of a sentence's translation; one that stays the same for some time is one
WORST = 10  # sentences
MAX_ATTENTION = 3  # pictures
MAX_TOKENS = 40  # of each side of a picture
MAX_TITLE = 60  # characters


def write_report(folder: Path) -> Path:
    """Write the page of the run in a folder there, and return its path. Raises OSError."""
    path = folder / REPORT_FILE
    write_atomically(path, render(read_run(folder), time.time()))
    return path


def render(record: RunRecord, now: float) -> str:
    """The page at the time `now`, complete in itself and below 1 MB.

    While the run goes on, browsers load it again once a minute.
    """
    clock, launch = Clock.of(record), last_launch(record)
    summary = summarize(record, clock, now)
    validation = record.validation
    rows = validation.rows if validation else []
    bins = by_length(rows, validation.lang_tgt) if validation else []
    return render_page(
        TEMPLATE,
        summary=summary,
        made=details.utc(now),
        tiles=list(_tiles(summary)),
        problems=[*_state_problems(summary), *record.problems],
        scores=details.scores(record, summary.metric),
        charts=charts(record, clock),
        samples=_samples(record),
        versions=VERSIONS,
        validation=validation,
        worst=[_scored(each) for each in worst(rows, WORST)],
        length_charts=_length_charts(bins) if len(bins) > 1 else [],
        attention=_attention(validation),
        data=details.data(launch),
        data_charts=list(_data_charts(launch)),
        settings=details.settings(record),
        all_settings=details.all_settings(record),
        environment=details.environment(launch),
        checkpoints=details.checkpoints(record, summary.metric),
        launches=details.launches(record, clock, summary.until, summary.state),
        notices=details.notices(record),
        cost=details.cost(record, clock, summary.until),
        elapsed=describe_seconds(summary.elapsed_seconds),
    )


def _tiles(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "state", summary.state
    epochs = f" of {summary.num_epochs}" if summary.num_epochs else ""
    yield "epoch", f"{number(round(summary.epoch, 2))}{epochs}"
    yield "training time", describe_seconds(summary.elapsed_seconds)
    if summary.seconds_left is not None:
        yield "time left", f"about {describe_seconds(summary.seconds_left)}"
    if summary.tokens_per_second is not None:
        yield "recent tokens/s", number(summary.tokens_per_second)
    for name, score in (("best", summary.best), ("last", summary.last)):
        if score is not None:
            text = details.score_text(summary.metric, score.value)
            yield f"{name} {details.label(summary.metric)}", text


def _state_problems(summary: Summary) -> Iterator[str]:
    """Why the run does not go on, unless it has finished."""
    resume = "The same command resumes from the last checkpoint."
    if summary.state == "failed":
        yield f"The run has failed: {summary.reason or 'no reason was recorded'}"
    elif summary.state == "preempted":
        yield f"The run was stopped on request ({summary.reason}). {resume}"
    elif summary.state == "killed":
        yield f"{KILLED} {resume}"


@dataclass(frozen=True)
class Sample:
    """A sentence and its translations."""

    source: str
    reference: str
    versions: list[tuple[str, list[tuple[str, bool]]]]  # name; parts, and whether they differ


def _samples(record: RunRecord) -> list[Sample]:
    """The sentences of the last validation with their translations at all validations."""
    if not record.samples:
        return []
    found = []
    for source, reference, _ in record.samples[-1].rows[:MAX_SAMPLES]:
        translations = [
            (validation, text)
            for validation in record.samples
            if (text := _translation(validation, source, reference)) is not None
        ]
        versions = []
        groups = [list(same) for _, same in groupby(translations, key=itemgetter(1))]
        for same in few(groups, VERSIONS):
            when = [_when(record, validation) for validation, _ in same]
            text = same[0][1]
            label = f"{when[0]} to {when[-1].split()[-1]}" if len(when) > 1 else when[0]
            versions.append((label, marked(reference, text)))
        found.append(Sample(source, reference, versions))
    return found


def _translation(validation: SampleRows, source: str, reference: str) -> str | None:
    """That of the first such sentence; None if there is none."""
    found = (text for src, tgt, text in validation.rows if (src, tgt) == (source, reference))
    return next(found, None)


def _when(record: RunRecord, validation: SampleRows) -> str:
    epoch = epoch_at(record, validation.step)
    return f"epoch {number(round(epoch, 2))}" if epoch else f"step {validation.step:,}"


def _scored(found: ScoredRow) -> Sample:
    source, reference, text = found.row
    return Sample(source, reference, [(f"chrF {found.score:.1f}", marked(reference, text))])


def _length_charts(bins: Sequence[LengthBin]) -> list[Markup]:
    return [
        bars(
            f"{name} by the words of the source",
            [
                (f"{each.label} words", score, f"{score:.1f} ({each.sentences:,})")
                for each, score in found
            ],
        )
        for name, found in (
            ("chrF", [(each, each.chrf) for each in bins]),
            ("BLEU", [(each, each.bleu) for each in bins]),
        )
    ]


def _attention(validation: LastValidation | None) -> list[Markup]:
    found = [each for each in validation.attention if _is_complete(each)] if validation else []
    return [
        heat_map(
            shortened(untrusted(each.sentence), MAX_TITLE),
            list(map(_token, each.predicted[:MAX_TOKENS])),
            list(map(_token, each.source[:MAX_TOKENS])),
            [weights[:MAX_TOKENS] for weights in each.weights[:MAX_TOKENS]],
        )
        for each in found[:MAX_ATTENTION]
    ]


def _token(text: str) -> str:
    """The token, with a dot for the sign of a blank, which fonts show as a thick line."""
    return untrusted(text).replace(SPACE, "·")


def _is_complete(attention: Attention) -> bool:
    is_square = all(len(weights) == len(attention.source) for weights in attention.weights)
    return is_square and 0 < len(attention.weights) == len(attention.predicted)


def _data_charts(launch: LaunchFacts) -> Iterator[Markup]:
    if launch.dropped:
        counts = sorted(launch.dropped.items(), key=lambda each: -each[1])
        yield bars(
            "Dropped rows", [(untrusted(why), count, f"{count:,}") for why, count in counts[:20]]
        )
    edges = launch.length_edges
    sides = (launch.lang_src, launch.source_lengths), (launch.lang_tgt, launch.target_lengths)
    if len(edges) > 1 and all(len(counts) == len(edges) - 1 for _, counts in sides):
        series = [Series(untrusted(name), counts) for name, counts in sides]
        title = "Tokens of a training sentence, with [EOS]"
        yield histogram(title, edges, series, "tokens", is_open=True)
