"""The rows that `--clean strict` drops, as a list for the people who correct a corpus."""

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

from translate_ddp.console import Progress
from translate_ddp.data.cleaning import (
    DUPLICATE,
    MAX_REPEATED,
    MAX_REPEATED_SHARE,
    NEAR_DUPLICATE,
    ONE_FOR_MANY,
    WRONG_SCRIPT,
    Cleaned,
    clean_row,
)
from translate_ddp.data.languages import accepted_scripts
from translate_ddp.data.rows import Rows
from translate_ddp.data.sources import choose_split, find_splits
from translate_ddp.errors import NoSuchPair
from translate_ddp.settings import CorpusConfig, LanguagePair


class ListedRow(NamedTuple):
    """One line of the list."""

    file: str
    direction: str
    row: int  # its number in the file, as a spreadsheet shows it
    reason: str
    source: str
    target: str


def write_row_list(config: CorpusConfig, path: Path) -> int:
    """Write the rows as TSV, with a line of names; their number. Raises OSError."""
    count = 0
    # With a byte order mark, without which Excel reads another encoding.
    with path.open("x", encoding="utf-8-sig", newline="\n") as file:
        table = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        table.writerow(ListedRow._fields)
        for direction, name in product(config.requested, config.dataset):
            with suppress(NoSuchPair):  # not each dataset has each direction
                splits = find_splits(direction.fill(name), direction, config.options)
                rows = choose_split(direction.fill(name), splits, "train")
                for listed in bad_rows(rows, direction):
                    table.writerow(listed)
                    count += 1
    return count


def bad_rows(rows: Rows, direction: LanguagePair) -> Iterator[ListedRow]:
    """The rows of one source that `--clean strict` drops, in order. Reads them twice."""
    scripts = [Counter[str](), Counter[str]()]
    pairs = set[tuple[str, str]]()
    for _, _, cleaned in _cleaned(rows, "Looking for scripts in"):
        if not cleaned.reason:
            pairs.add((cleaned.src, cleaned.tgt))
            for side, names in zip(scripts, cleaned.scripts, strict=True):
                side[names] += 1
    accepted = list(map(accepted_scripts, scripts))
    translations = [Counter(side) for side in zip(*pairs, strict=True)]
    limit = max(MAX_REPEATED, MAX_REPEATED_SHARE * len(pairs))
    first: dict[str, str] = {}  # of equal rows, and of nearly equal ones: where
    for file, number, cleaned in _cleaned(rows, "Listing rows of"):
        texts, place = (cleaned.src, cleaned.tgt), f"row {number}"
        place += f" of {file}" * (file != rows.name)
        reason, pair = cleaned.reason, "\t".join(texts)
        if not reason and not all(
            names in own for names, own in zip(cleaned.scripts, accepted, strict=True)
        ):
            reason = WRONG_SCRIPT
        if not reason and pair in first:
            reason = f"{DUPLICATE} of {first[pair]}"
        elif not reason:
            first[pair] = place
            if any(side[text] > limit for side, text in zip(translations, texts, strict=True)):
                reason = ONE_FOR_MANY
            elif cleaned.near in first:
                reason = f"{NEAR_DUPLICATE} of {first[cleaned.near]}"
            elif cleaned.near:
                first[cleaned.near] = place
        if reason:
            yield ListedRow(file, str(direction), number, reason, *texts)


def _cleaned(rows: Rows, label: str) -> Iterator[tuple[str, int, Cleaned]]:
    with Progress(f"{label} {rows.name}", rows.size, scaled=True, leave=False) as progress:
        for file, number, row in rows.numbered(progress.advance):
            yield file, number, clean_row("strict", row)
