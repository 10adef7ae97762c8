"""A cleaned corpus: a folder with the usable pairs of all sources as text, and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from translate_ddp.console import printable
from translate_ddp.data.clean_rows import EXAMPLES
from translate_ddp.data.pair_store import BATCH_PAIRS, Pair, PairStore, to_lines, to_pairs
from translate_ddp.data.prepared_folder import Summary, read_summary
from translate_ddp.quantities import counted

KEPT_FILE, VALIDATION_FILE = "kept.npy", "validation.tsv"
LINE_CHARACTERS = 100


@dataclass
class Report:
    """What the cleaning of one source did."""

    source: str
    rows: int = 0  # read
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # rows by reason
    examples: dict[str, list[Pair]] = field(default_factory=dict)  # dropped ones, by reason
    notices: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Report:
        """The report in a summary."""
        report = cls(**stored)
        for pairs in report.examples.values():
            pairs[:] = [(src, tgt) for src, tgt in pairs]  # JSON has lists
        return report

    def lines(self) -> list[str]:
        """What was dropped and why, with an example of each reason; then the notices."""
        if not self.dropped:
            return list(map(printable, self.notices))
        size = f"{counted(self.rows, 'row')}, {counted(self.kept, 'pair')} kept"
        lines = [f"{self.source}: {size}. Dropped:"]
        for reason, rows in self.dropped.items():
            shown = (f"{src} | {tgt}" for src, tgt in self.examples.get(reason, [])[:1])
            lines.append(f"{rows:>12,}  {reason:<22}  {''.join(shown)}"[:LINE_CHARACTERS].rstrip())
        return list(map(printable, lines + self.notices))

    def drop(self, reason: str, rows: int, examples: list[Pair]) -> None:
        if not rows:
            return
        self.dropped[reason] = self.dropped.get(reason, 0) + rows
        shown = self.examples.setdefault(reason, [])
        shown += examples[: EXAMPLES - len(shown)]


class CleanedCorpus:
    """A folder that `store_selection` has completed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signature = folder.name.rpartition("-")[2]  # of the sources, as they were read
        summary = read_summary(folder)
        # Of each dataset, then of validation if it has a source of its own.
        self.reports = [Report.of(report) for report in summary["reports"]]
        self._bounds: list[int] = summary["bounds"]
        self._store = PairStore(folder)
        self.is_train = np.load(folder / KEPT_FILE, mmap_mode="r", allow_pickle=False)

    @property
    def sizes(self) -> list[int]:
        """The training pairs of each dataset. Datasets follow each other in the order of pairs."""
        return [int(self.is_train[slice(*bounds)].sum()) for bounds in pairwise(self._bounds)]

    @property
    def hashes(self) -> np.ndarray:
        """A hash of each pair, whether or not it is used for training."""
        return self._store.records["pair"]

    def batches(self, is_chosen: np.ndarray) -> Iterator[list[Pair]]:
        """The marked pairs in order, in batches, some of which may be empty."""
        return self._store.batches(is_chosen)

    def batches_of_datasets(self, is_chosen: np.ndarray) -> Iterator[tuple[list[Pair], list[int]]]:
        """The marked pairs in order and the numbers of their datasets, in batches.

        Some batches may be empty.
        """
        starts = range(0, len(is_chosen), BATCH_PAIRS)
        for start, pairs in zip(starts, self.batches(is_chosen), strict=True):
            rows = start + np.flatnonzero(is_chosen[start : start + BATCH_PAIRS])
            yield pairs, np.searchsorted(self._bounds[1:], rows, side="right").tolist()

    def validation(self) -> list[Pair]:
        return to_pairs((self.folder / VALIDATION_FILE).read_bytes())

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped rows of all sources by reason."""
        return dict(sum((Counter(report.dropped) for report in self.reports), Counter[str]()))


def store_selection(
    folder: Path,
    is_train: np.ndarray,
    bounds: list[int],
    validation: list[Pair],
    reports: list[Report],
) -> Summary:
    """Add to a folder with a `PairStore` what makes it a cleaned corpus; returns its summary.

    `bounds` are those of the datasets in the store.
    """
    np.save(folder / KEPT_FILE, is_train)
    (folder / VALIDATION_FILE).write_bytes(to_lines(validation))
    return {"reports": [asdict(report) for report in reports], "bounds": bounds}
