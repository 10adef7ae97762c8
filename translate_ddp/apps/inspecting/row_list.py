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
    NEAR_DUPLICATE,
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
    row: int  # of those with text, from 1
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
    for cleaned in _cleaned(rows, "Looking for scripts in"):
        if not cleaned.reason:
            for side, names in zip(scripts, cleaned.scripts, strict=True):
                side[names] += 1
    accepted = list(map(accepted_scripts, scripts))
    first: dict[str, int] = {}  # of equal rows, and of nearly equal ones
    for number, cleaned in enumerate(_cleaned(rows, "Listing rows of"), 1):
        reason, pair = cleaned.reason, f"{cleaned.src}\t{cleaned.tgt}"
        if not reason and not all(
            names in own for names, own in zip(cleaned.scripts, accepted, strict=True)
        ):
            reason = WRONG_SCRIPT
        if not reason and pair in first:
            reason = f"{DUPLICATE} of row {first[pair]}"
        elif not reason and cleaned.near in first:
            reason = f"{NEAR_DUPLICATE} of row {first[cleaned.near]}"
        if reason:
            texts = (cleaned.src, cleaned.tgt)
            yield ListedRow(rows.name, str(direction), number, reason, *texts)
            continue
        first[pair] = number
        if cleaned.near:
            first[cleaned.near] = number


def _cleaned(rows: Rows, label: str) -> Iterator[Cleaned]:
    with Progress(f"{label} {rows.name}", rows.size, scaled=True, leave=False) as progress:
        for row in rows.read(progress.advance):
            yield clean_row("strict", row)
