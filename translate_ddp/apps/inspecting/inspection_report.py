"""The report of an inspection, for a terminal and as one HTML page."""

import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup

from translate_ddp.apps.inspecting.findings import find_problems, of, percent
from translate_ddp.apps.inspecting.inspection import Inspection
from translate_ddp.apps.reporting.page_template import (
    Block,
    Charts,
    Page,
    Paragraph,
    Problems,
    Section,
    Table,
    Values,
    render_page,
    untrusted,
)
from translate_ddp.apps.reporting.svg_charts import Series, lines
from translate_ddp.console import counted, describe_seconds, printable
from translate_ddp.data.corpus import Report
from translate_ddp.data.pair_store import Pair
from translate_ddp.text import separates_words

COLUMNS = 100  # of a terminal
EXAMPLE_COLUMNS = 80
MAX_SOURCES = 50
MAX_PROBLEMS = 12  # on a terminal
FREQUENT_CHARACTERS = 12
BINS = 30
QUANTILES = {"min": 0.0, "1%": 0.01, "25%": 0.25, "median": 0.5, "75%": 0.75, "99%": 0.99, "max": 1}


def render_inspection(found: Inspection) -> str:
    """The page, complete in itself and below 1 MB."""
    problems = find_problems(found)
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
        tiles.append(("training time here", describe_seconds(seconds)))
    listed = Problems(problems, found.config.corpus.languages) if problems else Paragraph("None.")
    return render_page(
        Page(
            title=untrusted(title(found)),
            subtitle=f"Texts, vocabulary and time are those of {sample_text(found)}.",
            tiles=tiles,
            sections=[
                Section("problems", f"Problems: {len(problems)}", [listed]),
                *sections(found),
            ],
        )
    )


def report_lines(found: Inspection) -> Iterator[str]:
    """The lines for a terminal, at most 100 columns wide."""
    yield from _wrapped(title(found), "")
    problems = find_problems(found)
    yield from ("", f"PROBLEMS: {len(problems) or 'none'}")
    for problem in problems[:MAX_PROBLEMS]:
        yield from _wrapped(f"{problem.what.rstrip('.')}. {problem.advice}", "! ", "  ")
        for pair in problem.examples[:1]:
            yield f"    e.g. {example(pair)}"
    if len(problems) > MAX_PROBLEMS:
        yield f"  and {len(problems) - MAX_PROBLEMS} more: see --html"
    for section in sections(found):
        yield from ("", section.title.upper())
        for block in section.blocks:
            yield from _block_lines(block)


def title(found: Inspection) -> str:
    """`en to de: multi30k`."""
    return f"{' to '.join(found.config.corpus.languages)}: {found.config.corpus.name}"


def sections(found: Inspection) -> list[Section]:
    """What is known of the corpus; charts are left out on a terminal."""
    return [
        Section("rows", "Rows", list(_rows(found))),
        Section("lengths", f"Lengths of {sample_text(found)}", list(_lengths(found))),
        Section("characters", "Characters of the same pairs", list(_characters(found))),
        Section("vocabulary", "Vocabulary", list(_vocabulary(found))),
        Section("training", "Training", [Values(training_rows(found))]),
    ]


def _rows(found: Inspection) -> Iterator[Block]:
    """Read, kept and dropped rows of each source, and why rows are dropped."""
    rows = []
    for number, report in enumerate(found.reports[:MAX_SOURCES]):
        is_validation = number >= len(found.config.corpus.dataset)
        source = f"{report.source} (validation)" if is_validation else report.source
        dropped = sum(report.dropped.values())
        rows.append([source, f"{report.rows:,}", f"{report.kept:,}", f"{dropped:,}"])
    yield Table("Rows", ["source", "rows", "kept", "dropped"], rows, has_numbers=True)
    validation = counted(found.validation_pairs, "validation pair")
    yield Paragraph(f"Used: {counted(found.pairs, 'training pair')}, {validation}.")
    for report in found.reports[:MAX_SOURCES]:
        yield from _dropped(f"Dropped of {report.source}:", report)
    if (strict := found.strict) is None:
        return
    total = sum(strict.dropped.values())
    yield from _dropped(f"--clean strict would also drop {of(total, strict.rows)} pairs:", strict)


