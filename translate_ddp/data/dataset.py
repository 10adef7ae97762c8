"""The encoded corpus: flat arrays of token ids that all ranks map into memory."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import numpy as np

from translate_ddp.console import print_line
from translate_ddp.data.prepared_folder import SUMMARY_FILE, damage, read_summary
from translate_ddp.data.tokenizer import Tokenizer, load_tokenizer
from translate_ddp.runtime.files import SyncedFile

MIN_LONGEST = 20  # tokens; shorter parts of sentences are no clauses


@dataclass(frozen=True)
class Ragged:
    """Rows of token ids of unequal lengths: row i is tokens[offsets[i]:offsets[i + 1]]."""

    tokens: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> "Ragged":
        arrays = [np.asarray(row, dtype=np.int32) for row in rows]
        lengths = [0, *(len(row) for row in arrays)]
        tokens = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int32)
        return cls(tokens, np.cumsum(lengths, dtype=np.int64))

    @classmethod
    def open(cls, stem: Path) -> "Ragged":
        return cls(
            np.load(f"{stem}.tokens.npy", mmap_mode="r", allow_pickle=False),
            np.load(f"{stem}.offsets.npy", mmap_mode="r", allow_pickle=False),
        )

    def save(self, stem: Path) -> None:
        with RaggedWriter(stem) as writer:
            writer.append(self.tokens, self.lengths)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray | Sequence[int]) -> "Ragged":
        """A copy of these rows, in this order."""
        positions, offsets = self.positions(rows)
        return Ragged(self.tokens[positions], offsets)

    def positions(self, rows: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The places of these rows' tokens in `tokens`, and the offsets of the rows among them."""
        rows = np.asarray(rows, dtype=np.int64)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets


class ArrayWriter:
    """Writes a .npy file of one dimension in parts. Its length is known at the end."""

    def __init__(self, path: Path, dtype: type) -> None:
        self._path, self._dtype, self._length = path, np.dtype(dtype), 0
        self._file = SyncedFile(path)
        self._file.write(self._header())

    def append(self, values: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype))
        self._length += len(values)

    def close(self) -> None:
        self._file.close()
        with self._path.open("r+b") as file:
            file.write(self._header())

    def _header(self) -> bytes:
        """The header of version 1.0 of the format, in the same number of bytes for every length."""
        text = (
            f"{{'descr': {self._dtype.str!r}, 'fortran_order': False, 'shape': ({self._length},)}}"
        )
        return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + f"{text:<117}\n".encode()


class RaggedWriter:
    """Writes the files of a `Ragged` in parts, so that it need not fit into memory."""

    def __init__(self, stem: Path) -> None:
        self._tokens = ArrayWriter(Path(f"{stem}.tokens.npy"), np.int32)
        self._offsets = ArrayWriter(Path(f"{stem}.offsets.npy"), np.int64)
        self._offsets.append(np.zeros(1))
        self._end = 0

    def __enter__(self) -> "RaggedWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._tokens.close()
        self._offsets.close()

    def append(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        """Add rows of these lengths, whose tokens follow each other."""
        self._tokens.append(tokens)
        self._offsets.append(self._end + np.cumsum(lengths, dtype=np.int64))
        self._end += len(tokens)


def save_array(path: Path, array: np.ndarray) -> None:
    with SyncedFile(path) as file:
        np.save(cast("IO[bytes]", file), array)


@dataclass(frozen=True)
class ParallelDataset:
    """Sentence pairs as token ids, without start and end markers."""

    source: Ragged
    target: Ragged

    def __post_init__(self) -> None:
        assert len(self.source) == len(self.target)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        return self.source[row], self.target[row]

    def take(self, rows: np.ndarray | Sequence[int]) -> "ParallelDataset":
        """A copy of these pairs, in this order."""
        return ParallelDataset(self.source.take(rows), self.target.take(rows))


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
    validation_fingerprint: str  # sha256 of those for validation
    sizes: Sequence[int]  # training rows of each dataset, which follow each other
    folder: Path = Path()
    abbreviations: dict[str, list[str]] = field(default_factory=dict)  # language -> learnt ones

    @property
    def longest_source(self) -> int:
        """The tokens, without [EOS], that at most one training source in a thousand exceeds.

        It is at least `MIN_LONGEST`.
        """
        usual = np.quantile(self.train.source.lengths, 0.999, method="inverted_cdf")
        return max(MIN_LONGEST, int(usual))


def load_prepared(prepared: Path) -> PreparedData:
    """Map a prepared folder into memory, without a check of its bytes (`is_usable`).

    Raises UserError if its tokenizer cannot be used.
    """
    summary = read_summary(prepared)

    def pairs(split: str) -> ParallelDataset:
        return ParallelDataset(*(Ragged.open(prepared / f"{split}.{s}") for s in ("src", "tgt")))

    def lines(side: str) -> list[str]:
        return (prepared / f"validation.{side}.txt").read_text(encoding="utf-8").split("\n")[:-1]

    return PreparedData(
        train=pairs("train"),
        validation=pairs("validation"),
        validation_sources=lines("src"),
        validation_references=lines("tgt"),
        tokenizer=load_tokenizer(prepared / "tokenizer.json"),
        dropped=summary["dropped"],
        fingerprint=summary["fingerprint"],
        validation_fingerprint=summary["validation_fingerprint"],
        folder=prepared,
        sizes=summary["sizes"],
        abbreviations=summary.get("learnt", {}),
    )


def find_prepared(folder: Path, training: str, validation: str) -> PreparedData | None:
    """The intact corpus below `folder` whose fingerprints start so, or None."""
    for file in sorted(folder.glob(f"[!.]*/{SUMMARY_FILE}")):
        try:
            summary = read_summary(file.parent)
            found = summary["fingerprint"], summary["validation_fingerprint"]
            if not (found[0].startswith(training) and found[1].startswith(validation)):
                continue
        except (OSError, ValueError, KeyError, AttributeError):
            continue  # damaged, or of another version
        if problem := damage(file.parent):
            print_line(f"{file.parent} is not used: it is damaged ({problem}).", sys.stderr)
        else:
            return load_prepared(file.parent)
    return None
