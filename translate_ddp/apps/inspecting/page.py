"""The report of an inspection as one HTML page."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.inspecting import tables
from translate_ddp.apps.inspecting.findings import find_problems, percent
from translate_ddp.apps.inspecting.inspection import Inspection
from translate_ddp.apps.reporting.charts import Series, bars, histogram, lines
from translate_ddp.apps.reporting.page_template import render_page

TEMPLATE = Path(__file__).with_name("inspection.html")
MAX_SOURCES = 50
BINS = 30
MAX_RATIO = 4.0
SCRIPTS = 8


def render(found: Inspection) -> str:
    """The page, complete in itself and below 1 MB."""
    rows = tables.rows_table(found)
    return render_page(
        TEMPLATE,
        languages=found.config.corpus.languages,
        datasets=found.config.corpus.name,
        tiles=_tiles(found),
        problems=find_problems(found),
        sample=tables.sample_line(found),
        rows=tables.Table(rows.columns, rows.rows[:MAX_SOURCES]),
        reasons=_reasons(found),
        strict=tables.strict_line(found),
        dropped=_dropped(found),
        lengths=tables.lengths_table(found),
        length_charts=list(_length_charts(found)),
        script_charts=list(_script_charts(found)),
        characters=[_characters(found, side) for side in range(2)],
        repetitions=[
            (language, f"{repetition.rows:,} of {repetition.of:,}", repetition.pair[side])
            for side, (language, repetition) in enumerate(
                zip(found.config.corpus.languages, found.repetitions, strict=True)
            )
        ],
        vocabulary=tables.vocabulary_line(found),
        coverage=tables.vocabulary_table(found),
        training=tables.training_rows(found),
    )


def _tiles(found: Inspection) -> list[tuple[str, str]]:
    rows = sum(report.rows for report in found.reports)
    dropped = sum(sum(report.dropped.values()) for report in found.reports)
    tiles = [
        ("rows read", f"{rows:,}"),
        ("dropped", percent(dropped, rows)),
        ("training pairs", f"{found.pairs:,}"),
        ("validation pairs", f"{found.validation_pairs:,}"),
        ("preset", found.config.run.preset),
    ]
    if (seconds := found.training_seconds) is not None:
        tiles.append(("training time here", tables.duration(seconds)))
    return tiles


def _reasons(found: Inspection) -> list[Markup]:
    """Charts of the dropped rows by reason, and of what strict rules would drop."""
    totals: dict[str, int] = {}
    for report in found.reports:
        for reason, count in report.dropped.items():
            totals[reason] = totals.get(reason, 0) + count
    parts = [("Dropped rows", totals)]
    if found.strict is not None:
        parts.append(("Further pairs that --clean strict would drop", found.strict.dropped))
    return [
        bars(title, [(why, n, f"{n:,}") for why, n in sorted(counts.items(), key=lambda c: -c[1])])
        for title, counts in parts
        if counts
    ]


def _dropped(found: Inspection) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """The examples of dropped rows of each source."""
    reports = [*found.reports[:MAX_SOURCES], *([found.strict] if found.strict else [])]
    return [
        (report.source, [(why, *pair) for why, pairs in report.examples.items() for pair in pairs])
        for report in reports
        if report.examples
    ]


def _length_charts(found: Inspection) -> Iterator[Markup]:
    texts, dataset, names = found.texts, found.vocabulary.dataset, found.config.corpus.languages
    sides = [texts.characters[:, side] for side in range(2)]
    yield _lengths("Characters of a sentence", dict(zip(names, sides, strict=True)), "characters")
    ratios = np.clip(texts.ratios, 0, MAX_RATIO)
    counts, edges = np.histogram(ratios, bins=BINS, range=(0, MAX_RATIO))
    label = f"{names[1]} characters for one {names[0]} character (4: 4 or more)"
    yield histogram("Ratio of the sides", edges.tolist(), [Series("pairs", counts.tolist())], label)
    if len(dataset):
        tokens = [side.lengths + 1 for side in (dataset.source, dataset.target)]
        yield _lengths("Tokens of a sentence", dict(zip(names, tokens, strict=True)), "tokens")
        yield _fitting(np.maximum(*tokens), found.fit_share)


def _lengths(title: str, values: dict[str, np.ndarray], label: str) -> Markup:
    """A histogram up to the length that 99.5% of the sentences do not exceed."""
    longest = max(float(np.quantile(side, 0.995)) for side in values.values())
    step = max(1, int(np.ceil(longest / BINS)))
    edges = np.arange(0, longest + step + 1, step)
    series = [
        Series(name, np.histogram(np.minimum(side, edges[-1]), edges)[0].tolist())
        for name, side in values.items()
    ]
    quantiles = ", ".join(f"median {np.median(v):.0f} in {name}" for name, v in values.items())
    alternative = f"Histogram of {label}: {quantiles}."
    return histogram(title, edges.tolist(), series, label, alternative, is_open=True)


def _fitting(longest: np.ndarray, share: float) -> Markup:
    """The share of the pairs that have at most so many tokens on both sides."""
    limits = np.unique(np.linspace(1, longest.max(), 100).astype(int))
    counts = np.searchsorted(np.sort(longest), limits, side="right")
    shares = (share * counts / len(longest)).tolist()
    return lines(
        "Pairs that fit a --seq_len",
        [Series("pairs", shares, limits.tolist())],
        "--seq_len, in tokens",
        "{:.0%}".format,
    )


def _script_charts(found: Inspection) -> Iterator[Markup]:
    for side, language in enumerate(found.config.corpus.languages):
        scripts = found.texts.scripts[side]
        total = scripts.total()
        items = [(name, n, percent(n, total)) for name, n in scripts.most_common(SCRIPTS)]
        if items:
            yield bars(f"Scripts of the {language} letters", items)


def _characters(found: Inspection, side: int) -> list[tuple[str, str, str]]:
    return [
        (tables.visible(character), f"{count:,}", tables.character_name(character))
        for character, count in tables.frequent_characters(found, side)
    ]