def _dropped(text: str, report: Report) -> Iterator[Block]:
    """The number of dropped rows by reason, with an example of each."""
    if report.dropped:
        yield Paragraph(untrusted(text))
        rows = []
        for reason, count in Counter(report.dropped).most_common():
            pairs = report.examples.get(reason, [])[:1]
            rows.append((reason, ", as: ".join([f"{count:,}", *map(example, pairs)])))
        yield Values(rows)


def _lengths(found: Inspection) -> Iterator[Block]:
    """Quantiles of characters, words and tokens per side, and of the ratio of the sides."""
    texts, dataset, rows = found.texts, found.vocabulary.dataset, []
    languages = found.config.corpus.languages
    tokens = [side.lengths + 1 for side in (dataset.source, dataset.target)]  # as --seq_len counts
    for side, language in enumerate(languages):
        rows.append([f"{language} characters", *_quantiles(texts.characters[:, side])])
        if separates_words(language):
            rows.append([f"{language} words", *_quantiles(texts.words[:, side])])
        if len(dataset):
            rows.append([f"{language} tokens", *_quantiles(tokens[side])])
    ratios = texts.characters[:, 1] / texts.characters[:, 0]
    rows.append([f"{languages[1]} / {languages[0]} characters", *_quantiles(ratios, ".2f")])
    yield Table("Quantiles of lengths", ["", *QUANTILES, "mean"], rows, has_numbers=True)
    if len(dataset):
        yield Charts([_distribution(languages, tokens)])


def _distribution(languages: Sequence[str], tokens: Sequence[np.ndarray]) -> Markup:
    """The number of sentences by length, up to that which 99.5% of them do not exceed."""
    longest = max(float(np.quantile(side, 0.995)) for side in tokens)
    step = max(1, int(np.ceil(longest / BINS)))
    edges = np.arange(0, longest + step + 1, step)
    counts = [np.histogram(np.minimum(side, edges[-1]), edges)[0].tolist() for side in tokens]
    series = [
        Series(language, of_side, edges[:-1].tolist())
        for language, of_side in zip(languages, counts, strict=True)
    ]
    return lines("Sentences by length", series, "tokens; the last point: also longer ones")


def _characters(found: Inspection) -> Iterator[Block]:
    rows = []
    for side, language in enumerate(found.config.corpus.languages):
        counts, scripts = found.texts.counts[side], found.texts.scripts[side]
        total = scripts.total()
        shares = [f"{name} {percent(n, total)}" for name, n in scripts.most_common(5)]
        rows.append((f"{language} letters", ", ".join(shares) or "none"))
        rows.append((f"{language} characters", f"{len(counts):,} different ones"))
        frequent = Counter({c: n for c, n in counts.items() if not c.isascii()})
        shown = [f"{visible(c)} {n:,}" for c, n in frequent.most_common(FREQUENT_CHARACTERS)]
        rows.append((f"{language} not ASCII", ",  ".join(shown) or "none"))
    yield Values(rows)


def visible(character: str) -> str:
    """The character, or its number if it shows nothing or joins others."""
    is_shown = character.isprintable() and unicodedata.category(character)[0] != "M"
    return character if is_shown else f"U+{ord(character):04X}"


