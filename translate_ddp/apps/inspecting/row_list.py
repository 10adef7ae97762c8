"""The rows that `--clean strict` drops, as a list for the people who correct a corpus."""

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np

from translate_ddp.data.cleaned_corpus import CleanedCorpus
from translate_ddp.data.cleaning import DUPLICATE, LABELS, NEAR_DUPLICATE, NO_LABEL, REASONS
from translate_ddp.data.selection import rows_with

COLUMNS = ("file", "direction", "row", "reason", "source", "target")


def write_row_list(corpus: CleanedCorpus, path: Path) -> int:
    """Write the rows of a labelled corpus as TSV, with a line of names; their number.

    Raises OSError.
    """
    labels, first = corpus.strict_labels, first_rows(corpus)
    is_listed = labels != NO_LABEL
    # With a byte order mark, without which Excel reads another encoding.
    with path.open("x", encoding="utf-8-sig", newline="\n") as file:
        table = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        table.writerow(COLUMNS)
        for part, pairs, rows in corpus.batches(is_listed):
            for pair, row in zip(pairs, rows.tolist(), strict=True):
                name, number = corpus.place(row)
                reason = REASONS[labels[row] - 1]
                if row in first:
                    other, place = corpus.place(first[row])
                    reason += f" of row {place}" + f" of {other}" * (other != name)
                table.writerow([name, part.direction, number, reason, *pair])
    return int(is_listed.sum())


def first_rows(corpus: CleanedCorpus) -> dict[int, int]:
    """For each duplicate and near duplicate, the row that it repeats."""
    found: dict[int, int] = {}
    for start, end in pairwise(corpus.bounds):
        records, labels = corpus.records[start:end], corpus.strict_labels[start:end]
        for reason, column in ((DUPLICATE, "pair"), (NEAR_DUPLICATE, "near")):
            repeating = np.flatnonzero(labels == LABELS[reason])
            hashes = records[column]
            # Of equal pairs the first one may be dropped for another reason, of similar ones not.
            others = labels != LABELS[DUPLICATE] if reason == DUPLICATE else labels == NO_LABEL
            rows = rows_with(hashes, hashes[repeating], others)
            first = dict(zip(hashes[rows].tolist(), rows.tolist(), strict=True))
            for row, value in zip(repeating.tolist(), hashes[repeating].tolist(), strict=True):
                found[start + row] = start + first[value]
    return found
