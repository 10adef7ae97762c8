"""Sentence pairs as text: cleaned, filtered, and split into training and validation."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from translate_ddp.data.columns import iterate_batches, map_text
from translate_ddp.data.read_errors import explain_read_errors, list_names
from translate_ddp.data.sources import read_splits, source_identity
from translate_ddp.data.text import normalize
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import write_atomically
from translate_ddp.settings import CorpusConfig

if TYPE_CHECKING:
    from datasets import Dataset

Pair = tuple[str, str]  # a source sentence and its translation

MAX_CHARACTERS = 10_000
INVALID_UNICODE = re.compile("[\0\ufffd]")  # decoders put U+FFFD in the place of invalid bytes

VALIDATION_FRACTION = 0.02
MAX_VALIDATION_PAIRS = 2_000
ALSO_IN_VALIDATION = "also in validation"
SPLIT_SALT = b"translate_ddp"  # another salt gives another split


@dataclass(frozen=True)
class Corpus:
    train: Dataset  # string columns src and tgt, not null, not empty
    validation: Dataset  # the same, without duplicate pairs
    dropped: dict[str, int]  # reason -> rows of both; only reasons that occurred


def read_corpus(config: CorpusConfig) -> Corpus:
    """The usable pairs for training and for validation, and how many rows were dropped and why.

    Validation is the source `config.validation`, else the split `validation` of the dataset, else
    a part of its training pairs (`_split_by_hash`). No validation pair is in training.
    Raises UserError if a source cannot be read or has no usable pair.
    """
    languages = config.lang_src, config.lang_tgt
    splits = read_splits(config.dataset, languages)
    train, dropped = _filter_pairs(_choose_split(config.dataset, splits, "train"), config.dataset)
    given = splits.get("validation") if "train" in splits else None
    if config.validation:
        given = read_pairs(config.validation, *languages)
    if given is None:
        train, validation, more = _split_by_hash(train, config.dataset)
    else:
        name = config.validation or f"{config.dataset}:validation"
        validation, invalid = _filter_pairs(given, name)
        train, validation, more = _separate(train, validation, config.dataset)
        dropped += invalid
    return Corpus(_materialize(train), _materialize(validation), dict(dropped + more))


def count_pairs(config: CorpusConfig, folder: Path) -> int:
    """The number of usable training pairs, which is stored in `folder` for later starts.

    Raises UserError if the corpus cannot be read.
    """
    file = folder / f"pairs-{corpus_signature(config)}.txt"
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="utf-8"))
    pairs = len(read_corpus(config).train)
    with suppress(OSError):  # the preparation reports a full disk
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, str(pairs))
    return pairs


def read_pairs(source: str, lang_src: str, lang_tgt: str) -> Dataset:
    """All rows of one source, unfiltered: columns `src` and `tgt`, null where there is no text.

    Raises UserError if it cannot be read, or has several splits and `source` does not name one.
    """
    return _choose_split(source, read_splits(source, (lang_src, lang_tgt)))


def corpus_signature(config: CorpusConfig) -> str:
    """A hash that changes when `read_corpus` would return other pairs, without reading them.

    It covers path, size and time of files, and only the name of hub datasets.
    Raises UserError if a source does not exist, as `read_corpus` does.
    """
    languages = config.lang_src, config.lang_tgt
    sources = filter(None, (config.dataset, config.validation))
    parts = [*languages, *(part for name in sources for part in source_identity(name, languages))]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def _choose_split(source: str, splits: Mapping[str, Dataset], default: str = "") -> Dataset:
    """The only split, or the one named `default`. Raises UserError if there is neither."""
    if len(splits) == 1:
        return next(iter(splits.values()))
    if default not in splits:
        raise UserError(
            f"{source} has the splits {list_names(splits)}: name one, as in {source}:{min(splits)}."
        )
    return splits[default]


def _filter_pairs(pairs: Dataset, source: str) -> tuple[Dataset, Counter[str]]:
    """The usable pairs, normalized, and the number of the others by reason."""
    reasons: list[str] = []
    if len(pairs) > 0:  # `map` would not add the new column to an empty table
        with explain_read_errors(source, "Convert it to UTF-8."):
            pairs = map_text(pairs, _normalize_and_check, ("src", "tgt", "reason"))
        reasons = pairs["reason"][:]
    dropped = Counter(filter(None, reasons))
    kept = [row for row, reason in enumerate(reasons) if not reason]
    if not kept:
        counts = ", ".join(f"{rows:,} {reason}" for reason, rows in dropped.items())
        raise UserError(
            f"{source} has 0 usable pairs of {len(reasons):,}: {counts or 'it is empty'}."
        )
    return pairs.select(kept).remove_columns("reason"), dropped


def _normalize_and_check(batch: dict[str, list[str | None]]) -> dict[str, list[str | None]]:
    """Normalized text, and for each pair the reason to drop it ('' if it is usable)."""
    src, tgt = ([text and normalize(text) for text in batch[s]] for s in ("src", "tgt"))
    return {"src": src, "tgt": tgt, "reason": list(map(_reason_to_drop, src, tgt))}


def _reason_to_drop(src: str | None, tgt: str | None) -> str:
    if src is None or tgt is None:
        return "not text"
    if not src or not tgt:
        return "empty"
    if INVALID_UNICODE.search(src + tgt):
        return "invalid unicode"
    if max(len(src), len(tgt)) > MAX_CHARACTERS:
        return f"over {MAX_CHARACTERS:,} characters"
    return ""


def _split_by_hash(pairs: Dataset, source: str) -> tuple[Dataset, Dataset, Counter[str]]:
    """Training and validation pairs, split by a salted hash of the source sentence.

    Validation holds 2% of the pairs (at least 1, at most 2,000), without duplicates, of the source
    sentences with the smallest hashes. All other pairs of these sentences are dropped, counted as
    'also in validation'. So the order of the rows has no effect.
    Raises UserError if there are fewer than two different source sentences.
    """
    digests = (
        hashlib.blake2b(src.encode(), digest_size=8, salt=SPLIT_SALT).digest()
        for src, _ in _rows(pairs)
    )
    hashes = np.frombuffer(b"".join(digests), dtype=">u8")
    last = hashes.max()  # always in training, which therefore is never empty
    if hashes.min() == last:
        raise UserError(
            f"{source} has only one source sentence, which cannot be split into training and"
            f" validation: pass --validation."
        )
    wanted = min(max(round(VALIDATION_FRACTION * len(pairs)), 1), MAX_VALIDATION_PAIRS)
    chosen: dict[Pair, int] = {}  # pair -> one of its rows
    threshold = last
    order = np.argsort(hashes, kind="stable")
    for threshold, group in groupby(order.tolist(), key=hashes.__getitem__):
        if len(chosen) >= wanted or threshold == last:
            break
        rows = list(group)
        chosen.update(sorted(zip(_rows(pairs.select(rows)), rows, strict=True)))
    train = pairs.select(np.flatnonzero(hashes >= threshold))
    validation = pairs.select(list(chosen.values())[:wanted])
    left_over = len(pairs) - len(train) - len(validation)
    return train, validation, Counter({ALSO_IN_VALIDATION: left_over})


def _separate(
    train: Dataset, validation: Dataset, source: str
) -> tuple[Dataset, Dataset, Counter[str]]:
    """Validation without duplicates, training without its pairs, and the numbers of dropped ones.

    Raises UserError if no training pair is left.
    """
    held_out: dict[Pair, int] = {}  # pair -> its first row
    for row, pair in enumerate(_rows(validation)):
        held_out.setdefault(pair, row)
    kept = [row for row, pair in enumerate(_rows(train)) if pair not in held_out]
    if not kept:
        raise UserError(
            f"Every usable pair of {source} is also in validation, so none is left for training:"
            " pass another --validation."
        )
    dropped = Counter({"repeated in validation": len(validation) - len(held_out)})
    dropped[ALSO_IN_VALIDATION] = len(train) - len(kept)
    return train.select(kept), validation.select(list(held_out.values())), dropped


def _rows(pairs: Dataset) -> Iterator[Pair]:
    for src, tgt in iterate_batches(pairs):
        yield from zip(src, tgt, strict=True)


def _materialize(pairs: Dataset) -> Dataset:
    """The selected rows as a table without an index of rows, which is read many times faster."""
    copy = map_text(pairs.with_format("arrow"), lambda table: table, ("src", "tgt"))
    return copy.with_format(None)
