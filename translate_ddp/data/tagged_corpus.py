"""The pairs of a cleaned corpus, with what stands before their sources."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, repeat

import numpy as np

from translate_ddp.data.augmentation import perturb_some
from translate_ddp.data.cleaned_corpus import CleanedCorpus
from translate_ddp.data.dataset import ParallelDataset
from translate_ddp.data.identifier import count_tokens
from translate_ddp.data.mix import temperature_factors, uniform
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.selection import smallest
from translate_ddp.data.sentences import learn_abbreviations
from translate_ddp.data.span_pairs import Lexicon, learn_lexicon
from translate_ddp.data.tokenizer import MAX_LINES
from translate_ddp.directions import LanguagePair, languages_of
from translate_ddp.settings import CorpusConfig
from translate_ddp.text import base_language

LEXICON_PAIRS = 20_000  # more take longer, and add rare words
COPIES_SALT = 0x6C696E65  # keeps its draws apart from the draws of other modules


@dataclass(frozen=True)
class TaggedPairs:
    """A batch of pairs that follow each other in the corpus, in one direction."""

    pairs: list[Pair]
    prefix: str  # the text of the dataset's tag before the sources; '' for none
    direction: LanguagePair
    tag: tuple[int, ...]  # token ids before the sources and their prefix
    first_row: int  # in the corpus


class TaggedCorpus:
    """The pairs of a cleaned corpus, with tags before their sources.

    Texts mark a synthetic dataset (Caswell et al. 2019), token ids the language to translate to
    (Johnson et al. 2017).
    """

    def __init__(self, corpus: CleanedCorpus, config: CorpusConfig) -> None:
        self._corpus, self._temperature = corpus, config.mix_temperature
        tags = config.tags or [""] * len(config.dataset)
        self._prefixes = [f"{tag} " * bool(tag) for tag in tags]
        self.directions = corpus.directions
        self.tags: dict[LanguagePair, tuple[int, ...]] = {}  # token ids

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The numbers of direction and dataset of each block of training pairs, in order."""
        parts, directions = self._corpus.parts, self.directions
        return [(directions.index(part.direction), part.dataset) for part in parts]

    def pairs(self, is_chosen: np.ndarray) -> Iterator[TaggedPairs]:
        """The marked pairs in batches."""
        first_row = 0
        for (direction, dataset), pairs, _ in self._corpus.batches(is_chosen):
            prefix, tag = self._prefixes[dataset], self.tags.get(direction, ())
            yield TaggedPairs(pairs, prefix, direction, tag, first_row)
            first_row += len(pairs)

    def validation(self) -> Iterator[TaggedPairs]:
        """The validation pairs, a batch for each direction. No dataset's tag is before them."""
        pairs = iter(self._corpus.validation())
        for direction, count in zip(self.directions, self._corpus.validation_sizes, strict=True):
            own = list(islice(pairs, count))
            yield TaggedPairs(own, "", direction, self.tags.get(direction, ()), 0)

    def sample(self) -> np.ndarray:
        """Marks of the pairs on which a tokenizer is trained: more would take longer to read.

        Of each direction, in proportion to its pairs in an epoch.
        """
        corpus, is_chosen = self._corpus, np.zeros(len(self._corpus.is_train), dtype=bool)
        marks = lambda each: corpus.is_train & corpus.rows_in(each)  # noqa: E731
        sizes = np.array([marks(each).sum() for each in corpus.directions])
        wanted = sizes * temperature_factors(sizes, self._temperature)
        most = np.ceil(MAX_LINES * wanted / wanted.sum()).astype(int).tolist()
        for each, count in zip(corpus.directions, most, strict=True):
            is_chosen |= smallest(corpus.records["pair"], marks(each), count)
        return is_chosen

    def lines(self, is_chosen: np.ndarray, perturb: bool) -> Iterator[str]:
        """Both sides of the marked pairs, on which a tokenizer is trained.

        Those of small languages several times, by the temperature. With `perturb`, sources are
        perturbed as in training: otherwise upper case is spelled letter by letter, and the demo's
        sources have 41 tokens in upper case instead of 13.
        """
        factors, hashed = self._language_factors(is_chosen), self._corpus.records["pair"]
        for (direction, dataset), pairs, rows in self._corpus.batches(is_chosen):
            sources, targets = ([pair[side] for pair in pairs] for side in range(2))
            if perturb:
                changed = perturb_some(sources, direction.src)
                sources = [changed.get(row, text) for row, text in enumerate(sources)]
            sources = [self._prefixes[dataset] + text for text in sources]
            for side, texts in enumerate((sources, targets)):
                copies = factors[direction[side]] + uniform(COPIES_SALT, side, hashed[rows])
                for text, count in zip(texts, copies.astype(int).tolist(), strict=True):
                    yield from repeat(text, count)

    def _language_factors(self, is_chosen: np.ndarray) -> dict[str, float]:
        """How often a tokenizer sees the lines of each language, in the mean."""
        lines: Counter[str] = Counter()
        for direction in self._corpus.directions:
            pairs = int((is_chosen & self._corpus.rows_in(direction)).sum())
            lines.update(dict.fromkeys(direction, pairs))
        factors = temperature_factors(list(lines.values()), self._temperature)
        return dict(zip(lines, factors, strict=True))

    def count_tokens(
        self, pairs: ParallelDataset, sizes: Sequence[int], vocab_size: int
    ) -> np.ndarray:
        """How often each token stands in the training text of each language [L, V].

        These are the pairs that fit, of which each block has `sizes`.
        """
        languages = languages_of(self.directions)
        counts_LV = np.zeros((len(languages), vocab_size), dtype=np.int64)
        ends = [0, *np.cumsum(sizes).tolist()]
        for (number, _), (start, end) in zip(self.blocks, pairwise(ends), strict=True):
            for side, language in zip(
                (pairs.source, pairs.target), self.directions[number], strict=True
            ):
                ids = side.tokens[side.offsets[start] : side.offsets[end]]
                counts_LV[languages.index(language)] += count_tokens(ids, vocab_size)
        return counts_LV

    def learn_lexicons(self) -> dict[LanguagePair, Lexicon]:
        """The lexicon of each direction, of a fixed sample of its pairs."""
        corpus, found = self._corpus, dict[LanguagePair, Lexicon]()
        for each in corpus.directions:
            rows = corpus.is_train & corpus.rows_in(each)
            chosen = smallest(corpus.records["pair"], rows, LEXICON_PAIRS)
            batches = (pairs for _, pairs, _ in corpus.batches(chosen))
            found[each] = learn_lexicon(chain.from_iterable(batches))
        return found

    def learn_abbreviations(self, is_chosen: np.ndarray) -> dict[str, list[str]]:
        """The abbreviations in the marked sources, by language."""
        corpus, found = self._corpus, dict[str, list[str]]()
        for language in dict.fromkeys(base_language(each.src) for each in self.directions):
            texts = (
                source
                for each in self.directions
                if base_language(each.src) == language
                for _, pairs, _ in corpus.batches(is_chosen & corpus.rows_in(each))
                for source, _ in pairs
            )
            found[language] = learn_abbreviations(texts)
        return found
