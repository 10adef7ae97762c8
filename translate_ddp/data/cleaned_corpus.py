"""What the cleaning of a corpus has stored: its usable pairs by part, validation, and reports."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from translate_ddp.console import counted, printable
from translate_ddp.data.cleaning import EXAMPLES
from translate_ddp.data.pair_store import Pair, PairStore, to_pairs
from translate_ddp.data.prepared_folder import (
    SUMMARY_FILE,
    abandon,
    read_summary,
    remove_abandoned,
)
from translate_ddp.settings import LanguagePair

CLEANED = "cleaned-"  # before the signature, in the name of the folder
KEPT_FILE, VALIDATION_FILE = "kept.npy", "validation.tsv"
LINE_CHARACTERS = 100  # of a report


class Part(NamedTuple):
    """The pairs of one dataset in one direction."""

    direction: LanguagePair
    dataset: int  # its number in the settings


def rows_in(direction: LanguagePair, parts: Sequence[Part], bounds: Sequence[int]) -> np.ndarray:
    """Marks of the pairs in a direction, in all rows."""
    return np.repeat([part.direction == direction for part in parts], np.diff(bounds))


@dataclass
class Report:
    """What the cleaning of one source did."""

    source: str
    rows: int = 0  # read
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # rows by reason
    examples: dict[str, list[Pair]] = field(default_factory=dict)  # dropped ones, by reason
    notices: list[str] = field(default_factory=list)
    use: str = ""  # of a source that is not for training: "validation" or "excluded"

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Report:
        """The report in a summary."""
        report = cls(**stored)
        for pairs in report.examples.values():
            pairs[:] = [(src, tgt) for src, tgt in pairs]  # JSON has lists
        return report

    def lines(self) -> list[str]:
        """What was dropped and why, with an example of each reason; then the notices."""
        size = f"{counted(self.rows, 'row')}, {counted(self.kept, 'pair')} kept"
        lines = [f"{self.source}: {size}. Dropped:"] if self.dropped else []
        for reason, rows in self.dropped.items():
            shown = " | ".join(chain.from_iterable(self.examples.get(reason, [])[:1]))
            lines.append(f"{rows:>12,}  {reason:<22}  {shown}"[:LINE_CHARACTERS].rstrip())
        return list(map(printable, lines + self.notices))

    def drop(self, reason: str, rows: int, examples: list[Pair]) -> None:
        if rows:
            self.dropped[reason] = self.dropped.get(reason, 0) + rows
            shown = self.examples.setdefault(reason, [])
            shown += examples[: EXAMPLES - len(shown)]


def delete_cleaned(folder: Path) -> None:
    """Delete all cleaned corpora below `folder`, also what interrupted starts have left."""
    for cleaned in folder.glob(f"{CLEANED}*"):
        if (cleaned / SUMMARY_FILE).exists():  # else it is not of this program
            abandon(cleaned)
    remove_abandoned(folder)


class CleanedCorpus:
    """A folder that `Cleaning` has completed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signature = folder.name.rpartition("-")[2]  # of the sources, as they were read
        summary = read_summary(folder)
        # Of each part that was read, then of validation and excluded sources.
        self.reports = [Report.of(report) for report in summary["reports"]]
        self.parts = [Part(LanguagePair(*pair), number) for pair, number in summary["parts"]]
        self.validation_sizes: list[int] = summary["validation_sizes"]  # of each direction
        self._bounds: list[int] = summary["bounds"]
        self._store = PairStore(folder)
        self.is_train = np.load(folder / KEPT_FILE, mmap_mode="r", allow_pickle=False)

    @property
    def sizes(self) -> list[int]:
        """The training pairs of each part. Parts follow each other in the order of pairs."""
        return [int(self.is_train[slice(*bounds)].sum()) for bounds in pairwise(self._bounds)]

    @property
    def num_kept(self) -> int:
        """The training pairs, without swapped ones of reverse directions."""
        return sum(report.kept for report in self.reports if not report.use)

    @property
    def directions(self) -> list[LanguagePair]:
        """The directions of the parts, each once."""
        return list(dict.fromkeys(part.direction for part in self.parts))

    def rows_in(self, direction: LanguagePair) -> np.ndarray:
        """Marks of the pairs in a direction, in all rows."""
        return rows_in(direction, self.parts, self._bounds)

    @property
    def records(self) -> np.ndarray:
        """Those of `pair_store.RECORD`, of each pair, whether or not it is used for training."""
        return self._store.records

    def batches(self, is_chosen: np.ndarray) -> Iterator[tuple[Part, list[Pair], np.ndarray]]:
        """The marked pairs and their rows, in order, in batches of one part each."""
        for rows, pairs in self._store.batches(is_chosen, self._bounds):
            if pairs:
                part = self.parts[bisect_right(self._bounds, rows.start) - 1]
                yield part, pairs, rows.start + np.flatnonzero(is_chosen[rows])

    def validation(self) -> list[Pair]:
        """The validation pairs, direction by direction."""
        return to_pairs((self.folder / VALIDATION_FILE).read_bytes())

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped rows of all sources by reason."""
        return dict(sum((Counter(report.dropped) for report in self.reports), Counter[str]()))
