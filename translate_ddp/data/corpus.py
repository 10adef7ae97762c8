"""Cleaned corpora: the usable pairs of all sources of a run, in a folder, and a report.

Rows are streamed through worker processes into the folder, so that memory does not grow with the
corpus, except for a few bytes per pair. Then they are divided into training and validation.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from translate_ddp.console import Progress, counted, print_line, printable
from translate_ddp.data.cleaning import (
    ALSO_IN_VALIDATION,
    DUPLICATE,
    EXAMPLES,
    NEAR_DUPLICATE,
    WRONG_SCRIPT,
    CleanedRows,
    clean_rows,
    shortened,
)
from translate_ddp.data.languages import Direction, accepted_scripts, language_identifier
from translate_ddp.data.pair_store import (
    BATCH_PAIRS,
    SAMPLE_PAIRS,
    Pair,
    PairStore,
    batched_rows,
    to_lines,
    to_pairs,
)
from translate_ddp.data.prepared_folder import (
    SUMMARY_FILE,
    Summary,
    abandon,
    is_usable,
    publish,
    read_summary,
    remove_abandoned,
)
from translate_ddp.data.rows import BY_POSITION, Rows
from translate_ddp.data.selection import held_out, repeated, rows_with
from translate_ddp.data.sources import (
    choose_split,
    find_splits,
    read_pairs,
    source_identity,
    validation_split,
)
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.workers import map_in_processes
from translate_ddp.settings import CleanLevel, CorpusConfig

FORMAT = 6  # of the folder; raise it with every change of the pairs or of their order
CLEANED = "cleaned-"  # before the signature, in the name of the folder
REPEATED = "repeated in validation"
VALIDATION_LIMIT = 100_000  # it is in memory as text, and is translated many times
TOO_MANY = (
    "Validation may have at most {:,} pairs, but {}. All of them are translated"
    " in each validation: pass --validation 2000, or a file of some thousand pairs."
)
KEPT_FILE, VALIDATION_FILE = "kept.npy", "validation.tsv"
LINE_CHARACTERS = 100  # of a report
MIN_PAIRS = 100  # fewer do not show that columns are swapped
MIN_SHARE = 0.01  # of the pairs; single ones may look swapped by chance


class NoUsablePairs(UserError):
    """Every row of a source is dropped, or it is empty."""


@dataclass
class Report:
    """What the cleaning of one source did."""

    source: str
    rows: int = 0  # read
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # rows by reason
    examples: dict[str, list[Pair]] = field(default_factory=dict)  # dropped ones, by reason
    notices: list[str] = field(default_factory=list)

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


class CleanedCorpus:
    """A folder that `Cleaning` has completed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signature = folder.name.rpartition("-")[2]  # of the sources, as they were read
        summary = read_summary(folder)
        # Of each dataset, then of validation if it has a source of its own.
        self.reports = [Report.of(report) for report in summary["reports"]]
        self._bounds: list[int] = summary["bounds"]
        self._store = PairStore(folder)
        self.is_train = np.load(folder / KEPT_FILE, mmap_mode="r", allow_pickle=False)

    @property
    def sizes(self) -> list[int]:
        """The training pairs of each dataset. Datasets follow each other in the order of pairs."""
        return [int(self.is_train[slice(*bounds)].sum()) for bounds in pairwise(self._bounds)]

    @property
    def hashes(self) -> np.ndarray:
        """A hash of each pair, whether or not it is used for training."""
        return self._store.records["pair"]

    def batches(self, is_chosen: np.ndarray) -> Iterator[list[Pair]]:
        """The marked pairs in order, in batches, some of which may be empty."""
        return self._store.batches(is_chosen)

    def batches_of_datasets(self, is_chosen: np.ndarray) -> Iterator[tuple[list[Pair], list[int]]]:
        """The marked pairs in order and the numbers of their datasets, in batches.

        Some batches may be empty.
        """
        starts = range(0, len(is_chosen), BATCH_PAIRS)
        for start, pairs in zip(starts, self.batches(is_chosen), strict=True):
            rows = start + np.flatnonzero(is_chosen[start : start + BATCH_PAIRS])
            yield pairs, np.searchsorted(self._bounds[1:], rows, side="right").tolist()

    def validation(self) -> list[Pair]:
        return to_pairs((self.folder / VALIDATION_FILE).read_bytes())

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped rows of all sources by reason."""
        return dict(sum((Counter(report.dropped) for report in self.reports), Counter[str]()))


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
    """Delete all cleaned corpora below `folder`, also what interrupted starts have left."""
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
        config, given = self._config, None
        for number, name in enumerate(config.dataset):
            splits = find_splits(name, config.languages, config.options)
            if number == 0 and "train" in splits and not config.validation:
                given = validation_split(splits)
            rows = choose_split(name, splits, "train")
            batches = self._cleaned(rows, config.clean)
            self._store.append((batch.lines, batch.records) for batch in batches)
            self._bounds.append(len(self._store))
            pairs = self._store.sample(*self._bounds[-2:])
            self._reports[-1].notices += check_direction(config, rows, pairs)
        if config.validation and not config.is_split:
            given = read_pairs(config.validation, config.languages, config.options)
        self._is_train = np.ones(len(self._store), dtype=bool)
        self._drop_bad_rows()
        validation = self._hold_out() if given is None else self._separate(given)
        language_identifier.cache_clear()
        if not self._is_train.any():
            raise UserError(
                f"Every usable pair of {config.name} is also in validation, so "
                "none is left for training: pass another --validation."
            )
        for report, bounds in zip(self._reports, pairwise(self._bounds), strict=False):
            report.kept = int(self._is_train[slice(*bounds)].sum())
        np.save(self._folder / KEPT_FILE, self._is_train)
        (self._folder / VALIDATION_FILE).write_bytes(to_lines(validation))
        return {
            "reports": [asdict(report) for report in self._reports],
            "bounds": self._bounds,  # of the datasets in the store
        }

    def _cleaned(self, rows: Rows, level: CleanLevel) -> Iterator[CleanedRows]:
        """The cleaned batches of a source. Raises NoUsablePairs if it has none."""
        report = Report(rows.name)
        self._reports.append(report)
        label = f"Reading {rows.name}"
        with Progress(label, rows.size, shown=self._shown, scaled=True, leave=False) as progress:
            batches = batched_rows(rows.read(progress.advance))
            for batch in map_in_processes(partial(clean_rows, level), batches):
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
        records, is_strict = self._store.records, self._config.clean == "strict"
        if is_strict:
            for side in range(2):
                numbers = records["scripts"][:, side]
                values, counts = np.unique(numbers[self._is_train], return_counts=True)
                names = [self._scripts[number] for number in values.tolist()]
                accepted = accepted_scripts(dict(zip(names, counts.tolist(), strict=True)))
                others = [n for n, name in zip(values, names, strict=True) if name not in accepted]
                self._drop(rows_with(numbers, np.array(others), self._is_train), WRONG_SCRIPT)
        for start, end in pairwise(self._bounds):
            part, is_train = records[start:end], self._is_train[start:end]
            self._drop(start + repeated(part["pair"], is_train), DUPLICATE)
            if is_strict:
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
            raise UserError(TOO_MANY.format(VALIDATION_LIMIT, f"{asked} is {wanted:,}"))
        records = self._store.records
        groups = held_out(records, self._is_train, wanted)
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
        rows = np.concatenate(groups)
        texts = self._store.pairs(rows.tolist())
        numbers = np.repeat(range(len(groups)), list(map(len, groups))).tolist()
        chosen: dict[Pair, int] = {}  # pair -> the first of its rows
        for _, pair, row in sorted(zip(numbers, texts, rows.tolist(), strict=True)):
            chosen.setdefault(pair, row)
        chosen = dict(islice(chosen.items(), wanted))
        held_out_rows = list(chosen.values())
        self._is_train[held_out_rows] = False  # not dropped
        self._drop_pairs_of(records[held_out_rows], "source")
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
                raise UserError(TOO_MANY.format(VALIDATION_LIMIT, f"{given.name} has more"))
        report = self._reports[-1]
        report.drop(REPEATED, report.kept - len(pairs), [])
        report.kept = len(pairs)
        report.notices += check_direction(self._config, given, pairs)
        column = "pair" if self._config.clean == "none" else "source"
        self._drop_pairs_of(np.concatenate(records), column)
        return list(pairs)

    def _drop_pairs_of(self, held_out: np.ndarray, column: str) -> None:
        """Drop the pairs that have the same hash in a column as the records of validation.

        With both directions, also the pairs with a sentence of validation on either side: in the
        other direction, the references of validation are sources.
        """
        wanted = [(column, held_out[column])]
        if self._config.bidirectional:
            sentences = np.concatenate([held_out["source"], held_out["target"]])
            wanted += [("source", sentences), ("target", sentences)]
        for name, hashes in wanted:
            rows = rows_with(self._store.records[name], hashes, self._is_train)
            self._drop(rows, ALSO_IN_VALIDATION)

    def _drop(self, rows: np.ndarray, reason: str) -> None:
        """Take these rows, in ascending order, out of training, if they are in it."""
        rows = rows[self._is_train[rows]]
        self._is_train[rows] = False
        for report, (start, end) in zip(self._reports, pairwise(self._bounds), strict=False):
            found = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if len(found):
                examples = self._store.pairs(found[:EXAMPLES].tolist())
                report.drop(reason, len(found), list(map(shortened, examples)))


def check_direction(config: CorpusConfig, rows: Rows, sample: Iterable[Pair]) -> list[str]:
    """A notice if the sides of these pairs of a source seem swapped or, without names, may be.

    Raises UserError if only their order tells which is the source, and it is wrong in most of 100
    pairs or more. Names of columns and files are not doubted, nor columns that the user gives.
    """
    pairs = list(islice(dict.fromkeys(sample), SAMPLE_PAIRS))
    is_by_position = BY_POSITION in rows.remarks
    if (config.src_column and config.tgt_column) or rows.name.startswith("demo:"):
        return []
    if len(pairs) < MIN_PAIRS and not is_by_position:
        return []
    (src, tgt), direction = config.languages, Direction(config.languages)
    found = Counter(map(direction, pairs))
    swapped = (
        f"{rows.name}: {found[-1]:,} of {len(pairs):,} sampled pairs have {tgt} as source and {src}"
        " as target"
    )
    if is_by_position and 2 * found[-1] > len(pairs) >= MIN_PAIRS:
        raise UserError(
            f"{swapped}. Add a first line that names the columns, {tgt} and {src}, or pass"
            " --src_column 2 --tgt_column 1, or 1 and 2 if they are right."
        )
    if found[-1] > MIN_SHARE * len(pairs):
        return [f"{swapped}. Swap their sides, or the names of the columns or files."]
    if not is_by_position or 2 * found[1] > len(pairs):
        return []
    why = f"{direction.unknown[0]} is unknown" if direction.unknown else "they are not clear"
    return [f"{rows.name} has no header: columns 1 and 2 are read as {src} and {tgt}, but {why}."]
