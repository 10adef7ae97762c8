"""The encoded corpus: flat arrays of token ids that all ranks map into memory."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from translate_ddp.console import print_line
from translate_ddp.data.mix import Block, hashes
from translate_ddp.data.prepared_folder import SUMMARY_FILE, Unusable, read_summary, verify
from translate_ddp.data.tokenizer import Tokenizer, load_tokenizer
from translate_ddp.settings import LanguagePair, languages_of

MORE_TOKENS = 10  # of a translation, beside a multiple of its source
MIN_LONGEST = 20  # tokens; shorter parts of sentences are no clauses
COUNTS_FILE = "counts.npy"  # of tokens by language
TOKENIZER_FILE = "tokenizer.json"  # the text of a `Tokenizer`
SALT = 0x766172  # keeps the draws apart from those of other modules


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
        return cls(
            np.load(f"{stem}.tokens.npy", mmap_mode="r", allow_pickle=False),
            np.load(f"{stem}.offsets.npy", mmap_mode="r", allow_pickle=False),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

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

    def __getitem__(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        return self.source[row], self.target[row]

    def take(self, rows: np.ndarray | Sequence[int]) -> "ParallelDataset":
        """A copy of these pairs, in this order."""
        return ParallelDataset(self.source.take(rows), self.target.take(rows))


@dataclass(frozen=True)
class Lengths:
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
    def longest_side(self) -> np.ndarray:
        return np.maximum(self.source, self.target)


class TrainingPairs:
    """The training pairs of a run, in the form that each of them has in an epoch.

    With augmentation, a pair has several encoded variants. A hash of seed, epoch and row chooses
    one of them, so it depends neither on ranks and micro-batches nor on where a run was resumed.
    """

    def __init__(
        self, plain: ParallelDataset, seed: int, variants: ParallelDataset | None = None
    ) -> None:
        """Row r of `plain` has the rows rK to (r + 1)K of `variants`."""
        self.seed, self._forms = seed, plain if variants is None else variants
        self._count = len(self._forms) // max(len(plain), 1)  # 1: the plain pairs
        self.all_lengths = Lengths.of(self._forms)  # of every form

    def __len__(self) -> int:
        return len(self._forms) // self._count

    def take(self, rows: np.ndarray, epoch: int) -> ParallelDataset:
        """A copy of these pairs in their form of the epoch, in this order."""
        return self._forms.take(self._form(rows, epoch))

    def lengths(self, epoch: int) -> Lengths:
        """The lengths of all pairs in their form of the epoch."""
        if self._count == 1:
            return self.all_lengths
        return self.all_lengths.take(self._form(np.arange(len(self)), epoch))

    def _form(self, rows: np.ndarray, epoch: int) -> np.ndarray:
        if self._count == 1:
            return rows
        chosen = hashes(SALT, self.seed, epoch, rows) % np.uint64(self._count)
        return rows.astype(np.int64) * self._count + chosen.astype(np.int64)


@dataclass(frozen=True)
class PreparedData:
    """A prepared folder, its token ids mapped into memory."""

    train: ParallelDataset
    validation: ParallelDataset
    validation_sources: list[str]
    validation_references: list[str]
    tokenizer: Tokenizer
    dropped: dict[str, int]  # reason -> rows
    fingerprint: str  # sha256 of the tokenizer and of all token ids for training in order
    validation_fingerprint: str  # sha256 of the ids for validation
    blocks: Sequence[Block]  # of the training rows, which follow each other
    directions: Sequence[LanguagePair]
    validation_sizes: Sequence[int]  # rows of each direction, which follow each other
    folder: Path = Path()
    abbreviations: dict[str, list[str]] = field(default_factory=dict)  # language -> learnt ones
    variants: ParallelDataset | None = None  # those of one training pair are adjacent
    token_counts: np.ndarray | None = None  # [L, V] of `languages`; None: the model has no tags
    variants_fingerprint: str = ""  # sha256 of their token ids

    @property
    def languages(self) -> list[str]:
        return languages_of(self.directions)

    @property
    def longest_source(self) -> int:
        """The tokens, without [EOS], that at most one training source in a thousand exceeds.

        It is at least `MIN_LONGEST`.
        """
        usual = np.quantile(self.train.source.lengths, 0.999, method="inverted_cdf")
        return max(MIN_LONGEST, int(usual))

    @property
    def length_ratios(self) -> dict[str, float]:
        """By direction: how many tokens a target has for each of the source's and ten more.

        At most one pair in a thousand has more.
        """
        lengths, start = (self.train.source.lengths, self.train.target.lengths), 0
        ratios: dict[str, list[np.ndarray]] = {}
        for block in self.blocks:
            source_N, target_N = (side[start : start + block.size] for side in lengths)
            ratio_N = (target_N / (source_N + MORE_TOKENS)).astype(np.float32)
            ratios.setdefault(str(self.directions[block.direction]), []).append(ratio_N)
            start += block.size
        return {
            pair: float(np.quantile(np.concatenate(several), 0.999))
            for pair, several in ratios.items()
        }


def load_prepared(prepared: Path) -> PreparedData:
    """Map a prepared folder into memory, without a check of its bytes (`is_usable`).

    Raises UserError if its tokenizer cannot be used.
    """
    summary = read_summary(prepared)

    def lines(side: str) -> list[str]:
        return (prepared / f"validation.{side}.txt").read_text(encoding="utf-8").split("\n")[:-1]

    variants_fingerprint, counts = summary.get("variants_fingerprint", ""), prepared / COUNTS_FILE
    return PreparedData(
        train=ParallelDataset.open(prepared / "train"),
        validation=ParallelDataset.open(prepared / "validation"),
        validation_sources=lines("src"),
        validation_references=lines("tgt"),
        tokenizer=load_tokenizer(prepared / TOKENIZER_FILE),
        dropped=summary["dropped"],
        fingerprint=summary["fingerprint"],
        validation_fingerprint=summary["validation_fingerprint"],
        folder=prepared,
        blocks=[
            Block(*numbers, size=size)
            for numbers, size in zip(summary["blocks"], summary["sizes"], strict=True)
        ],
        directions=[LanguagePair(*pair) for pair in summary["directions"]],
        validation_sizes=summary["validation_sizes"],
        abbreviations=summary["learnt"],
        variants=ParallelDataset.open(prepared / "variants") if variants_fingerprint else None,
        variants_fingerprint=variants_fingerprint,
        token_counts=np.load(counts, allow_pickle=False) if counts.exists() else None,
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