def _vocabulary(found: Inspection) -> Iterator[Block]:
    """Tokens per word and the coverage of validation, per side."""
    vocabulary, texts, tokenizer = found.vocabulary, found.texts, found.config.tokenizer
    origin = f"read from {tokenizer.tokenizer_file}"
    if vocabulary.is_trained:
        origin = f"{tokenizer.tokenizer}, trained on the same pairs"
    yield Paragraph(
        untrusted(f"{len(vocabulary.tokenizer):,} tokens, {origin}. Unknown tokens (or parts ")
        + "of characters) and characters that training does not have are shares of validation."
    )
    rows = []
    for side, language in enumerate(found.config.corpus.languages):
        coverage = vocabulary.coverage[side]
        has_words = separates_words(language) and len(vocabulary.dataset)
        shares = (coverage.unknown, coverage.unseen)
        rows.append(
            [
                language,
                f"{vocabulary.tokens_per(texts.words, side):.2f}" if has_words else "-",
                f"{vocabulary.tokens_per(texts.characters, side):.2f}",
                *(f"{share:.2%}" for share in shares),
                " ".join(map(visible, coverage.unseen_characters)),
            ]
        )
    columns = ["tokens per word", "per character", "unknown", "new characters", ""]
    yield Table("Coverage of the vocabulary", ["", *columns], rows, has_numbers=True)


def training_rows(found: Inspection) -> list[tuple[str, str]]:
    """Names and values of the plan, the preset and the estimated time."""
    config, model, pace, epoch = found.config, found.config.model, found.pace, found.epoch
    preset = config.run.preset
    if preset == found.suggested_preset:
        preset += f", which --preset auto chooses for {counted(found.pairs, 'training pair')}"
    else:
        preset += f"; --preset auto would choose {found.suggested_preset}"
    layers = f"{model.num_encoder_layers} + {model.num_decoder_layers} layers"
    parameters = f", {pace.parameters:,} parameters" if pace else ""
    rows = [("preset", preset), ("model", f"{layers}, width {model.d_model}{parameters}")]
    if epoch is not None:
        size = f"{config.batches.batch_tokens:,} tokens"
        if config.batches.batch_size:
            size = f"{config.batches.batch_size:,} sentences"
        about = "about " if found.is_sample else ""
        rows.append(("epoch", f"{about}{epoch.steps:,} steps of at most {size}"))
        rows.append(("padding", f"{epoch.padding:.1%} of the positions"))
    if (seconds := found.training_seconds) is not None and pace is not None:
        epochs = config.train.num_epochs
        text = f"about {describe_seconds(seconds)} for {counted(epochs, 'epoch')} of"
        rows.append(
            ("time", f"{text} {describe_seconds(seconds / epochs)}, without validation and saving")
        )
        steps = counted(pace.steps, "training step")
        text = f"Estimate for one process on {pace.device} in {pace.precision}, from {steps}:"
        rows.append(("", f"{text} {pace.tokens_per_second:,.0f} tokens/s of both sides"))
    return rows


def sample_text(found: Inspection) -> str:
    count = len(found.texts)
    if found.is_sample:
        return f"a sample of {count:,} of the {found.pairs:,} training pairs"
    return f"all {count:,} training pairs"


def _quantiles(values: np.ndarray, form: str = ",.0f") -> list[str]:
    numbers = np.quantile(values, list(QUANTILES.values())).tolist()
    mean = format(float(values.mean()), form.replace("0f", "1f"))
    return [*(format(number, form) for number in numbers), mean]


# --- a terminal ---


def example(pair: Pair) -> str:
    """The starts of both sides in one line."""
    each = EXAMPLE_COLUMNS // 2 - 2
    return " | ".join(
        textwrap.shorten(printable(text), each, placeholder="…") or "(nothing)" for text in pair
    )


def _block_lines(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield from _wrapped(block.content)
    elif isinstance(block, Values):
        width = max(len(name) for name, _ in block.rows) + 2
        for name, value in block.rows:
            yield from _wrapped(f"{name:<{width}}{value}", "  ", " " * (width + 2))
    elif isinstance(block, Table):
        rows = [block.columns, *block.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        first_width = min(widths[0], COLUMNS - 2 - sum(width + 2 for width in widths[1:]))
        for first, *others in rows:
            cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
            name = printable(first)[-first_width:].ljust(first_width)  # the end of a long path
            yield f"  {name}  {'  '.join(cells)}".rstrip()


def _wrapped(text: str, first: str = "  ", following: str = "") -> list[str]:
    return textwrap.wrap(
        printable(text),
        COLUMNS,
        initial_indent=first,
        subsequent_indent=following or " " * len(first),
        break_on_hyphens=False,
    )
