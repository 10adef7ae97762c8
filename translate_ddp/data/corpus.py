"""Sentence pairs fit for use, divided into training and validation; it never sees tokens."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from translate_ddp.data.columns import listing, mapped_text, reading
from translate_ddp.data.sources import read_splits, source_identity
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig

if TYPE_CHECKING:
    from datasets import Dataset

Pair = tuple[str, str]  # a source sentence and its translation


CHARACTERS_AT_MOST = 10_000
UNDECODED = re.compile("[\0\ufffd]")  # decoders leave U+FFFD where the bytes were no text
BYTE_ORDER_MARK = "\ufeff"
LINE_BREAKS = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")

VALIDATION_SHARE = 0.02
VALIDATION_PAIRS_AT_MOST = 2_000
ALSO_IN_VALIDATION = "also in validation"
SPLIT_SALT = b"translate_ddp"  # another salt is another split


@dataclass(frozen=True)
class Corpus:
    train: Dataset  # string columns src and tgt, nothing null or empty
    validation: Dataset  # the same, no pair twice
    dropped: dict[str, int]  # reason -> rows, of both; only reasons that occurred


def read_corpus(config: CorpusConfig) -> Corpus:
    """The usable pairs to train on and to validate on, and why the other rows were dropped.

    Validation is what `config.validation` names, else the dataset's own split of that name, else
    split off the rest (`_split_off`). A pair that is in validation never trains.
    Raises UserError if there is nothing to read, or nothing usable.
    """
    languages = config.lang_src, config.lang_tgt
    splits = read_splits(config.dataset, languages)
    train, dropped = _usable(_training_split(config.dataset, splits), config.dataset)
    if config.validation:
        given = read_pairs(config.validation, *languages)
        validation, more = _usable(given, config.validation)
    elif "train" in splits and "validation" in splits:
        validation, more = _usable(splits["validation"], f"{config.dataset}:validation")
    else:
        train, validation, left_over = _split_off(train, config.dataset)
        return Corpus(_written_out(train), _written_out(validation), dict(dropped + left_over))
    validation, repeated = _distinct(validation)
    train, shared = _without(train, validation, config.dataset)
    dropped = dropped + more + repeated + shared
    return Corpus(_written_out(train), _written_out(validation), dict(dropped))


def read_pairs(source: str, lang_src: str, lang_tgt: str) -> Dataset:
    """The whole of one source as it stands: columns `src` and `tgt`, null where there is no text.

    Raises UserError if there is nothing to read, or several splits and `source` names none.
    """
    splits = read_splits(source, (lang_src, lang_tgt))
    if len(splits) > 1:
        raise UserError(
            f"{source} has the splits {listing(splits)}: name one, as in {source}:{min(splits)}."
        )
    return next(iter(splits.values()))


def corpus_signature(config: CorpusConfig) -> str:
    """A short text that changes with what `read_corpus` would read, found without reading it.

    Files are known by path, size and time, hub datasets by name only.
    Raises UserError as reading does if a source is not there.
    """
    languages = config.lang_src, config.lang_tgt
    known = [*languages]
    for source in filter(None, (config.dataset, config.validation)):
        known += source_identity(source, languages)
    return hashlib.blake2b("\n".join(known).encode(), digest_size=16).hexdigest()


def _training_split(source: str, splits: Mapping[str, Dataset]) -> Dataset:
    if len(splits) > 1 and "train" not in splits:
        raise UserError(
            f"{source} has no split 'train', but {listing(splits)}:"
            f" name the one to train on, as in {source}:{min(splits)}."
        )
    return splits["train"] if "train" in splits else next(iter(splits.values()))


def _usable(pairs: Dataset, source: str) -> tuple[Dataset, Counter[str]]:
    """The pairs that pass every rule, tidied, and the number of the others by reason."""
    reasons: list[str] = []
    if len(pairs) > 0:  # `map` would leave an empty table without the new column
        with reading(source, "Convert it to UTF-8."):
            pairs = mapped_text(pairs, _judged, ("src", "tgt", "reason"))
        reasons = pairs["reason"][:]
    dropped = Counter(filter(None, reasons))
    kept = [row for row, reason in enumerate(reasons) if not reason]
    if not kept:
        counts = ", ".join(f"{rows:,} {reason}" for reason, rows in dropped.items())
        raise UserError(
            f"{source} has 0 usable pairs of {len(reasons):,}: {counts or 'it is empty'}."
        )
    return pairs.select(kept).remove_columns("reason"), dropped


def _judged(batch: dict[str, list[str | None]]) -> dict[str, list[str | None]]:
    """Tidy text, and for each pair why it is dropped ('' if it is not)."""
    src, tgt = ([_tidy(text) for text in batch[side]] for side in ("src", "tgt"))
    return {
        "src": src,
        "tgt": tgt,
        "reason": [_why_dropped(*pair) for pair in zip(src, tgt, strict=True)],
    }


def _tidy(text: str | None) -> str | None:
    if text is None:
        return None
    return LINE_BREAKS.sub(" ", text.removeprefix(BYTE_ORDER_MARK).strip())


def _why_dropped(src: str | None, tgt: str | None) -> str:
    if src is None or tgt is None:
        return "not text"
    if not src or not tgt:
        return "empty"
    if UNDECODED.search(src) or UNDECODED.search(tgt):
        return "invalid unicode"
    if max(len(src), len(tgt)) > CHARACTERS_AT_MOST:
        return f"over {CHARACTERS_AT_MOST:,} characters"
    return ""


def _split_off(pairs: Dataset, source: str) -> tuple[Dataset, Dataset, Counter[str]]:
    """Training and validation pairs, divided by a salted hash of the source sentence alone.

    Validation takes 2% (at least 1 pair, at most 2,000), without repeats, of the sources with the
    smallest hashes. All other pairs of these sources leave training too, counted as 'also in
    validation'. So neither the order of the rows nor their repeats move a sentence across.
    Raises UserError if there are fewer than two different sources.
    """
    hashes = np.fromiter((_hash(src) for src, _ in _rows(pairs)), np.uint64, len(pairs))
    last = hashes.max()  # it trains, whatever else does
    if hashes.min() == last:
        raise UserError(
            f"{source} has only one source sentence, which cannot be divided into training and"
            f" validation: pass --validation."
        )
    wanted = min(max(round(VALIDATION_SHARE * len(pairs)), 1), VALIDATION_PAIRS_AT_MOST)
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
    return train, validation, Counter({ALSO_IN_VALIDATION: left_over} if left_over else {})


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=SPLIT_SALT).digest()
    return int.from_bytes(digest, "big")


def _distinct(validation: Dataset) -> tuple[Dataset, Counter[str]]:
    first_rows: dict[Pair, int] = {}
    for row, pair in enumerate(_rows(validation)):
        first_rows.setdefault(pair, row)
    return _selected(validation, list(first_rows.values()), "repeated in validation")


def _without(train: Dataset, validation: Dataset, source: str) -> tuple[Dataset, Counter[str]]:
    held_back = set(_rows(validation))
    kept = [row for row, pair in enumerate(_rows(train)) if pair not in held_back]
    if not kept:
        raise UserError(
            f"Every usable pair of {source} is also in validation: none is left to train."
        )
    return _selected(train, kept, ALSO_IN_VALIDATION)


def _selected(pairs: Dataset, rows: list[int], reason: str) -> tuple[Dataset, Counter[str]]:
    others = len(pairs) - len(rows)
    return pairs.select(rows), Counter({reason: others} if others else {})


def _rows(pairs: Dataset) -> Iterator[Pair]:
    for batch in pairs.iter(batch_size=10_000):
        columns = cast("dict[str, list[str]]", batch)
        yield from zip(columns["src"], columns["tgt"], strict=True)


def _written_out(pairs: Dataset) -> Dataset:
    """The selected rows as a table of their own, which is read many times faster."""
    return mapped_text(pairs.with_format("arrow"), _unchanged, ("src", "tgt")).with_format(None)


def _unchanged(table: Any) -> Any:
    return table
