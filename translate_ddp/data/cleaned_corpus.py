"""What the cleaning of a corpus has stored: its usable pairs by part, validation, and reports."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from translate_ddp.console import counted, printable
from translate_ddp.data.cleaning import (
    ALSO_IN_EXCLUDED,
    ALSO_IN_VALIDATION,
    EXAMPLES,
    HELD_OUT,
    LABELS,
    NO_LABEL,
    REASONS,
    shortened,
)
from translate_ddp.data.pair_store import Pair, PairStore, to_pairs
from translate_ddp.data.prepared_folder import (
    SUMMARY_FILE,
    abandon,
    read_summary,
    remove_abandoned,
)
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError

CLEANED = "cleaned-"  # before the signature, in the name of the folder
LABELS_FILE, STRICT_FILE, VALIDATION_FILE = "labels.npy", "strict.npy", "validation.tsv"
LINE_CHARACTERS = 100  # lines of dropped rows in a report are cut to this length
# The labels of rows that are pairs of a part, also of pairs in validation or in excluded sources.
USABLE = (NO_LABEL, HELD_OUT, LABELS[ALSO_IN_VALIDATION], LABELS[ALSO_IN_EXCLUDED])


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
    use: str = ""  # "validation" or "excluded" if the source is not for training

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

    def check_usable(self) -> None:
        """Raise UserError if no row is usable."""
        if not self.kept:
            counts = ", ".join(f"{count:,} {why}" for why, count in self.dropped.items())
            raise UserError(
                f"{self.source} has 0 usable pairs of {self.rows:,}: {counts or 'it is empty'}."
            )

    def count(
        self,
        labels: np.ndarray,
        rows: Sequence[Any] | np.ndarray,
        pairs: Callable[[list[Any]], Iterable[Pair]],
    ) -> None:
        """Add rows with these labels. `pairs` returns the texts of some of the rows."""
        counts = np.bincount(labels, minlength=len(REASONS) + 1)
        self.rows += len(labels)
        self.kept += int(counts[NO_LABEL])
        for label, reason in enumerate(REASONS, 1):
            if counts[label]:
                self.dropped[reason] = self.dropped.get(reason, 0) + int(counts[label])
                shown = self.examples.setdefault(reason, [])
                places = np.flatnonzero(labels == label)[: EXAMPLES - len(shown)]
                shown += map(shortened, pairs([rows[place] for place in places]))


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
        self.signature = folder.name.rpartition("-")[2]  # identifies the sources as they were read
        summary = read_summary(folder)
        # First for each part that was read, then for validation and excluded sources.
        self.reports = [Report.of(report) for report in summary["reports"]]
        self.parts = [Part(LanguagePair(*pair), number) for pair, number in summary["parts"]]
        self.validation_sizes: list[int] = summary["validation_sizes"]  # pairs of each direction
        self.bounds: list[int] = summary["bounds"]  # first rows of the parts, and the end
        self._origins: list[tuple[int, str]] = summary["origins"]  # first row and name of each
        self._store = PairStore(folder)
        # For which each row is dropped, as `cleaning.LABELS`.
        self.labels = np.load(folder / LABELS_FILE, mmap_mode="r", allow_pickle=False)
        self.is_train = self.labels == NO_LABEL

    @property
    def sizes(self) -> list[int]:
        """The training pairs of each part. Parts follow each other in the order of pairs."""
        return [int(self.is_train[slice(*bounds)].sum()) for bounds in pairwise(self.bounds)]

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
        return rows_in(direction, self.parts, self.bounds)

    @cached_property
    def records(self) -> np.ndarray:
        """The record of each row, as `pair_store.RECORD`, also of dropped ones."""
        return self._store.records

    @cached_property
    def strict_labels(self) -> np.ndarray:
        """For which `--clean strict` drops each row, before validation: of a `labelled` corpus.

        Swapped rows have none.
        """
        labels = np.load(self.folder / STRICT_FILE, allow_pickle=False)
        return np.pad(labels, (0, len(self.labels) - len(labels)), constant_values=NO_LABEL)

    def strict_report(self) -> Report:
        """What `--clean strict` would drop of the usable pairs, of all parts together."""
        report, rows = Report("--clean strict"), np.flatnonzero(np.isin(self.labels, USABLE))
        rows = rows[rows < sum(each.rows for each in self.reports if not each.use)]  # not swapped
        report.count(self.strict_labels[rows], rows, self._store.pairs)
        return report

    def place(self, row: int) -> tuple[str, int]:
        """The file or sheet of a row, and its number there."""
        _, file = self._origins[bisect_right(self._origins, row, key=itemgetter(0)) - 1]
        return file, int(self.records["row"][row])

    def batches(self, is_chosen: np.ndarray) -> Iterator[tuple[Part, list[Pair], np.ndarray]]:
        """The marked pairs and their rows, in order, in batches of one part each."""
        for rows, pairs in self._store.batches(is_chosen, self.bounds):
            if pairs:
                part = self.parts[bisect_right(self.bounds, rows.start) - 1]
                yield part, pairs, rows.start + np.flatnonzero(is_chosen[rows])

    def validation(self) -> list[Pair]:
        """The validation pairs, direction by direction."""
        return to_pairs((self.folder / VALIDATION_FILE).read_bytes())

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped rows of all sources by reason."""
        return dict(sum((Counter(report.dropped) for report in self.reports), Counter[str]()))
