"""Which pairs of a corpus are used, decided from the hashes of all of them.

The records are mapped from disk and read in parts, so that memory does not grow with the corpus,
except for one mark per pair.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from translate_ddp.data.cleaning import (
    DUPLICATE,
    LABELS,
    NEAR_DUPLICATE,
    NO_LABEL,
    ONE_FOR_MANY,
)
from translate_ddp.runtime.long_calls import heartbeat

PART_ROWS = 1 << 22  # sorted at once
# A text that translates, or is translated by, more different ones than this share of all pairs and
# this number is no translation: TODO, or nan of pandas. At most 0.22% do (15, in MAFAND's Igbo).
MAX_REPEATED_SHARE, MAX_REPEATED = 0.005, 10


def parts(count: int) -> Iterator[slice]:
    for start in range(0, count, PART_ROWS):
        heartbeat()
        yield slice(start, min(start + PART_ROWS, count))


def sorted_groups(
    hashes: np.ndarray, is_kept: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The kept rows in the order of their hashes, then of their numbers, in parts.

    A part has the hashes and the rows. All rows of one hash are in one part.
    """
    bits = max(int(is_kept.sum() - 1) // PART_ROWS, 0).bit_length()
    shift = np.uint64(63)  # in two steps: a shift by 64 bits is not defined
    for prefix in range(1 << bits):
        found = []
        for part in parts(len(hashes)):
            top = (hashes[part] >> np.uint64(1)) >> (shift - np.uint64(bits))
            found.append(np.flatnonzero((top == prefix) & is_kept[part]) + part.start)
        rows = np.concatenate(found)
        values = hashes[rows]
        order = np.argsort(values, kind="stable")
        yield values[order], rows[order]


def repeated(hashes: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    """The kept rows with the hash of an earlier kept row, ascending."""
    found = [rows[1:][values[1:] == values[:-1]] for values, rows in sorted_groups(hashes, is_kept)]
    return np.sort(np.concatenate(found))


def frequent(hashes: np.ndarray, is_kept: np.ndarray, minimum: float) -> list[tuple[int, int]]:
    """The hashes of more than `minimum` kept rows, each with their number, which descends."""
    found: list[tuple[int, int]] = []
    for values, _ in sorted_groups(hashes, is_kept):
        different, counts = np.unique(values, return_counts=True)
        is_frequent = counts > minimum
        found += zip(different[is_frequent].tolist(), counts[is_frequent].tolist(), strict=True)
    return sorted(found, key=lambda each: -each[1])


def rows_with(hashes: np.ndarray, wanted: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    """The kept rows whose hash is one of the wanted ones, ascending."""
    found = [
        np.flatnonzero(np.isin(hashes[part], wanted) & is_kept[part]) + part.start
        for part in parts(len(hashes))
    ]
    return np.concatenate(found)


def label_repeated(records: np.ndarray, labels: np.ndarray, is_strict: bool) -> None:
    """Label duplicates; with `is_strict` also what translates too much, and near duplicates.

    The rows are of one part. Labelled rows keep their labels, and have no effect.
    """
    labels[repeated(records["pair"], labels == NO_LABEL)] = LABELS[DUPLICATE]
    if is_strict:
        limit = most_translations(labels)
        for side in ("source", "target"):
            found = frequent(records[side], labels == NO_LABEL, limit)
            texts = np.array([text for text, _ in found], dtype=np.uint64)
            rows = rows_with(records[side], texts, labels == NO_LABEL)
            labels[rows] = LABELS[ONE_FOR_MANY]
        has_key = (labels == NO_LABEL) & (records["near"] != 0)
        labels[repeated(records["near"], has_key)] = LABELS[NEAR_DUPLICATE]


def most_translations(labels: np.ndarray) -> float:
    """How many rows of a part may have the same text on one side."""
    return max(MAX_REPEATED, MAX_REPEATED_SHARE * int((labels == NO_LABEL).sum()))


def held_out(records: np.ndarray, is_kept: np.ndarray, wanted: int) -> list[np.ndarray]:
    """Rows for validation: all kept rows of each of the sources with the smallest hashes.

    As many sources as have `wanted` different pairs, or all but the one with the largest hash,
    which is always left for training. So the order of the rows has no effect.
    """
    hashes = records["source"]
    maxima = (hashes[part].max(where=is_kept[part], initial=0) for part in parts(len(hashes)))
    largest = max(maxima)
    groups: list[np.ndarray] = []
    count = 0
    for values, rows in sorted_groups(hashes, is_kept):
        start = 0
        while start < len(rows):
            if count >= wanted or values[start] == largest:
                return groups
            end = int(np.searchsorted(values, values[start], side="right"))
            groups.append(rows[start:end])
            count += len(np.unique(records["pair"][rows[start:end]]))
            start = end
    return groups


def smallest(hashes: np.ndarray, is_kept: np.ndarray, count: int) -> np.ndarray:
    """Marks of the `count` kept rows with the smallest hashes: a sample that is always the same."""
    if is_kept.sum() <= count:
        return is_kept
    is_chosen = np.zeros(len(is_kept), dtype=bool)
    for _, rows in sorted_groups(hashes, is_kept):
        is_chosen[rows[:count]] = True
        count -= min(count, len(rows))
        if not count:
            break
    return is_chosen
