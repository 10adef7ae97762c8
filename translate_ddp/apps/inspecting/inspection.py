"""Reads a corpus as training does, and collects what is known of it before training."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from translate_ddp.apps.inspecting.pace import Epoch, Pace, measure_pace, plan_first_epoch
from translate_ddp.apps.inspecting.strict import strict_losses
from translate_ddp.apps.inspecting.text_statistics import TextStatistics, measure
from translate_ddp.apps.inspecting.vocabulary import Vocabulary, build_vocabulary
from translate_ddp.data.corpus import CleanedCorpus, Report, clean_corpus
from translate_ddp.data.mix import Mix
from translate_ddp.data.pair_store import Pair, PairStore
from translate_ddp.data.selection import smallest, sorted_groups
from translate_ddp.settings import Config, CorpusConfig

SAMPLE_PAIRS = 200_000
SIDES = range(2)


@dataclass(frozen=True)
class Repetition:
    """The most frequent text of one side."""

    rows: int  # that have it
    of: int  # rows in all
    pair: Pair  # one of them


@dataclass(frozen=True)
class Inspection:
    """What is known of a corpus. Texts, vocabulary and plan are those of the sample."""

    config: Config
    suggested_preset: str
    reports: list[Report]  # of each dataset, then of validation if it has a source of its own
    pairs: int  # for training
    validation_pairs: int
    strict: Report | None  # what --clean strict would drop in addition; None: it is used
    texts: TextStatistics
    repetitions: tuple[Repetition, Repetition]  # of sources, and of targets
    vocabulary: Vocabulary
    epoch: Epoch | None  # None: no pair fits --seq_len
    pace: Pace | None  # None: not measured

    @property
    def is_sample(self) -> bool:
        return len(self.texts) < self.pairs

    @property
    def fit_share(self) -> float:
        """The share of the pairs that fit --seq_len."""
        return float(self.vocabulary.fits.mean())

    @property
    def training_seconds(self) -> float | None:
        """The estimated time of all epochs by one process, without validation and saving."""
        if self.pace is None or self.epoch is None:
            return None
        return self.config.train.num_epochs * self.epoch.tokens / self.pace.tokens_per_second


def inspect(
    corpus: CorpusConfig,
    settings: Callable[[int], tuple[Config, str]],
    folder: Path,
    seconds: float,
    shown: bool = True,
) -> Inspection:
    """Inspect a corpus; all files are written below `folder`.

    `settings` returns those for a number of training pairs, and the name of the suggested preset.
    `seconds` bounds the measured training steps; 0: none. Raises UserError if the corpus cannot be
    read, or the disk is full.
    """
    cleaned = clean_corpus(corpus, folder, shown, reported=False)
    pairs = sum(cleaned.sizes)
    config, suggested = settings(pairs)
    strict = strict_losses(cleaned, corpus, folder / "strict", shown)
    is_chosen = smallest(cleaned.hashes, np.asarray(cleaned.is_train), SAMPLE_PAIRS)
    sampled = int(is_chosen.sum())
    texts = measure(cleaned.batches(is_chosen), sampled, shown)
    vocabulary = build_vocabulary(cleaned, is_chosen, texts, config, folder, shown)
    epoch = pace = None
    if len(vocabulary.dataset):
        sizes = cleaned.sizes * (2 if corpus.bidirectional else 1)
        drawn = sum(Mix.of(config.mix, sizes, config.train.num_epochs).counts(0))
        fitting = round(drawn * len(vocabulary.dataset) / sampled)
        epoch = plan_first_epoch(vocabulary.dataset, fitting, config)
        pace = measure_pace(vocabulary, config, folder, seconds, shown) if seconds else None
    return Inspection(
        config,
        suggested,
        cleaned.reports,
        pairs,
        len(cleaned.validation()),
        strict,
        texts,
        (_repetition(cleaned, "source"), _repetition(cleaned, "target")),
        vocabulary,
        epoch,
        pace,
    )


def _repetition(corpus: CleanedCorpus, side: str) -> Repetition:
    """The most frequent text of a side in all usable rows, duplicates included."""
    store = PairStore(corpus.folder)
    rows, first = max(largest_groups(store.records[side]), key=lambda group: group[0])
    return Repetition(rows, len(store), store.pairs([first])[0])


def largest_groups(hashes: np.ndarray) -> Iterator[tuple[int, int]]:
    """The number of rows with the most frequent hash of each part, and the first of them."""
    for values, rows in sorted_groups(hashes, np.ones(len(hashes), dtype=bool)):
        starts = np.flatnonzero(np.diff(values, prepend=~values[:1]))
        sizes = np.diff(starts, append=len(values))
        if len(sizes):
            most = int(np.argmax(sizes))
            yield int(sizes[most]), int(rows[starts[most]])
