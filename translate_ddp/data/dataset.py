"""The encoded corpus: tokenized once, kept on disk as flat arrays that all ranks map into memory.

It knows nothing of ranks or batches. A prepared corpus is a folder of its own, published by one
rename and found again at the next start by what it was made from.
"""

import hashlib
import itertools
import json
import os
import shutil
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from translate_ddp.data.corpus import corpus_signature, read_corpus
from translate_ddp.data.tokenizer import Tokenizer, build_tokenizer, load_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.settings import CorpusConfig, TokenizerConfig

if TYPE_CHECKING:
    import datasets

FORMAT = 1  # of the prepared folder; a change makes older ones be prepared anew
LINES_AT_ONCE = 10_000


class Ragged:
    """Rows of token ids of unequal length in one flat array, read-only."""

    def __init__(self, tokens: np.ndarray, offsets: np.ndarray) -> None:
        self.tokens = tokens
        self.offsets = offsets

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> "Ragged":
        arrays = [np.array(row, dtype=np.int32) for row in rows]
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
        np.save(f"{stem}.tokens.npy", self.tokens)
        np.save(f"{stem}.offsets.npy", self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray | Sequence[int]) -> "Ragged":
        """These rows, in this order, as an array of their own; all are gathered by one index."""
        rows = np.asarray(rows, dtype=np.int64)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        index = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Ragged(self.tokens[index], offsets)


class ParallelDataset:
    """Sentence pairs as token ids, without start and end."""

    def __init__(self, source: Ragged, target: Ragged) -> None:
        assert len(source) == len(target)
        self.source = source
        self.target = target

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        return self.source[row], self.target[row]

    def take(self, rows: np.ndarray | Sequence[int]) -> "ParallelDataset":
        """These pairs, in this order."""
        return ParallelDataset(self.source.take(rows), self.target.take(rows))


@dataclass(frozen=True)
class PreparedData:
    """All that training needs to know of its corpus."""

    train: ParallelDataset
    validation: ParallelDataset
    validation_sources: list[str]
    validation_references: list[str]
    tokenizer: Tokenizer
    dropped: dict[str, int]  # reason -> rows
    fingerprint: str  # of every id in order, and of the tokenizer


def prepare(corpus: CorpusConfig, tokenizer: TokenizerConfig, seq_len: int, folder: Path) -> Path:
    """Read, tokenize and store the corpus below `folder`, unless that was done before.

    Pairs of which one side has more than `seq_len` tokens, end included, are dropped and counted.
    Returns the prepared folder. Raises UserError if the corpus cannot be used.
    """
    prepared = folder / _key(corpus, tokenizer, seq_len)
    if not (prepared / "about.json").exists():
        partial = folder / f".preparing-{socket.gethostname()}-{os.getpid()}"
        try:
            _remove_what_killed_starts_left(folder)
            partial.mkdir(parents=True)
            _write(partial, corpus, tokenizer, seq_len)
            prepared = folder / _key(corpus, tokenizer, seq_len)  # with the tokenizer file, if any
            fault_point("preparing")
            _publish(partial, prepared)
        except OSError as error:
            raise UserError(
                f"Could not write the prepared corpus to {folder}: {error.strerror or error}."
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return prepared


def _remove_what_killed_starts_left(folder: Path) -> None:
    for left in folder.glob(f".preparing-{socket.gethostname()}-*"):
        try:
            os.kill(int(left.name.rpartition("-")[2]), 0)  # does it live?
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)


def load_prepared(prepared: Path) -> PreparedData:
    """Map a prepared folder into memory."""
    about = json.loads((prepared / "about.json").read_text(encoding="utf-8"))

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
        dropped=about["dropped"],
        fingerprint=about["fingerprint"],
    )


def _key(corpus: CorpusConfig, tokenizer: TokenizerConfig, seq_len: int) -> str:
    """A name for what a preparation depends on."""
    languages = f"{corpus.lang_src}-{corpus.lang_tgt}"
    file = tokenizer.file(languages)
    try:
        given = file.read_bytes() if file is not None else b""
    except (FileNotFoundError, NotADirectoryError):
        given = b""  # it is still to be written
    except OSError as error:
        raise UserError(f"--tokenizer_file {file} cannot be read: {error.strerror}.") from error
    inputs = [FORMAT, corpus_signature(corpus), asdict(corpus), asdict(tokenizer), seq_len]
    digest = hashlib.sha256(json.dumps(inputs).encode() + given)
    return f"{languages}-{digest.hexdigest()[:12]}"


def _write(
    folder: Path, corpus_config: CorpusConfig, tokenizer_config: TokenizerConfig, seq_len: int
) -> None:
    corpus = read_corpus(corpus_config)
    fault_point("tokenizing")
    tokenizer = build_tokenizer(
        _all_lines(corpus.train),
        tokenizer_config,
        languages=f"{corpus_config.lang_src}-{corpus_config.lang_tgt}",
        file=folder / "tokenizer.json",
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
            _write_lines(folder, pairs.select(kept))
    about = {"dropped": dict(dropped), "fingerprint": digest.hexdigest()}
    (folder / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def _encode(
    pairs: "datasets.Dataset", tokenizer: Tokenizer, seq_len: int
) -> tuple[ParallelDataset, list[int]]:
    """The pairs of which both sides fit, and their rows. Ids become arrays one by one: a list of
    Python numbers would take ten times the memory.
    """
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    kept: list[int] = []
    rows = itertools.count()
    for part in _in_parts(pairs):
        for source, target in zip(*map(tokenizer.encode, part), strict=True):
            row = next(rows)
            if max(len(source), len(target)) < seq_len:  # and the end marker
                kept.append(row)
                for side, ids in zip(sides, (source, target), strict=True):
                    side.append(np.array(ids, dtype=np.int32))
    return ParallelDataset(*map(Ragged.of, sides)), kept


def _in_parts(pairs: "datasets.Dataset") -> Iterator[tuple[list[str], list[str]]]:
    for part in pairs.iter(LINES_AT_ONCE):
        columns = cast("dict[str, list[str]]", part)
        yield columns["src"], columns["tgt"]


def _all_lines(pairs: "datasets.Dataset") -> Iterator[str]:
    for source, target in _in_parts(pairs):
        yield from source
        yield from target


def _write_lines(folder: Path, validation: "datasets.Dataset") -> None:
    for side, lines in zip(("src", "tgt"), zip(*_in_parts(validation), strict=True), strict=True):
        text = "".join(f"{line}\n" for part in lines for line in part)
        (folder / f"validation.{side}.txt").write_text(text, encoding="utf-8")


def _publish(partial: Path, prepared: Path) -> None:
    try:
        partial.rename(prepared)
    except OSError:
        # Another node that shares this disk was first; its folder holds the same.
        if not (prepared / "about.json").exists():
            raise
