"""The encoded corpus: tokenized once, stored as flat arrays that all ranks map into memory.

The name of a prepared folder is a hash of the settings and of the files that it was made from, so
later starts find it.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np

from translate_ddp.console import print_line
from translate_ddp.data.columns import iterate_batches
from translate_ddp.data.corpus import corpus_signature, read_corpus
from translate_ddp.data.perturbation import perturb_lines
from translate_ddp.data.prepared_folder import (
    SUMMARY_FILE,
    Summary,
    damage,
    is_usable,
    publish,
    read_summary,
)
from translate_ddp.data.tokenizer import Tokenizer, build_tokenizer, load_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import SyncedFile
from translate_ddp.settings import CorpusConfig, TokenizerConfig

if TYPE_CHECKING:
    import datasets

FORMAT = 4  # of the prepared folder; raise it with every change, and corpora are prepared again


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
            np.load(f"{stem}.offsets.npy", allow_pickle=False),
        )

    def save(self, stem: Path) -> None:
        save_array(Path(f"{stem}.tokens.npy"), self.tokens)
        save_array(Path(f"{stem}.offsets.npy"), self.offsets)

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
    fingerprint: str  # sha256 of the tokenizer and of all token ids in order
    folder: Path = Path()


def prepare(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    seq_len: int,
    folder: Path,
    perturb: bool = False,
) -> Path:
    """The prepared folder below `folder`: read, tokenized and stored, unless it exists intact.

    Pairs with more than `seq_len` tokens on one side, end marker included, are dropped and counted.
    With `perturb`, the tokenizer is trained on sources that are perturbed as in training.
    Raises UserError if the corpus cannot be read or stored.
    """
    prepared = folder / _folder_name(corpus, tokenizer, seq_len, perturb)
    if is_usable(prepared):
        return prepared

    def write(partial: Path) -> tuple[Path, Summary]:
        summary = _write(partial, corpus, tokenizer, seq_len, perturb)
        # The name covers the tokenizer file, which may have been written just now.
        return folder / _folder_name(corpus, tokenizer, seq_len, perturb), summary

    return publish(folder, write)


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
        folder=prepared,
    )


def find_prepared(folder: Path, fingerprint: str) -> PreparedData | None:
    """The intact corpus prepared below `folder` whose fingerprint starts so, or None."""
    for file in sorted(folder.glob(f"[!.]*/{SUMMARY_FILE}")):
        try:
            summary = read_summary(file.parent)
            if not summary["fingerprint"].startswith(fingerprint):
                continue
        except (OSError, ValueError, KeyError, AttributeError):
            continue  # damaged, or of another version
        # Version 3 had no digests.
        if problem := "files" in summary and damage(file.parent):
            print_line(f"{file.parent} is not used: it is damaged ({problem}).", sys.stderr)
        else:
            return load_prepared(file.parent)
    return None


def _folder_name(
    corpus: CorpusConfig, tokenizer: TokenizerConfig, seq_len: int, perturb: bool
) -> str:
    """The languages and a hash of all inputs of a preparation."""
    languages = f"{corpus.lang_src}-{corpus.lang_tgt}"
    file = tokenizer.file(languages)
    try:
        tokenizer_bytes = file.read_bytes() if file is not None else b""
    except (FileNotFoundError, NotADirectoryError):
        tokenizer_bytes = b""  # the preparation will write it
    except OSError as error:
        raise UserError(f"--tokenizer_file {file} cannot be read: {error.strerror}.") from error
    inputs = [FORMAT, corpus_signature(corpus), asdict(corpus), asdict(tokenizer), seq_len]
    inputs += ["perturb"] if perturb else []
    digest = hashlib.sha256(json.dumps(inputs).encode() + tokenizer_bytes)
    return f"{languages}-{digest.hexdigest()[:12]}"


def _write(
    folder: Path,
    corpus_config: CorpusConfig,
    tokenizer_config: TokenizerConfig,
    seq_len: int,
    perturb: bool,
) -> Summary:
    """Fill the folder; returns the summary, without digests."""
    corpus = read_corpus(corpus_config)
    fault_point("tokenizing")
    tokenizer = build_tokenizer(
        _lines(corpus.train, perturb),
        tokenizer_config,
        languages=f"{corpus_config.lang_src}-{corpus_config.lang_tgt}",
    )
    (folder / "tokenizer.json").write_text(tokenizer.text, encoding="utf-8")
    dropped = Counter(corpus.dropped)
    digest = hashlib.sha256(tokenizer.text.encode())
    for split, pairs in (("train", corpus.train), ("validation", corpus.validation)):
        encoded, kept = _encode(pairs, tokenizer, seq_len)
        if not kept:
            raise UserError(
                f"None of the {len(pairs):,} {split} pairs fits --seq_len {seq_len}: raise it."
            )
        if len(kept) < len(pairs):
            dropped[f"over {seq_len} tokens"] += len(pairs) - len(kept)
        for side, ragged in (("src", encoded.source), ("tgt", encoded.target)):
            ragged.save(folder / f"{split}.{side}")
            digest.update(ragged.offsets.data)
            digest.update(ragged.tokens.data)
            if split == "validation":
                lines = "".join(f"{line}\n" for line in pairs.select(kept)[side][:])
                (folder / f"validation.{side}.txt").write_text(lines, encoding="utf-8")
    return {"dropped": dict(dropped), "fingerprint": digest.hexdigest()}


def _lines(pairs: "datasets.Dataset", perturb: bool) -> Iterator[str]:
    """The sources and targets on which the tokenizer is trained."""
    for sources, targets in iterate_batches(pairs):
        yield from perturb_lines(sources) if perturb else sources
        yield from targets


def _encode(
    pairs: "datasets.Dataset", tokenizer: Tokenizer, seq_len: int
) -> tuple[ParallelDataset, list[int]]:
    """The encoded pairs of which both sides fit `seq_len`, and their rows."""
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for batch in iterate_batches(pairs):
        for side, lines in zip(sides, batch, strict=True):
            # Lists of Python numbers would take ten times the memory of arrays.
            side += [np.array(ids, dtype=np.int32) for ids in tokenizer.encode(lines)]
    longest = [max(map(len, pair)) for pair in zip(*sides, strict=True)]
    kept = [row for row, length in enumerate(longest) if length < seq_len]  # without end marker
    return ParallelDataset(*(Ragged.of(side[row] for row in kept) for side in sides)), kept
