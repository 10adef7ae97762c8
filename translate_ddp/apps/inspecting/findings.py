"""The problems of an inspected corpus: what, how many, an example, what to do."""

from collections.abc import Iterator

from translate_ddp.apps.inspecting.inspection import ALL_REASONS, Inspection
from translate_ddp.apps.inspecting.text_statistics import DEFECTS
from translate_ddp.apps.reporting.page_template import Problem
from translate_ddp.data.cleaning import (
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

MIN_SHARE = 0.001  # of the pairs; fewer are not reported as a problem
MAX_OTHER_LETTERS = 0.05  # of a script that the language has not; Latin is in text of all
MIN_VALIDATION_PAIRS = 100
MIN_TRAINING_PAIRS = 500
MAX_DAYS = 3
MAX_UNKNOWN = 0.02  # of the tokens of validation

# Dropped rows that point to a defect of the files: the share from which they do, and what to do.
DROPPED = {
    NOT_TEXT: (MIN_SHARE, "Check the columns that are read."),
    EMPTY: (0.01, "Check that the lines of both sides belong together."),
    INVALID_UNICODE: (
        0.0,
        "Convert the file, as with iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW.",
    ),
    TOO_LONG: (0.0, "Divide documents into sentences; check quotes and line ends."),
    CONTROL_CHARACTERS: (MIN_SHARE, "The file may be damaged, or in another encoding."),
    DUPLICATE: (0.1, "The corpus is smaller than its files."),
    ALSO_IN_VALIDATION: (0.01, "Training does not see them, so scores stay fair."),
}
KEPT = {  # the same for kept pairs that strict rules would drop; the first three with level none
    TOO_LONG: (0.0, "Divide documents into sentences; check quotes and line ends."),
    CONTROL_CHARACTERS: (MIN_SHARE, "The file may be damaged: pass --clean safe."),
    DUPLICATE: (0.1, "Pass --clean safe."),
    LENGTH_RATIO: (
        0.01,
        "Pass --clean strict; check that the lines of both sides belong together.",
    ),
    SOURCE_EQUALS_TARGET: (0.01, "They teach the model to copy: pass --clean strict."),
    WRONG_SCRIPT: (MIN_SHARE, "They are in another language: pass --clean strict."),
    NUMBERS_DIFFER: (
        0.05,
        "Pass --clean strict; check that the lines of both sides belong together.",
    ),
    URLS_DIFFER: (0.05, "Pass --clean strict."),
    NEAR_DUPLICATE: (0.1, "If they add nothing, as copies, pass --clean strict."),
    ALL_REASONS: (0.0, "Check that the lines of both sides belong together."),
}

OTHER_LOOKS = {NEAR_DUPLICATE: "differ from another only in digits, punctuation and case"}


def find_problems(found: Inspection) -> list[Problem]:
    """The problems, in the order of the data flow."""
    parts = (_rows, _scripts, _defects, _lengths, _training)
    return [problem for part in parts for problem in part(found)]


def _rows(found: Inspection) -> Iterator[Problem]:
    """Problems of reading, dropped rows, and kept pairs that look wrong."""
    for report in found.reports:
        yield from map(Problem, report.notices)
    for report in found.reports:
        for reason, (minimum, advice) in DROPPED.items():
            count = report.dropped.get(reason, 0)
            is_noticed = reason == INVALID_UNICODE and report.notices
            if count and count >= minimum * report.rows and not is_noticed:
                what = f"{of(count, report.rows)} rows of {report.source} are dropped ({reason})"
                yield Problem(what, advice, report.examples[reason])
    if (strict := found.strict) is None:
        return
    for reason, (minimum, advice) in KEPT.items():
        count = strict.dropped.get(reason, 0)
        if count and count >= minimum * strict.rows:
            looks = OTHER_LOOKS.get(reason, "look wrong")
            what = f"{of(count, strict.rows)} kept pairs {looks} ({reason})"
            yield Problem(what, advice, strict.examples[reason])


def _scripts(found: Inspection) -> Iterator[Problem]:
    for language, letters in zip(found.config.corpus.languages, found.texts.scripts, strict=True):
        expected = usual_scripts(language)
        others = {script: n for script, n in letters.items() if script not in {*expected, "LATIN"}}
        if not expected or not others:
            continue
        script = max(others, key=others.__getitem__)
        if others[script] > MAX_OTHER_LETTERS * letters.total():
            yield Problem(
                f"{percent(others[script], letters.total())} of the letters of {language} are"
                f" {script}",
                "Check --lang_src and --lang_tgt, and that each column has one language.",
            )


def _defects(found: Inspection) -> Iterator[Problem]:
    texts = found.texts
    for name, defect in DEFECTS.items():
        if (count := texts.defects[name]) > MIN_SHARE * len(texts):
            what = f"{of(count, len(texts))} pairs have {name}"
            yield Problem(what, defect.advice, texts.examples[name])


def _lengths(found: Inspection) -> Iterator[Problem]:
    batches, over = found.config.batches, 1 - found.fit_share
    if found.epoch is None:
        yield Problem(f"No pair has fewer than {batches.seq_len} tokens", "Raise --seq_len.")
    elif over > 0.01:
        yield Problem(
            f"{over:.1%} of the pairs have over {batches.seq_len} tokens", "Raise --seq_len."
        )
    if found.pairs < MIN_TRAINING_PAIRS:
        yield Problem(
            f"A model learns little from so few training pairs ({found.pairs:,})",
            "Look for more, as on opus.nlpl.eu, or fine-tune a model with --init_from.",
        )
    if found.validation_pairs < MIN_VALIDATION_PAIRS:
        yield Problem(
            f"Validation is small ({found.validation_pairs:,}), so its scores are uncertain",
            f"Pass --validation with {MIN_VALIDATION_PAIRS:,} pairs or more.",
        )


def _training(found: Inspection) -> Iterator[Problem]:
    for language, coverage in zip(
        found.config.corpus.languages, found.vocabulary.coverage, strict=True
    ):
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
