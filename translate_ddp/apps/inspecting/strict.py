"""What the strict rules of cleaning would drop of the pairs that are kept."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from translate_ddp.data.corpus import CleanedCorpus, Cleaning, NoUsablePairs, Report
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.rows import Rows
from translate_ddp.settings import CorpusConfig


class StrictCleaning(Cleaning):
    """Cleans the training pairs of a cleaned corpus again, by the strict rules."""

    def __init__(self, config: CorpusConfig, folder: Path, shown: bool) -> None:
        folder.mkdir()
        super().__init__(replace(config, clean="strict"), folder, shown)

    def reports_on(self, corpus: CleanedCorpus) -> list[Report]:
        """What is dropped of the training pairs of each dataset. All rules see all pairs."""
        ends = np.cumsum(corpus.sizes)
        for name, end, size in zip(self._config.dataset, ends, corpus.sizes, strict=True):
            if size:
                self._read_again(corpus, name, int(end) - size, int(end))
        self._is_train = np.ones(len(self._store), dtype=bool)
        if len(self._store):
            self._drop_bad_rows()
        return self._reports

    def _read_again(self, corpus: CleanedCorpus, name: str, start: int, end: int) -> None:
        """Add the training pairs from `start` to `end`, in their order, that no row rule drops."""
        number = np.cumsum(corpus.is_train)
        is_chosen = corpus.is_train & (number > start) & (number <= end)

        def read(advance: Callable[[int], object]) -> Iterator[Pair]:
            for batch in corpus.batches(is_chosen):
                advance(len(batch))
                yield from batch

        try:
            self._read(Rows(f"{name}, with strict rules", end - start, read))
        except NoUsablePairs:  # every pair is dropped, as the report shows
            self._bounds.append(len(self._store))


def strict_losses(
    corpus: CleanedCorpus, config: CorpusConfig, folder: Path, shown: bool
) -> Report | None:
    """What `--clean strict` would drop in addition, all datasets together; None if it is used.

    `folder` is created, for copies of the pairs.
    """
    if config.clean == "strict":
        return None
    total = Report("--clean strict")
    for report in StrictCleaning(config, folder, shown).reports_on(corpus):
        total.rows += report.rows
        for reason, count in report.dropped.items():
            total.drop(reason, count, report.examples[reason])
    total.kept = total.rows - sum(total.dropped.values())
    return total
