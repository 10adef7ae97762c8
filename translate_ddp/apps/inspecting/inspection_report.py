"""The report of an inspection, for a terminal and as one HTML page, and the problems it names."""

import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterator

import numpy as np

from translate_ddp.apps.inspecting.inspection import Inspection
from translate_ddp.apps.inspecting.text_statistics import DEFECTS
from translate_ddp.apps.reporting.page_template import (
    Block,
    Page,
    Paragraph,
    Problem,
    Problems,
    Section,
    Table,
    Values,
    render_page,
    untrusted,
)
from translate_ddp.console import counted, describe_seconds, printable
from translate_ddp.data.cleaned_corpus import Report
from translate_ddp.data.cleaning import (
    ALSO_IN_EXCLUDED,
    ALSO_IN_VALIDATION,
    CONTROL_CHARACTERS,
    DUPLICATE,
    EMPTY,
    INVALID_UNICODE,
    LENGTH_RATIO,
    NEAR_DUPLICATE,
    NOT_TEXT,
    NUMBERS_DIFFER,
    SOURCE_EQUALS_TARGET,
    TOO_LONG,
    URLS_DIFFER,
    WRONG_SCRIPT,
)
from translate_ddp.data.languages import usual_scripts
from translate_ddp.data.pair_store import Pair
from translate_ddp.text import separates_words
from translate_ddp.training.run_info import describe_sizes

COLUMNS = 100  # width of a terminal
EXAMPLE_COLUMNS = 80
MAX_SOURCES = 50
MAX_PROBLEMS = 12  # on a terminal
FREQUENT_CHARACTERS = 12
QUANTILES = {"min": 0.0, "1%": 0.01, "25%": 0.25, "median": 0.5, "75%": 0.75, "99%": 0.99, "max": 1}

MIN_SHARE = 0.001  # fewer of the pairs are not reported as a problem
# The share of letters in a script that the language has not; names and units are Latin in all.
MAX_OTHER_LETTERS, MAX_LATIN_LETTERS = 0.05, 0.9
MIN_VALIDATION_PAIRS = 100
MIN_TRAINING_PAIRS = 500
MAX_DAYS = 3
MAX_UNKNOWN = 0.02  # share of the tokens of validation

SENTENCES = "Divide documents into sentences; check quotes and line ends."
STRICT = "Pass --clean strict; check that the lines of both sides belong together."
FAIR = "Training does not see them, so scores stay fair."
# Dropped rows that point to a defect of the files: the share from which they do, and what to do.
DROPPED = {
    NOT_TEXT: (MIN_SHARE, "Check the columns that are read."),
    EMPTY: (0.01, "Check that the lines of both sides belong together."),
    INVALID_UNICODE: (0.0, "Convert the file to UTF-8."),
    TOO_LONG: (0.0, SENTENCES),
    CONTROL_CHARACTERS: (MIN_SHARE, "The file may be damaged, or in another encoding."),
    DUPLICATE: (0.1, "The corpus is smaller than its files."),
    ALSO_IN_VALIDATION: (0.01, FAIR),
    ALSO_IN_EXCLUDED: (0.01, FAIR),
}
KEPT = {  # the same for kept pairs that strict rules would drop; the first three with level none
    TOO_LONG: (0.0, SENTENCES),
    CONTROL_CHARACTERS: (MIN_SHARE, "The file may be damaged: pass --clean safe."),
    DUPLICATE: (0.1, "Pass --clean safe."),
    LENGTH_RATIO: (0.01, STRICT),
    SOURCE_EQUALS_TARGET: (0.01, "They teach the model to copy: pass --clean strict."),
    WRONG_SCRIPT: (MIN_SHARE, "They are in another language: pass --clean strict."),
    NUMBERS_DIFFER: (0.05, STRICT),
    URLS_DIFFER: (0.05, "Pass --clean strict."),
    NEAR_DUPLICATE: (0.1, "If they add nothing, as copies, pass --clean strict."),
}

OTHER_LOOKS = {NEAR_DUPLICATE: "differ from another only in digits, punctuation and case"}


