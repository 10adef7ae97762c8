"""The encoded corpus: flat arrays of token ids that all ranks map into memory."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from translate_ddp.console import print_line
from translate_ddp.data.mix import Block, hashes
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.data.prepared_folder import (
    SUMMARY_FILE,
    Unusable,
    mapped,
    read_summary,
    verify,
)

VARIANT_SALT, SWAP_SALT = 0x766172, 0x737761  # keep their draws apart from other draws


@dataclass(frozen=True)
class Ragged:
    """Rows of token ids of unequal lengths: row i is tokens[offsets[i]:offsets[i + 1]]."""

    tokens: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> "Ragged":
        rows = list(rows)
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=offsets[-1])
        return cls(tokens, offsets)

    @classmethod
    def open(cls, stem: Path) -> "Ragged":
        """From the files that `PairWriter` has written."""
        parts = ("tokens", np.int32), ("offsets", np.int64)
        return cls(*(mapped(Path(f"{stem}.{part}"), dtype) for part, dtype in parts))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def __add__(self, other: "Ragged") -> "Ragged":
        """A copy of all rows of both."""
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        return Ragged(np.concatenate([self.tokens, other.tokens]), offsets)

    def take(self, rows: np.ndarray | Sequence[int]) -> "Ragged":
        """A copy of these rows, in this order."""
        rows = np.asarray(rows, dtype=np.int64)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Ragged(self.tokens[positions], offsets)


@dataclass(frozen=True)
class ParallelDataset:
    """Sentence pairs as token ids, without start and end markers."""

    source: Ragged
    target: Ragged

    def __post_init__(self) -> None:
        assert len(self.source) == len(self.target)

    @classmethod
    def open(cls, stem: Path) -> "ParallelDataset":
        return cls(*(Ragged.open(Path(f"{stem}.{side}")) for side in ("src", "tgt")))

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: np.ndarray | Sequence[int]) -> "ParallelDataset":
        """A copy of these pairs, in this order."""
        return ParallelDataset(self.source.take(rows), self.target.take(rows))


class Lengths(NamedTuple):
    """Tokens of each pair, end marker included."""

    source: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, dataset: ParallelDataset) -> "Lengths":
        sides = dataset.source, dataset.target
        return cls(*((side.lengths + 1).astype(np.int32) for side in sides))

    def take(self, rows: np.ndarray) -> "Lengths":
        """The lengths of these pairs, in this order."""
        return Lengths(self.source[rows], self.target[rows])

    @property
    def swapped(self) -> "Lengths":
        return Lengths(self.target, self.source)

    @property
    def longest_side(self) -> np.ndarray:
        return np.maximum(self.source, self.target)


class TrainingPairs:
    """The training pairs of a run, in the form that each of them has in an epoch.

    With augmentation, a pair has several encoded variants. A hash of seed, epoch and row chooses
    one of them, so it depends neither on ranks and micro-batches nor on where a run was resumed.
    In the first `swap_epochs`, half of the pairs, in turns, have source and target swapped.
    """

    def __init__(
        self,
        plain: ParallelDataset,
        seed: int,
        variants: ParallelDataset | None = None,
        swap_epochs: int = 0,
    ) -> None:
        """Pair r of `plain` has K variants: the rows rK to (r + 1)K, without the last."""
        self.seed, self._plain, self._swap_epochs = seed, plain, swap_epochs
        self._forms = plain if variants is None else variants
        self._count = len(self._forms) // max(len(plain), 1)  # 1: the plain pairs
        self.all_lengths = Lengths.of(self._forms)  # the lengths in every form
        if swap_epochs:
            swapped = Lengths.of(plain).swapped
            self.all_lengths = Lengths(*map(np.append, self.all_lengths, swapped))

    def __len__(self) -> int:
        return len(self._plain)

    def take(self, rows: np.ndarray, epoch: int) -> ParallelDataset:
        """A copy of these pairs in their form of the epoch, in this order."""
        forms = self._form(rows, epoch)
        is_swapped = forms >= len(self._forms)
        if not is_swapped.any():
            return self._forms.take(forms)
        kept, swapped = self._forms.take(forms[~is_swapped]), self._plain.take(rows[is_swapped])
        found = ParallelDataset(kept.source + swapped.target, kept.target + swapped.source)
        return found.take(np.argsort(np.argsort(is_swapped, kind="stable")))

    def lengths(self, epoch: int) -> Lengths:
        """The lengths of all pairs in their form of the epoch."""
        if self._count == 1 and not self._swap_epochs:
            return self.all_lengths
        return self.all_lengths.take(self._form(np.arange(len(self)), epoch))

    def _form(self, rows: np.ndarray, epoch: int) -> np.ndarray:
        """The numbers of the forms: of variants, then of swapped pairs."""
        forms = rows.astype(np.int64)
        if self._count > 1:
            chosen = hashes(VARIANT_SALT, self.seed, epoch, rows) % np.uint64(self._count)
            forms = forms * self._count + chosen.astype(np.int64)
        if epoch < self._swap_epochs:
            turn = (hashes(SWAP_SALT, self.seed, rows) + np.uint64(epoch)) % np.uint64(2)
            forms = np.where(turn, len(self._forms) + rows, forms)
        return forms


@dataclass(frozen=True)
class PreparedData:
    """A prepared folder, its token ids mapped into memory."""

    train: ParallelDataset
    validation: ParallelDataset
    validation_sources: list[str]
    validation_references: list[str]
    facts: ModelFacts
    dropped: dict[str, int]  # reason -> rows
    fingerprint: str  # sha256 of the tokenizer and of all token ids for training in order
    validation_fingerprint: str  # sha256 of the ids for validation
    blocks: Sequence[Block]  # parts of the training rows, which follow each other
    validation_sizes: Sequence[int]  # rows of each direction, which follow each other
    folder: Path = Path()
    variants: ParallelDataset | None = None  # the variants of one training pair are adjacent
    variants_fingerprint: str = ""  # sha256 of their token ids


def load_prepared(prepared: Path) -> PreparedData:
    """Map a prepared folder into memory, without a check of its bytes (`is_usable`)."""
    summary = read_summary(prepared)

    def lines(side: str) -> list[str]:
        return (prepared / f"validation.{side}.txt").read_text(encoding="utf-8").split("\n")[:-1]

    variants_fingerprint = summary.get("variants_fingerprint", "")
    return PreparedData(
        train=ParallelDataset.open(prepared / "train"),
        validation=ParallelDataset.open(prepared / "validation"),
        validation_sources=lines("src"),
        validation_references=lines("tgt"),
        facts=ModelFacts.from_dict(summary["facts"]),
        dropped=summary["dropped"],
        fingerprint=summary["fingerprint"],
        validation_fingerprint=summary["validation_fingerprint"],
        folder=prepared,
        blocks=[Block(*numbers) for numbers in summary["blocks"]],
        validation_sizes=summary["validation_sizes"],
        variants=ParallelDataset.open(prepared / "variants") if variants_fingerprint else None,
        variants_fingerprint=variants_fingerprint,
    )


def find_prepared(folder: Path, training: str, validation: str) -> PreparedData | None:
    """The intact corpus below `folder` whose fingerprints start so, or None."""
    for file in sorted(folder.glob(f"[!.]*/{SUMMARY_FILE}")):
        try:
            summary = read_summary(file.parent)
            found = summary["fingerprint"], summary["validation_fingerprint"]
        except (OSError, ValueError, KeyError):
            continue  # damaged
        if not (found[0].startswith(training) and found[1].startswith(validation)):
            continue
        try:
            verify(file.parent)
            return load_prepared(file.parent)
        except Unusable as problem:
            print_line(f"{file.parent} is not used: it is damaged ({problem}).", sys.stderr)
    return None
