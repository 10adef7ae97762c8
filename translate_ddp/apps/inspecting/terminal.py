"""The report of an inspection as plain text for a terminal."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from translate_ddp.apps.inspecting.findings import Finding, find_problems
from translate_ddp.apps.inspecting.inspection import Inspection
from translate_ddp.apps.inspecting.tables import (
    Table,
    frequent_characters,
    lengths_table,
    rows_table,
    sample_line,
    scripts_line,
    strict_line,
    training_rows,
    visible,
    vocabulary_line,
    vocabulary_table,
)
from translate_ddp.console import printable
from translate_ddp.data.pair_store import Pair
from translate_ddp.quantities import counted

COLUMNS = 100
MAX_SOURCES = 5  # whose rows are shown
MAX_PROBLEMS = 12
MAX_EXAMPLES = 6  # of dropped rows
CHARACTERS_SHOWN = 12  # of those that are not ASCII
EXAMPLE_COLUMNS = 88


def report_lines(found: Inspection) -> Iterator[str]:
    """The lines of the report, at most 100 columns wide."""
    src, tgt = found.config.corpus.languages
    yield from _wrapped(f"{src} to {tgt}: {found.config.corpus.name}", "")
    yield from _problems(find_problems(found))
    yield from _section("ROWS")
    yield from _rows(found)
    yield from _section(f"LENGTHS of {sample_line(found)}")
    yield from _aligned(lengths_table(found))
    yield from _section("CHARACTERS of the same pairs")
    for side, language in enumerate((src, tgt)):
        yield from _characters(found, side, language)
    yield from _section("VOCABULARY")
    yield from _wrapped(f"{vocabulary_line(found)} The shares are those of validation.")
    yield from _aligned(vocabulary_table(found))
    yield from _section("TRAINING")
    for name, value in training_rows(found):
        yield from _wrapped(f"{name:<9}{value}", "  ", "           ")


def _problems(problems: Sequence[Finding]) -> Iterator[str]:
    yield from _section(f"PROBLEMS: {len(problems) or 'none'}")
    for finding in problems[:MAX_PROBLEMS]:
        line = f"{finding.what.rstrip('.')}. {finding.advice}"
        yield from _wrapped(line, "! ", "  ")
        for pair in finding.examples[:1]:
            yield f"    e.g. {example(pair)}"
    if len(problems) > MAX_PROBLEMS:
        yield f"  and {len(problems) - MAX_PROBLEMS} more: see --html"


def _rows(found: Inspection) -> Iterator[str]:
    for name, read, kept, dropped in rows_table(found).rows[:MAX_SOURCES]:
        yield from _wrapped(f"{name}: {read} rows, {kept} kept; dropped: {dropped}", "  ", "      ")
    if len(found.reports) > MAX_SOURCES:
        yield f"  and {len(found.reports) - MAX_SOURCES} more sources: see --html"
    validation = counted(found.validation_pairs, "validation pair")
    yield f"  used: {counted(found.pairs, 'training pair')}, {validation}"
    reports = [*found.reports, *([found.strict] if found.strict else [])]
    examples = {
        why: pairs[0] for report in reports for why, pairs in report.examples.items() if pairs
    }
    if line := strict_line(found):
        yield from _wrapped(line, "  ", "      ")
    for reason, pair in list(examples.items())[:MAX_EXAMPLES]:
        yield f"    {reason}: {example(pair, EXAMPLE_COLUMNS - len(reason))}"


def _characters(found: Inspection, side: int, language: str) -> Iterator[str]:
    counts = found.texts.counts[side]
    letters = scripts_line(found, side)
    yield f"  {language}: {len(counts):,} different characters; letters: {letters}"
    shown = (f"{visible(c)} {n:,}" for c, n in frequent_characters(found, side)[:CHARACTERS_SHOWN])
    yield from _wrapped(f"not ASCII: {',  '.join(shown) or 'none'}", "      ")


def example(pair: Pair, columns: int = EXAMPLE_COLUMNS) -> str:
    """Both sides in one line of at most so many characters."""
    each = max(columns // 2 - 2, 8)
    return " | ".join(_cut(printable(text), each) or "(nothing)" for text in pair)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _section(title: str) -> Iterator[str]:
    yield ""
    yield title


def _aligned(table: Table) -> Iterator[str]:
    """The table with its first column to the left, the others to the right."""
    rows = [table.columns, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield f"  {first.ljust(widths[0])}  {'  '.join(cells)}".rstrip()[:COLUMNS]


def _wrapped(text: str, first: str = "  ", following: str = "") -> Iterable[str]:
    return textwrap.wrap(
        printable(text),
        COLUMNS,
        initial_indent=first,
        subsequent_indent=following or " " * len(first),
        break_on_hyphens=False,
    )
