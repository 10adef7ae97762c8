"""Sentence pairs on disk, appended in batches and read as a stream: memory does not grow with them.

One file has lines `source<TAB>target`; normalized text has neither tabs nor line breaks. The other
one has a record of numbers for each pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice, pairwise, starmap
from os import SEEK_CUR
from pathlib import Path

import numpy as np

from translate_ddp.data.prepared_folder import mapped
from translate_ddp.data.rows import NumberedRow
from translate_ddp.runtime.long_calls import heartbeat

Pair = tuple[str, str]  # a source sentence and its translation

# Hashes have 64 bits: among ten million pairs, two are equal by chance once in 400,000 corpora.
RECORD = np.dtype(
    [
        ("bytes", "u4"),  # length of the line
        ("source", "u8"),  # hash of the source sentence
        ("target", "u8"),  # hash of its translation
        ("pair", "u8"),  # hash of the line
        ("near", "u8"),  # hash of what near duplicates have in common; 0: nothing
        ("scripts", "u4", (2,)),  # numbers of the scripts of source and target
        ("row", "u4"),  # its number in its file or sheet
        ("label", "u1"),  # why the row alone could be dropped, as `cleaning.LABELS`; 0: nothing
    ]
)
BATCH_PAIRS = 10_000
SAMPLE_PAIRS, SPACED_PAIRS = 500, 2_000
BATCH_CHARACTERS = 2**22  # a batch ends when its texts have more; few do


def to_lines(pairs: Iterable[Pair]) -> bytes:
    return "".join(f"{src}\t{tgt}\n" for src, tgt in pairs).encode()


def swapped(pair: Pair) -> Pair:
    """The pair of the reverse direction."""
    return pair[1], pair[0]


def to_pairs(lines: bytes) -> list[Pair]:
    found = (line.partition("\t") for line in lines.decode().split("\n")[:-1])
    return [(src, tgt) for src, _, tgt in found]


class PairStore:
    """The files of a folder, which are created empty or opened."""

    def __init__(self, folder: Path) -> None:
        self._lines, self._records = folder / "pairs.tsv", folder / "records.bin"

    def append(self, batches: Iterable[tuple[bytes, np.ndarray]]) -> None:
        """Add lines, with a record for each."""
        with self._lines.open("ab") as lines, self._records.open("ab") as records:
            for text, numbers in batches:
                heartbeat()
                lines.write(text)
                records.write(numbers.tobytes())

    def append_swapped(self, is_chosen: np.ndarray) -> None:
        """Add the marked pairs again, swapped; their records keep the hash of the pair."""
        records = self.records

        def turned(rows: slice) -> np.ndarray:
            found = records[rows][is_chosen[rows]]
            both = found.copy()
            both["source"], both["target"] = found["target"], found["source"]
            return both

        batches = self.batches(is_chosen)
        self.append((to_lines(map(swapped, pairs)), turned(rows)) for rows, pairs in batches)

    def __len__(self) -> int:
        return self._records.stat().st_size // RECORD.itemsize

    @property
    def records(self) -> np.ndarray:
        """The records of all pairs, mapped into memory."""
        return mapped(self._records, RECORD)

    def batches(
        self, is_kept: np.ndarray, bounds: Sequence[int] = ()
    ) -> Iterator[tuple[slice, list[Pair]]]:
        """At most `BATCH_PAIRS` rows without a bound between them, and their marked pairs.

        All rows in order, also where no pair is marked.
        """
        sizes = self.records["bytes"]
        starts = sorted({*range(0, len(self), BATCH_PAIRS), *bounds, len(self)})
        with self._lines.open("rb") as file:
            for rows in starmap(slice, pairwise(starts)):
                heartbeat()
                marks = is_kept[rows]
                if marks.any():
                    lines = islice(file, len(marks))
                    yield rows, to_pairs(b"".join(compress(lines, marks.tolist())))
                else:  # not read: one of many directions has few of the pairs
                    file.seek(int(sizes[rows].sum(dtype=np.int64)), SEEK_CUR)
                    yield rows, []

    def sample(self, rows: np.ndarray) -> list[Pair]:
        """At most 500 of the pairs of these rows: the longest of evenly spaced ones."""
        rows = rows[:: -(-len(rows) // SPACED_PAIRS)]
        longest = np.argsort(self.records["bytes"][rows], kind="stable")[-SAMPLE_PAIRS:]
        return self.pairs(rows[longest].tolist())

    def pairs(self, rows: Sequence[int]) -> list[Pair]:
        """The pairs of these rows, in this order."""
        sizes, place, last, found = self.records["bytes"], 0, 0, {}
        with self._lines.open("rb") as file:
            for row in sorted(set(rows)):
                place += int(sizes[last:row].sum(dtype=np.int64))
                last = row
                file.seek(place)
                found[row] = to_pairs(file.readline())[0]
        return [found[row] for row in rows]


def batched_rows(rows: Iterable[NumberedRow]) -> Iterator[list[NumberedRow]]:
    """The rows in lists of at most `BATCH_PAIRS`, or a few when they are very long."""
    batch: list[NumberedRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row[2] or "") + len(row[3] or "")
        if len(batch) == BATCH_PAIRS or size > BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
