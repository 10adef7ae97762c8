"""Reads the sources of a run, cleans their pairs, and divides them into training and validation.

Rows are streamed through worker processes into a folder, so that memory does not grow with the
corpus, except for a few bytes per pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from translate_ddp.console import print_line
from translate_ddp.data.clean_rows import EXAMPLES, CleanedRows, clean_rows, shortened
from translate_ddp.data.cleaned_corpus import CleanedCorpus, Report, store_selection
from translate_ddp.data.cleaning import (
    ALSO_IN_VALIDATION,
    DUPLICATE,
    NEAR_DUPLICATE,
    WRONG_SCRIPT,
    Cleaner,
    Level,
)
from translate_ddp.data.direction import check_direction, language_identifier
from translate_ddp.data.pair_store import Pair, PairStore, batched_rows, to_pairs
from translate_ddp.data.prepared_folder import (
    SUMMARY_FILE,
    Summary,
    abandon,
    is_usable,
    publish,
    remove_abandoned,
)
from translate_ddp.data.rows import Rows
from translate_ddp.data.scripts import accepted_scripts
from translate_ddp.data.selection import count_values, held_out, repeated, rows_with
from translate_ddp.data.sources import choose_split, find_splits, source_identity, validation_split
from translate_ddp.errors import UserError
from translate_ddp.progress import Progress
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.workers import map_in_processes
from translate_ddp.settings import CorpusConfig

FORMAT = 6  # of the folder; raise it with every change of the pairs or of their order
CLEANED = "cleaned-"  # before the signature, in the name of the folder
REPEATED = "repeated in validation"
SIDES = range(2)  # source, target
VALIDATION_LIMIT = 100_000  # it is in memory as text, and is translated many times


class NoUsablePairs(UserError):
    """Every row of a source is dropped, or it is empty."""


def clean_corpus(
    config: CorpusConfig, folder: Path, shown: bool, reported: bool = True
) -> CleanedCorpus:
    """The cleaned corpus below `folder`; it is read and stored, unless it exists intact.

    Validation is the source `config.validation`, else the validation split of the first dataset,
    else a part of the training pairs. No validation pair is in training. With `shown`, progress is
    printed, and with `reported`, what was dropped.
    Raises UserError if a source cannot be read, changes meanwhile or has no usable pair, or if the
    disk is full.
    """
    path = folder / f"{CLEANED}{corpus_signature(config)}"
    if not is_usable(path):

        def write(partial: Path) -> tuple[Path, Summary]:
            summary = Cleaning(config, partial, shown).run()
            if path.name != f"{CLEANED}{corpus_signature(config)}":
                raise UserError(
                    f"The files of {config.name} changed while they were read. Start again when"
                    " they are complete."
                )
            return path, summary

        publish(folder, write)
        if shown and reported:
            for report in CleanedCorpus(path).reports:
                for line in report.lines():
                    print_line(line)
    return CleanedCorpus(path)


def delete_cleaned(folder: Path) -> None:
    """Delete all cleaned corpora below `folder`, also those that interrupted starts have left."""
    for cleaned in folder.glob(f"{CLEANED}*"):
        if (cleaned / SUMMARY_FILE).exists():  # else it is not of this program
            abandon(cleaned)
    remove_abandoned(folder)


def count_pairs(config: CorpusConfig, folder: Path) -> int:
    """The number of usable training pairs, which is stored in `folder` for later starts.

    Raises UserError if the corpus cannot be read.
    """
    file = folder / f"pairs-{corpus_signature(config)}.txt"
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="utf-8"))
    pairs = sum(clean_corpus(config, folder, shown=True).sizes)
    with suppress(OSError):  # the preparation reports a full disk
        write_atomically(file, str(pairs))
    return pairs


def corpus_signature(config: CorpusConfig) -> str:
    """A hash that changes when `clean_corpus` would find other pairs, without reading them.

    It covers path, size and time of files, and only name and revision of hub datasets.
    Raises UserError if a source does not exist, as `clean_corpus` does.
    """
    parts = [FORMAT, config.languages, config.options, config.clean, config.validation]
    parts += ["bidirectional"] if config.bidirectional else []
    names = [*config.dataset, *([] if config.is_split else [config.validation])]
    for name in filter(None, names):
        parts += source_identity(name, config.languages, config.options)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


class Cleaning:
    """One preparation of a folder."""

    def __init__(self, config: CorpusConfig, folder: Path, shown: bool) -> None:
        self._config, self._folder, self._shown = config, folder, shown
        self._store = PairStore(folder)
        self._reports: list[Report] = []
        self._bounds = [0]
        self._scripts: dict[int, str] = {}  # number in the records -> name
        self._is_train = np.empty(0, dtype=bool)

    def run(self) -> Summary:
        given: Rows | None = None
        chosen = self._config.validation
        for number, name in enumerate(self._config.dataset):
            splits = self._splits(name)
            if number == 0 and "train" in splits and not chosen:
                given = validation_split(splits)
            self._read(rows := choose_split(name, splits, "train"))
            pairs = self._store.sample(*self._bounds[-2:])
            self._reports[-1].notices += check_direction(self._config, rows, pairs)
        if chosen and not self._config.is_split:
            given = choose_split(chosen, self._splits(chosen))
        self._is_train = np.ones(len(self._store), dtype=bool)
        self._drop_bad_rows()
        validation = self._hold_out() if given is None else self._separate(given)
        language_identifier.cache_clear()
        if not self._is_train.any():
            raise UserError(
                f"Every usable pair of {self._config.name} is also in validation, so "
                "none is left for training: pass another --validation."
            )
        for report, bounds in zip(self._reports, pairwise(self._bounds), strict=False):
            report.kept = int(self._is_train[slice(*bounds)].sum())
        return store_selection(
            self._folder, self._is_train, self._bounds, validation, self._reports
        )

    def _splits(self, name: str) -> dict[str, Rows]:
        return dict(find_splits(name, self._config.languages, self._config.options))

    def _read(self, rows: Rows) -> None:
        """Add the usable rows of a dataset to the store."""
        batches = self._cleaned(rows, self._config.clean)
        self._store.append((batch.lines, batch.records) for batch in batches)
        self._bounds.append(len(self._store))

    def _cleaned(self, rows: Rows, level: Level) -> Iterator[CleanedRows]:
        """The cleaned batches of a source. Raises NoUsablePairs if it has none."""
        report = Report(rows.name)
        self._reports.append(report)
        label = f"Reading {rows.name}"
        with Progress(label, rows.size, shown=self._shown, scaled=True, leave=False) as progress:
            batches = batched_rows(rows.read(progress.advance))
            for batch in map_in_processes(partial(clean_rows, Cleaner(level)), batches):
                report.rows += batch.rows
                report.kept += len(batch.records)
                for reason, count in batch.dropped.items():
                    report.drop(reason, count, batch.examples[reason])
                self._scripts |= batch.scripts
                progress.text = f"{report.rows:,} pairs"
                yield batch
        report.notices += rows.notices
        if not report.kept:
            counts = ", ".join(f"{count:,} {why}" for why, count in report.dropped.items())
            raise NoUsablePairs(
                f"{rows.name} has 0 usable pairs of {report.rows:,}: {counts or 'it is empty'}."
            )

    def _drop_bad_rows(self) -> None:
        """Drop what can only be seen from all rows."""
        if self._config.clean == "none":
            return
        records = self._store.records
        if self._config.clean == "strict":
            for side in SIDES:
                numbers = records["scripts"][:, side]
                found = count_values(numbers, self._is_train)
                accepted = accepted_scripts({self._scripts[n]: c for n, c in found.items()})
                others = [n for n in found if self._scripts[n] not in accepted]
                self._drop(rows_with(numbers, np.array(others), self._is_train), WRONG_SCRIPT)
        for start, end in pairwise(self._bounds):
            part, is_train = records[start:end], self._is_train[start:end]
            self._drop(start + repeated(part["pair"], is_train), DUPLICATE)
            if self._config.clean == "strict":
                has_key = is_train & (part["near"] != 0)
                self._drop(start + repeated(part["near"], has_key), NEAR_DUPLICATE)

    def _hold_out(self) -> list[Pair]:
        """Validation pairs, taken from training: those of the sources with the smallest hashes.

        2% of the pairs, at least 1 and at most 2,000, unless the settings have a number or share.
        Their sources leave training. Raises UserError if there is only one source sentence, or if
        the number is that of all pairs.
        """
        pairs = int(self._is_train.sum())
        wanted = self._config.validation_pairs(pairs)
        if wanted > VALIDATION_LIMIT:
            asked = f"--validation {self._config.validation} of {pairs:,} pairs"
            raise UserError(_describe_many(f"{asked} is {wanted:,}"))
        groups = held_out(self._store.records, self._is_train, wanted)
        if not groups:
            raise UserError(
                f"{self._config.name} has only one source sentence, which cannot be "
                "split into training and validation: pass --validation."
            )
        if self._config.validation and wanted >= pairs:
            raise UserError(
                f"--validation {self._config.validation} would leave nothing to train on: there are"
                f" {pairs:,} pairs."
            )
        texts = iter(self._store.pairs(np.concatenate(groups).tolist()))
        chosen: dict[Pair, int] = {}  # pair -> the first of its rows
        for rows in groups:
            found: dict[Pair, int] = {}
            for row, pair in zip(rows.tolist(), islice(texts, len(rows)), strict=True):
                found.setdefault(pair, row)
            chosen |= dict(sorted(found.items()))
        chosen = dict(islice(chosen.items(), wanted))
        self._is_train[list(chosen.values())] = False  # not dropped
        self._drop(np.sort(np.concatenate(groups)), ALSO_IN_VALIDATION)
        if self._config.bidirectional:
            self._drop_sentences_of(self._store.records[list(chosen.values())])
        return list(chosen)

    def _separate(self, given: Rows) -> list[Pair]:
        """The different pairs of the validation source, which leave training.

        Unless nothing is cleaned, all other translations of their sources do, too.
        """
        pairs: dict[Pair, None] = {}  # an ordered set
        records: list[np.ndarray] = []
        for batch in self._cleaned(given, "none"):
            pairs |= dict.fromkeys(to_pairs(batch.lines))
            records.append(batch.records)
            if len(pairs) > VALIDATION_LIMIT:
                raise UserError(_describe_many(f"{given.name} has more"))
        report = self._reports[-1]
        report.drop(REPEATED, report.kept - len(pairs), [])
        report.kept = len(pairs)
        report.notices += check_direction(self._config, given, pairs)
        held_out = np.concatenate(records)
        column = "pair" if self._config.clean == "none" else "source"
        hashes = self._store.records[column]
        self._drop(rows_with(hashes, held_out[column], self._is_train), ALSO_IN_VALIDATION)
        if self._config.bidirectional:
            self._drop_sentences_of(held_out)
        return list(pairs)

    def _drop_sentences_of(self, held_out: np.ndarray) -> None:
        """Drop the pairs with a sentence of validation on either side.

        In the other direction, the references of validation are sources.
        """
        sentences = np.concatenate([held_out["source"], held_out["target"]])
        for side in ("source", "target"):
            hashes = self._store.records[side]
            self._drop(rows_with(hashes, sentences, self._is_train), ALSO_IN_VALIDATION)

    def _drop(self, rows: np.ndarray, reason: str) -> None:
        """Take these rows, in ascending order, out of training, if they are in it."""
        rows = rows[self._is_train[rows]]
        self._is_train[rows] = False
        for report, (start, end) in zip(self._reports, pairwise(self._bounds), strict=False):
            found = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if len(found):
                examples = self._store.pairs(found[:EXAMPLES].tolist())
                report.drop(reason, len(found), list(map(shortened, examples)))


def _describe_many(found: str) -> str:
    return (
        f"Validation may have at most {VALIDATION_LIMIT:,} pairs, but {found}. All of them are"
        " translated in each validation: pass --validation 2000, or a file of some thousand pairs."
    )
