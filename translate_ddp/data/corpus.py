"""Cleaned corpora: the usable pairs of all sources of a run, in a folder, and a report.

Rows are streamed through worker processes into the folder, so that memory does not grow with the
corpus, except for a few bytes per pair. Then they are divided into training and validation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import chain, compress, islice, pairwise, product
from pathlib import Path

import numpy as np

from translate_ddp.console import ProgressBar, print_line
from translate_ddp.data.cleaned_corpus import (
    CLEANED,
    LABELS_FILE,
    STRICT_FILE,
    VALIDATION_FILE,
    CleanedCorpus,
    Part,
    Report,
    rows_in,
)
from translate_ddp.data.cleaning import (
    ALSO_IN_EXCLUDED,
    ALSO_IN_VALIDATION,
    EXAMPLES,
    HELD_OUT,
    LABELS,
    NO_LABEL,
    WRONG_SCRIPT,
    CleanedRows,
    clean_rows,
    labels_of,
    shortened,
)
from translate_ddp.data.languages import accepted_scripts, language_identifier
from translate_ddp.data.pair_store import (
    Pair,
    PairStore,
    batched_rows,
    swapped,
    to_lines,
    to_pairs,
)
from translate_ddp.data.prepared_folder import (
    Summary,
    is_usable,
    publish,
)
from translate_ddp.data.rows import Rows
from translate_ddp.data.selection import (
    frequent,
    held_out,
    label_repeated,
    most_translations,
    rows_with,
)
from translate_ddp.data.sources import (
    check_direction,
    choose_split,
    find_splits,
    read_pairs,
    source_identity,
    validation_split,
)
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import NoSuchPair, UserError
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.workers import map_in_processes
from translate_ddp.settings import CleanLevel, CorpusConfig

CLEANED_FORMAT = 10  # version of the folder; raise it with every change of pairs or of their order
REPEATED = "repeated in validation"
SAMPLED = "{}: of {:,} validation pairs of {}, a fixed sample of {:,} is used."
# For a text of the source, and for a text of the target.
ONE_AND_MANY = ("has {:,} different translations", "is the translation of {:,} different texts")
CORRECT_ROWS = "If it stands for a missing text, correct these rows, or pass --clean strict."


def clean_corpus(
    config: CorpusConfig, folder: Path, shown: bool, labelled: bool = False
) -> CleanedCorpus:
    """The cleaned corpus below `folder`; it is read and stored, unless it exists intact.

    Validation is, for each direction, the source `config.validation`, else the validation split of
    the first dataset, else a part of the training pairs. No validation pair is in training; with
    several directions, no sentence of one, on either side. With `config.bidirectional`, the pairs
    of each direction, swapped, also train its reverse. With `shown`, progress is printed,
    and what was dropped. With `labelled`, that is not printed, but the corpus has labels of the
    rows for what `--clean strict` would drop; `folder` is then empty.
    Raises UserError if a source cannot be read, changes meanwhile or has no usable pair, or if the
    disk is full.
    """
    path = folder / f"{CLEANED}{corpus_signature(config)}"
    if not is_usable(path):

        def write(partial: Path) -> tuple[Path, Summary]:
            summary = Cleaning(config, partial, shown, labelled).run()
            if path.name != f"{CLEANED}{corpus_signature(config)}":
                raise UserError(
                    f"The files of {config.name} changed while they were read. Start again when"
                    " they are complete."
                )
            return path, summary

        publish(folder, write)
        if shown and not labelled:
            for report in CleanedCorpus(path).reports:
                for line in report.lines():
                    print_line(line)
    return CleanedCorpus(path)


def count_pairs(config: CorpusConfig, folder: Path) -> int:
    """The number of usable training pairs, without swapped ones; stored for later starts.

    Raises UserError if the corpus cannot be read.
    """
    file = folder / f"pairs-{corpus_signature(config)}.txt"
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="utf-8"))
    pairs = clean_corpus(config, folder, shown=True).num_kept
    with suppress(OSError):  # the preparation reports a full disk
        write_atomically(file, str(pairs))
    return pairs


def corpus_signature(config: CorpusConfig) -> str:
    """A hash that changes when `clean_corpus` would find other pairs, without reading them.

    It covers path, size and time of files, and only name and revision of hub datasets.
    Raises UserError if a source does not exist, as `clean_corpus` does.
    """
    directions = config.requested
    parts = [CLEANED_FORMAT, directions, config.options, config.clean, config.validation]
    parts += [config.bidirectional, len(config.exclude)]
    given = [] if config.is_split or not config.validation else [config.validation]
    for name in (*config.dataset, *given, *config.exclude):
        missing: list[NoSuchPair] = []
        for direction in directions:
            try:
                parts += source_identity(direction.fill(name), direction, config.options)
            except NoSuchPair as error:
                missing.append(error)
        if len(missing) == len(directions):
            raise missing[0]
        parts += [len(missing)]
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


class Cleaning:
    """One preparation of a folder."""

    def __init__(self, config: CorpusConfig, folder: Path, shown: bool, labelled: bool) -> None:
        self._config, self._folder, self._shown, self._labelled = config, folder, shown, labelled
        self._store = PairStore(folder)
        self.reports: list[Report] = []  # first the parts, then validation and excluded sources
        self._parts: list[Part] = []
        self._bounds = [0]
        self._origins: list[tuple[int, str]] = []  # first row of each, and name
        self._scripts: dict[int, str] = {}  # number in the records -> name
        self._labels = np.empty(0, dtype=np.uint8)  # one per row

    @property
    def _is_train(self) -> np.ndarray:
        return self._labels == NO_LABEL

    def run(self) -> Summary:
        config, given = self._config, self._read_parts()
        self._labels = self._label_rows(config.clean)
        if config.clean == "safe":
            self._report_repeated_texts()
        if self._labelled:
            np.save(self._folder / STRICT_FILE, self._label_rows("strict"))
        self._check_parts()
        if config.validation and not config.is_split:
            for direction in self._directions:
                name = direction.fill(config.validation)
                given[direction] = read_pairs(name, direction, config.options, "validation")
        self._drop_excluded()
        held_out = [
            self._separate(given[direction], direction)
            if direction in given
            else self._hold_out(direction)
            for direction in self._directions
        ]
        self._drop_pairs_of([records for _, records in held_out], is_own=bool(given))
        validation = {of: each for of, (each, _) in zip(self._directions, held_out, strict=True)}
        language_identifier.cache_clear()
        for direction in self._directions:
            self._training_rows(direction)  # there are some
        for report, (start, end) in zip(self.reports, pairwise(self._bounds), strict=False):
            report.count(self._labels[start:end], range(start, end), self._store.pairs)
        if config.bidirectional:
            self._add_reverse_directions()
            turned = {of.reverse: list(map(swapped, each)) for of, each in validation.items()}
            validation = turned | validation
        validation = [validation[direction] for direction in self._directions]
        np.save(self._folder / LABELS_FILE, self._labels)
        (self._folder / VALIDATION_FILE).write_bytes(to_lines(chain.from_iterable(validation)))
        return {
            "reports": [asdict(report) for report in self.reports],
            "parts": self._parts,
            "bounds": self._bounds,  # first rows of the parts in the store, and the end
            "origins": self._origins,
            "validation_sizes": list(map(len, validation)),
        }

    def _add_reverse_directions(self) -> None:
        """Store the training pairs again, swapped, for reverse directions without own pairs."""
        found, parts, bounds = self._directions, list(self._parts), list(self._bounds)
        has_own = [part.direction.reverse in found for part in parts]
        is_swapped = self._is_train & ~np.repeat(has_own, np.diff(bounds))
        self._store.append_swapped(is_swapped)
        for part, rows, is_own in zip(parts, pairwise(bounds), has_own, strict=True):
            if not is_own:
                self._parts.append(part._replace(direction=part.direction.reverse))
                self._bounds.append(self._bounds[-1] + int(is_swapped[slice(*rows)].sum()))
        self._labels = np.pad(self._labels, (0, int(is_swapped.sum())), constant_values=NO_LABEL)

    def _read_parts(self) -> dict[LanguagePair, Rows]:
        """Store all datasets in all directions; the validation splits of the first datasets.

        Raises NoSuchPair if a dataset is not found in any direction, or a language in no dataset.
        """
        config, given = self._config, dict[LanguagePair, Rows]()
        missing: list[tuple[Part, NoSuchPair]] = []
        for direction in config.requested:
            for number, name in enumerate(config.dataset):
                part = Part(direction, number)
                try:
                    splits = self._read(part, direction.fill(name))
                except NoSuchPair as error:
                    missing.append((part, error))
                    continue
                if number == 0 and "train" in splits and not config.validation:
                    if split := validation_split(splits):
                        given[direction] = split
        found, datasets = set(self._directions), {part.dataset for part in self._parts}
        languages = set(chain.from_iterable(found))
        for (direction, dataset), error in missing:
            is_needed = config.directions or not languages.issuperset(direction)
            if dataset not in datasets or (direction not in found and is_needed):
                raise error
            name = config.dataset[dataset]
            self.reports[0].notices.append(f"No pairs of {direction} in {name}: {error}")
        return given

    def _read(self, part: Part, name: str) -> Mapping[str, Rows]:
        """Store the rows of a dataset in a direction; its splits. Raises NoSuchPair."""
        config, start = self._config, self._bounds[-1]
        splits = find_splits(name, part.direction, config.options)
        rows = choose_split(name, splits, "train")
        try:
            self._store.append(self._stored(rows))
        except NoSuchPair as error:
            if len(self._store) > start:  # only some of its files have the direction
                raise UserError(str(error)) from error
            raise
        self._parts.append(part)
        self._bounds.append(len(self._store))
        labels = labels_of(config.clean, self._store.records["label"][start:])
        found = Report(rows.name)  # without what the corpus decides
        found.count(labels, range(start, len(self._store)), self._store.pairs)
        found.check_usable()
        pairs = self._store.sample(start + np.flatnonzero(labels == NO_LABEL))
        notices = rows.notices + check_direction(config.options, part.direction, rows, pairs)
        self.reports.append(Report(rows.name, notices=notices))
        return splits

    def _stored(self, rows: Rows) -> Iterator[tuple[bytes, np.ndarray]]:
        """The rows as the store has them; where their files begin is noted."""
        first = self._bounds[-1]
        for batch in self._cleaned(rows, "strict" if self._labelled else self._config.clean):
            for file, size in batch.files:
                self._origins.append((first, file))
                first += size
            yield batch.lines, batch.records

    def _check_parts(self) -> None:
        """Raise UserError if two directions have the same pairs: only one can be right."""
        if len(self._directions) == 1:
            return
        records = self._store.records["pair"]
        found: dict[bytes, Part] = {}
        for part, bounds in zip(self._parts, pairwise(self._bounds), strict=True):
            digest = hashlib.blake2b(records[slice(*bounds)].tobytes()).digest()
            first = found.setdefault(digest, part)
            if first.direction != part.direction:
                name = self._config.dataset[part.dataset]
                raise UserError(
                    f"{name} has the same pairs for {first.direction} and {part.direction}: name "
                    "its columns by language, or write {src} or {tgt} in place of the "
                    "language in the names of files."
                )

    @property
    def _directions(self) -> list[LanguagePair]:
        return list(dict.fromkeys(part.direction for part in self._parts))

    def _training_rows(self, direction: LanguagePair) -> np.ndarray:
        """Marks of the training pairs in a direction. Raises UserError if none is left."""
        is_kept = self._is_train & rows_in(direction, self._parts, self._bounds)
        if not is_kept.any():
            raise UserError(
                f"Every usable pair of {direction} in {self._config.name} is also in validation or "
                "--exclude, so none is left for training: change these flags."
            )
        return is_kept

    def _cleaned(self, rows: Rows, level: CleanLevel) -> Iterator[CleanedRows]:
        """The batches of a source, with the labels of the level."""
        read, label = 0, f"Reading {rows.name}"
        with ProgressBar(label, rows.size, shown=self._shown, scaled=True, leave=False) as progress:
            batches = batched_rows(rows.numbered(progress.advance))
            for batch in map_in_processes(partial(clean_rows, level), batches):
                read += len(batch.records)
                self._scripts |= batch.scripts
                progress.text = f"{read:,} pairs"
                yield batch
        if not read and rows.notices:
            advice = "Choose languages and splits that it has. Rename columns of other meaning."
            raise NoSuchPair(f"{' '.join(rows.notices)} {advice}")

    def _usable(self, rows: Rows, use: str) -> Iterator[tuple[list[Pair], np.ndarray]]:
        """The usable pairs of a source that is not for training, with their records, in batches."""
        report = Report(rows.name, use=use)
        for batch in self._cleaned(rows, "none"):
            pairs, labels = to_pairs(batch.lines), batch.records["label"]
            report.count(labels, pairs, list)
            is_usable = labels == NO_LABEL
            yield list(compress(pairs, is_usable.tolist())), batch.records[is_usable]
        report.check_usable()
        report.notices += rows.notices
        self.reports.append(report)

    def _label_rows(self, level: CleanLevel) -> np.ndarray:
        """For which reason the level drops each row, before validation is chosen."""
        records, is_strict = self._store.records, level == "strict"
        labels = labels_of(level, records["label"])
        if is_strict:
            self._label_other_scripts(labels)
        if level != "none":
            for start, end in pairwise(self._bounds):
                label_repeated(records[start:end], labels[start:end], is_strict)
        return labels

    def _label_other_scripts(self, labels: np.ndarray) -> None:
        """Label the rows with a side in a script that its language has not."""
        for direction, side in product(self._directions, range(2)):
            is_kept = (labels == NO_LABEL) & rows_in(direction, self._parts, self._bounds)
            numbers = self._store.records["scripts"][:, side]
            values, counts = np.unique(numbers[is_kept], return_counts=True)
            names = [self._scripts[number] for number in values.tolist()]
            accepted = accepted_scripts(dict(zip(names, counts.tolist(), strict=True)))
            others = [n for n, name in zip(values, names, strict=True) if name not in accepted]
            labels[rows_with(numbers, np.array(others), is_kept)] = LABELS[WRONG_SCRIPT]

    def _report_repeated_texts(self) -> None:
        """Add notices of texts that many others translate, which strict cleaning drops."""
        for report, (start, end) in zip(self.reports, pairwise(self._bounds), strict=True):
            records, is_train = self._store.records[start:end], self._is_train[start:end]
            limit = most_translations(self._labels[start:end])
            for side, what in enumerate(ONE_AND_MANY):
                hashes = records[("source", "target")[side]]
                for text, count in frequent(hashes, is_train, limit)[:EXAMPLES]:
                    pair = self._store.pairs([start + int(np.argmax(hashes == text))])[0]
                    shown = f'"{shortened(pair)[side]}" {what.format(count)}'
                    report.notices.append(f"{report.source}: {shown}. {CORRECT_ROWS}")

    def _hold_out(self, direction: LanguagePair) -> tuple[list[Pair], np.ndarray]:
        """Validation pairs, taken from training: the pairs of the sources with the smallest hashes.

        Returns them with their records. Raises UserError if there is only one source sentence, or
        if they would be all pairs.
        """
        is_kept = self._training_rows(direction)
        pairs = int(is_kept.sum())
        directions = len(self._config.with_reverse(self._directions))
        asked = self._config.validation_pairs(pairs, directions)
        wanted = min(asked, self._config.validation_limit(self._directions))
        records = self._store.records
        if asked > wanted:
            self.reports[0].notices.append(SAMPLED.format("--validation", asked, direction, wanted))
        groups = held_out(records, is_kept, wanted)
        if not groups:
            raise UserError(
                f"{self._config.name} has only one source sentence of {direction}, which cannot be "
                "split into training and validation: pass --validation."
            )
        if self._config.validation and asked >= pairs:
            raise UserError(
                f"--validation {self._config.validation} would leave nothing to train on: there are"
                f" {pairs:,} pairs of {direction}."
            )
        rows = np.concatenate(groups)
        texts = self._store.pairs(rows.tolist())
        numbers = np.repeat(range(len(groups)), list(map(len, groups))).tolist()
        chosen: dict[Pair, int] = {}  # pair -> the first of its rows
        for _, pair, row in sorted(zip(numbers, texts, rows.tolist(), strict=True)):
            chosen.setdefault(pair, row)
        chosen = dict(islice(chosen.items(), wanted))
        held_out_rows = list(chosen.values())
        self._labels[held_out_rows] = HELD_OUT
        return list(chosen), records[held_out_rows]

    def _separate(self, given: Rows, direction: LanguagePair) -> tuple[list[Pair], np.ndarray]:
        """The different pairs of a validation source, or a sample, and the records of all."""
        most = self._config.validation_limit(self._directions)
        pairs, found = dict[int, Pair](), list[np.ndarray]()  # by hash, in the order of the source
        for batch, numbers in self._usable(given, "validation"):
            found.append(numbers)
            pairs |= zip(numbers["pair"].tolist(), batch, strict=True)
            if len(pairs) > most:  # keeps the pairs with the smallest hashes
                chosen = set(sorted(pairs)[:most])
                pairs = {number: pair for number, pair in pairs.items() if number in chosen}
        report, records = self.reports[-1], np.concatenate(found)
        different = len(np.unique(records["pair"]))
        if report.kept > different:
            report.dropped[REPEATED] = report.kept - different
        report.kept = len(pairs)
        if different > len(pairs):
            report.notices.append(SAMPLED.format(given.name, different, direction, len(pairs)))
        report.notices += check_direction(self._config.options, direction, given, pairs.values())
        return list(pairs.values()), records

    def _drop_excluded(self) -> None:
        """Drop the pairs with a sentence of an excluded source on either side.

        Raises NoSuchPair if one of the sources is not found in any direction.
        """
        config = self._config
        for name in config.exclude:
            records, missing = [], None
            for direction in config.requested:
                try:
                    rows = read_pairs(direction.fill(name), direction, config.options)
                    records += [numbers for _, numbers in self._usable(rows, "excluded")]
                except NoSuchPair as error:
                    missing = error
            if missing and not records:
                raise missing
            if missing and "{" in name:
                self.reports[0].notices.append(f"--exclude {name} lacks a direction: {missing}")
            self._drop_sentences(records, ALSO_IN_EXCLUDED)

    def _drop_pairs_of(self, held_out: list[np.ndarray], is_own: bool) -> None:
        """Drop the pairs of validation, given its records by direction.

        With one direction, all translations of its sources; if nothing is cleaned and validation is
        a source of its own (`is_own`), only the same pairs. With several, all pairs with one of its
        sentences on either side: in another direction, it is a source or a target.
        """
        if self._config.may_have_several:
            return self._drop_sentences(held_out, ALSO_IN_VALIDATION)
        (records,) = held_out
        column = "pair" if is_own and self._config.clean == "none" else "source"
        rows = rows_with(self._store.records[column], records[column], self._is_train)
        self._labels[rows] = LABELS[ALSO_IN_VALIDATION]
        return None

    def _drop_sentences(self, records: list[np.ndarray], reason: str) -> None:
        """Drop the pairs with a sentence of these records on either side."""
        sides = [each[side] for each in records for side in ("source", "target")]
        for side in ("source", "target"):
            rows = rows_with(self._store.records[side], np.concatenate(sides), self._is_train)
            self._labels[rows] = LABELS[reason]