def render_inspection(found: Inspection) -> str:
    """The page, complete in itself and below 1 MB."""
    problems = find_problems(found)
    rows = sum(report.rows for report in found.cleaned.reports)
    dropped = sum(sum(report.dropped.values()) for report in found.cleaned.reports)
    tiles = [
        ("rows read", f"{rows:,}"),
        ("dropped", percent(dropped, rows)),
        ("training pairs", f"{sum(found.cleaned.sizes):,}"),
        ("validation pairs", f"{sum(found.cleaned.validation_sizes):,}"),
        ("preset", found.config.run.preset),
    ]
    if (seconds := found.training_seconds) is not None:
        tiles.append(("training time here", describe_seconds(seconds)))
    listed = Problems(problems, found.sides) if problems else Paragraph("None.")
    return render_page(
        Page(
            title=untrusted(title(found)),
            subtitle=f"Texts, vocabulary and time are of {sample_text(found)}.",
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
    if any(problem.examples for problem in problems):
        yield "  --rows FILE lists the rows to correct."
    if len(problems) > MAX_PROBLEMS:
        yield f"  and {len(problems) - MAX_PROBLEMS} more: see --html"
    for section in (each for each in sections(found) if each.blocks):
        yield from ("", section.title.upper())
        for block in section.blocks:
            yield from _block_lines(block)


def title(found: Inspection) -> str:
    """`en to de: multi30k`."""
    return f"{' to '.join(found.sides)}: {found.config.corpus.name}"


def sections(found: Inspection) -> list[Section]:
    """What is known of the corpus."""
    return [
        Section("rows", "Rows", list(_rows(found))),
        Section("directions", "Directions", list(_directions(found))),
        Section("lengths", f"Lengths of {sample_text(found)}", list(_lengths(found))),
        Section("characters", "Characters of the same pairs", list(_characters(found))),
        Section("vocabulary", "Vocabulary", list(_vocabulary(found))),
        Section("training", "Training", [Values(training_rows(found))]),
    ]


def _rows(found: Inspection) -> Iterator[Block]:
    """Read, kept and dropped rows of each source, and why rows are dropped."""
    rows = []
    for report in found.cleaned.reports[:MAX_SOURCES]:
        source = f"{report.source} ({report.use})" if report.use else report.source
        dropped = sum(report.dropped.values())
        rows.append([source, f"{report.rows:,}", f"{report.kept:,}", f"{dropped:,}"])
    yield Table("Rows", ["source", "rows", "kept", "dropped"], rows, has_numbers=True)
    validation = counted(sum(found.cleaned.validation_sizes), "validation pair")
    yield Paragraph(f"Used: {counted(sum(found.cleaned.sizes), 'training pair')}, {validation}.")
    for report in found.cleaned.reports[:MAX_SOURCES]:
        yield from _dropped(f"Dropped of {report.source}:", report)
    lost = of(found.strict.rows - found.strict.kept, found.strict.rows)
    text = f"--clean strict would also drop {lost} pairs, and leave {found.strict.kept:,}:"
    yield from _dropped(text, found.strict)


def _directions(found: Inspection) -> Iterator[Block]:
    """The pairs of each direction, if there are several, and what directions share."""
    corpus, vocabulary, rows, sources = found.cleaned, found.vocabulary, [], []
    for direction, held_out in zip(corpus.directions, corpus.validation_sizes, strict=True):
        reports = (report for report in corpus.reports if not report.use)
        reports = zip(corpus.parts, reports, strict=False)  # swapped parts have none
        own = [report for part, report in reports if part.direction == direction]
        dropped = sum(sum(report.dropped.values()) for report in own)
        kept = corpus.is_train & corpus.rows_in(direction)
        counts = (int(kept.sum()), dropped, held_out)
        fits = (found.texts.languages == direction).all(axis=1)[vocabulary.fits]
        pairs = vocabulary.dataset.take(np.flatnonzero(fits))
        tokens = pairs.source.tokens, pairs.target.tokens
        lengths = (f"{len(side) / max(len(pairs), 1):.1f}" for side in tokens)
        used = percent(len(np.union1d(*tokens)), len(vocabulary.tokenizer))
        rows.append([str(direction), *map("{:,}".format, counts), *lengths, used])
        sources.append(np.unique(corpus.records["source"][kept]))
    if len(rows) > 1:
        columns = ["pairs", "dropped", "validation", "source tokens", "target tokens", "vocabulary"]
        yield Table("Directions", ["", *columns], rows, has_numbers=True)
        _, times = np.unique(np.concatenate(sources), return_counts=True)
        shared = of(int((times > 1).sum()), len(times))
        yield Paragraph(
            f"Tokens are the mean of a sentence; vocabulary is its share in this text. {shared} "
            "source sentences stand in several directions."
        )


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
    """Quantiles of characters, words and tokens by language, and of the ratio of the sides."""
    texts, vocabulary, rows = found.texts, found.vocabulary, []
    for language in texts.counts:
        is_chosen = texts.languages == language
        rows.append([f"{language} characters", *_quantiles(texts.characters[is_chosen])])
        if separates_words(language):
            rows.append([f"{language} words", *_quantiles(texts.words[is_chosen])])
        tokens = vocabulary.lengths[is_chosen & (vocabulary.lengths > 0)] + 1  # as --seq_len counts
        if len(tokens):
            rows.append([f"{language} tokens", *_quantiles(tokens)])
    ratios = texts.characters[:, 1] / texts.characters[:, 0]
    rows.append([f"{' / '.join(found.sides[::-1])} characters", *_quantiles(ratios, ".2f")])
    yield Table("Quantiles of lengths", ["", *QUANTILES, "mean"], rows, has_numbers=True)


def _characters(found: Inspection) -> Iterator[Block]:
    rows = []
    for language, counts in found.texts.counts.items():
        scripts = found.texts.scripts[language]
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
    """Tokens per word and the coverage of validation, per language."""
    vocabulary, texts, tokenizer = found.vocabulary, found.texts, found.config.tokenizer
    origin = f"read from {tokenizer.tokenizer_file}"
    if vocabulary.is_trained:
        origin = f"{tokenizer.tokenizer}, trained on the same pairs"
    yield Paragraph(
        untrusted(f"{len(vocabulary.tokenizer):,} tokens, {origin}. Unknown tokens (or parts ")
        + "of characters) and characters that training does not have are shares of validation."
    )
    rows = []
    for language, coverage in vocabulary.coverage.items():
        is_chosen = texts.languages == language
        has_words = separates_words(language) and len(vocabulary.dataset)
        shares = (coverage.unknown, coverage.unseen)
        rows.append(
            [
                language,
                f"{vocabulary.tokens_per(texts.words, is_chosen):.2f}" if has_words else "-",
                f"{vocabulary.tokens_per(texts.characters, is_chosen):.2f}",
                *(f"{share:.2%}" for share in shares),
                " ".join(map(visible, coverage.unseen_characters)),
            ]
        )
    columns = ["tokens per word", "per character", "unknown", "new characters", ""]
    yield Table("Coverage of the vocabulary", ["", *columns], rows, has_numbers=True)


def training_rows(found: Inspection) -> list[tuple[str, str]]:
    """Names and values of the plan, the preset and the estimated time."""
    config, model, pace, epoch = found.config, found.config.model, found.pace, found.epoch
    preset = f"{config.run.preset}; --preset auto chooses {found.suggested_preset}"
    parameters = f"; {pace.parameters:,} parameters" if pace else ""
    rows = [("preset", preset), ("model", describe_sizes(vars(model)) + parameters)]
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
        return f"a sample of {count:,} of the {sum(found.cleaned.sizes):,} training pairs"
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


# --- problems ---


def find_problems(found: Inspection) -> list[Problem]:
    """The problems, in the order of the data flow."""
    return [
        *_row_problems(found),
        *_script_problems(found),
        *_defect_problems(found),
        *_length_problems(found),
        *_training_problems(found),
    ]


def _row_problems(found: Inspection) -> Iterator[Problem]:
    """Problems of reading, dropped rows, and kept pairs that look wrong."""
    for report in found.cleaned.reports:
        yield from map(Problem, report.notices)
    for report in found.cleaned.reports:
        for reason, (minimum, advice) in DROPPED.items():
            count = report.dropped.get(reason, 0)
            is_noticed = reason == INVALID_UNICODE and "not UTF-8" in " ".join(report.notices)
            if count and count >= minimum * report.rows and not is_noticed:
                what = f"{of(count, report.rows)} rows of {report.source} are dropped ({reason})"
                yield Problem(what, advice, report.examples[reason])
    for reason, (minimum, advice) in KEPT.items():
        count, pairs = found.strict.dropped.get(reason, 0), found.strict.rows
        if count and count >= minimum * pairs:
            looks = OTHER_LOOKS.get(reason, "look wrong")
            what = f"{of(count, pairs)} kept pairs {looks} ({reason})"
            yield Problem(what, advice, found.strict.examples[reason])


def _script_problems(found: Inspection) -> Iterator[Problem]:
    for language, letters in found.texts.scripts.items():
        expected = usual_scripts(language)
        for script, count in letters.most_common() if expected else ():
            limit = MAX_LATIN_LETTERS if script == "LATIN" else MAX_OTHER_LETTERS
            if script not in expected and count > limit * letters.total():
                yield Problem(
                    f"{percent(count, letters.total())} of the letters of {language} are {script}",
                    "Check --lang_src and --lang_tgt, and that each column has one language and was"
                    " converted to UTF-8 from its own encoding.",
                )
                break


def _defect_problems(found: Inspection) -> Iterator[Problem]:
    texts = found.texts
    for name, defect in DEFECTS.items():
        if (count := texts.defects[name]) > MIN_SHARE * len(texts):
            what = f"{of(count, len(texts))} pairs have {name}"
            yield Problem(what, defect.advice, texts.examples[name])


def _length_problems(found: Inspection) -> Iterator[Problem]:
    batches, over = found.config.batches, 1 - found.fit_share
    if found.epoch is None:
        yield Problem(f"No pair has fewer than {batches.seq_len} tokens", "Raise --seq_len.")
    elif over > 0.01:
        yield Problem(
            f"{over:.1%} of the pairs have over {batches.seq_len} tokens", "Raise --seq_len."
        )
    if sum(found.cleaned.sizes) < MIN_TRAINING_PAIRS:
        yield Problem(
            f"A model learns little from so few training pairs ({sum(found.cleaned.sizes):,})",
            "Look for more, as on opus.nlpl.eu, or fine-tune a model with --init_from.",
        )
    sizes, directions = found.cleaned.validation_sizes, found.cleaned.directions
    if (pairs := min(sizes)) < MIN_VALIDATION_PAIRS:
        which = f" of {directions[sizes.index(pairs)]}" * (len(sizes) > 1)
        yield Problem(
            f"Validation{which} is small ({pairs:,}), so its scores are uncertain",
            f"Pass --validation with {MIN_VALIDATION_PAIRS:,} pairs or more.",
        )


def _training_problems(found: Inspection) -> Iterator[Problem]:
    for language, coverage in found.vocabulary.coverage.items():
        if coverage.unknown > MAX_UNKNOWN:
            yield Problem(
                f"{coverage.unknown:.1%} of the {language} tokens of validation are unknown or"
                " parts of characters",
                "Pass --tokenizer bpe, raise --vocab_size, or check the language of validation.",
            )
    days = (found.training_seconds or 0) / 86_400
    if days > MAX_DAYS:
        yield Problem(
            f"The training would take about {days:,.0f} days on this machine",
            "Train on a GPU, or pass a smaller --preset.",
        )


def of(count: int, total: int) -> str:
    """`12 of 3,000 (0.4%)`."""
    return f"{count:,} of {total:,} ({percent(count, total)})"


def percent(count: float, total: float) -> str:
    """`40%`, `0.4%`, `under 0.1%`, `over 99.9%`."""
    share = count / max(total, 1)
    if 0 < share < MIN_SHARE:
        return "under 0.1%"
    if 1 - MIN_SHARE < share < 1:
        return "over 99.9%"
    return f"{share:.0%}" if 0.1 <= share < 0.99 or share == 1 else f"{share:.1%}"
