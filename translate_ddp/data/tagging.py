"""Tags: text before a source sentence that marks its dataset or the language to translate into.

Tags of synthetic datasets: Caswell et al. 2019. Those of languages are as in OPUS-MT.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from translate_ddp.corpus_settings import CorpusConfig
from translate_ddp.data.corpus import CleanedCorpus
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.perturbation import perturb_lines


def direction_tag(lang_tgt: str, is_bidirectional: bool) -> str:
    """`>>it<<`, the tag of sources that a bidirectional model translates into Italian; else ''."""
    return f">>{lang_tgt}<<" if is_bidirectional else ""


def prefix_of(*tags: str) -> str:
    """The text before a sentence with these tags, '' standing for none."""
    return "".join(f"{tag} " for tag in tags if tag)


def prefixes_of(config: CorpusConfig) -> list[list[str]]:
    """The text before the training sources of each dataset, for each direction."""
    targets = [config.lang_tgt, config.lang_src][: 1 + config.bidirectional]
    tags = config.tags or ("",) * len(config.dataset)
    return [
        [prefix_of(direction_tag(target, config.bidirectional), tag) for tag in tags]
        for target in targets
    ]


class TaggedCorpus:
    """The pairs of a cleaned corpus in all directions, with tags before their sources.

    Training has all datasets in the first direction, then all of them swapped in the second.
    """

    def __init__(self, corpus: CleanedCorpus, config: CorpusConfig) -> None:
        self._corpus, self._prefixes = corpus, prefixes_of(config)
        self._languages = config.languages
        self._validation_prefix = prefix_of(direction_tag(config.lang_tgt, config.bidirectional))

    @property
    def sizes(self) -> list[int]:
        """The training pairs of each dataset, then of each swapped one."""
        return self._corpus.sizes * len(self._prefixes)

    def training(self) -> Iterator[list[Pair]]:
        """The training pairs in batches, some of which may be empty."""
        for direction in range(len(self._prefixes)):
            yield from self.pairs(self._corpus.is_train, direction)

    def pairs(self, is_chosen: np.ndarray, direction: int = 0) -> Iterator[list[Pair]]:
        """The marked pairs in one direction, in batches, some of which may be empty."""
        for pairs, datasets in self._corpus.batches_of_datasets(is_chosen):
            sources = self._tagged([pair[direction] for pair in pairs], datasets, direction)
            yield [(src, pair[1 - direction]) for src, pair in zip(sources, pairs, strict=True)]

    def validation(self) -> list[Pair]:
        """The validation pairs, in the first direction. No dataset's tag is before them."""
        return [(self._validation_prefix + src, tgt) for src, tgt in self._corpus.validation()]

    def lines(self, is_chosen: np.ndarray, perturb: bool) -> Iterator[str]:
        """Both sides of the marked pairs, on which a tokenizer is trained.

        With `perturb`, those that are sources are perturbed as in training.
        """
        for pairs, datasets in self._corpus.batches_of_datasets(is_chosen):
            for side in range(2):
                texts = [pair[side] for pair in pairs]
                if side < len(self._prefixes):  # the sources of a direction
                    texts = perturb_lines(texts, self._languages[side]) if perturb else texts
                    texts = self._tagged(texts, datasets, side)
                yield from texts

    def _tagged(self, texts: list[str], datasets: list[int], direction: int) -> list[str]:
        """Sources of a direction; `datasets` has the number of the dataset of each."""
        prefixes = self._prefixes[direction]
        return [prefixes[number] + text for number, text in zip(datasets, texts, strict=True)]
