"""The pairs of a cleaned corpus in all directions, with what stands before their sources."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise, repeat

import numpy as np

from translate_ddp.data.augmentation import perturb_some
from translate_ddp.data.cleaned_corpus import CleanedCorpus, Part
from translate_ddp.data.dataset import ParallelDataset
from translate_ddp.data.identifier import count_tokens
from translate_ddp.data.lexicon import Lexicon, learn_lexicon
from translate_ddp.data.mix import temperature_factors, uniform
from translate_ddp.data.pair_store import BATCH_PAIRS, Pair
from translate_ddp.data.selection import smallest
from translate_ddp.data.sentences import learn_abbreviations
from translate_ddp.data.tokenizer import MAX_LINES
from translate_ddp.settings import CorpusConfig, LanguagePair, languages_of
from translate_ddp.text import base_language, prefix_of

LEXICON_PAIRS = 20_000  # more take longer, and add rare words
SALT = 0x6C696E65  # keeps the draws apart from those of other modules


@dataclass(frozen=True)
class TaggedPairs:
    """A batch of pairs that follow each other in the corpus, in one direction."""

    pairs: list[Pair]
    prefixes: list[str]  # the datasets' tags before the sources, part of them; '' for none
    direction: LanguagePair
    tag: tuple[int, ...]  # token ids before the sources, which are not part of them
    first_row: int  # in the corpus


class TaggedCorpus:
    """The pairs of a cleaned corpus in all directions, with tags before their sources.

    Training has all parts of the corpus, then, if it is bidirectional, all of them swapped. Texts
    mark a synthetic dataset (Caswell et al. 2019), token ids the language to translate to (Johnson
    et al. 2017).
    """

    def __init__(self, corpus: CleanedCorpus, config: CorpusConfig) -> None:
        self._corpus, self._temperature = corpus, config.mix_temperature
        self._prefixes = [prefix_of(tag) for tag in config.tags] or [""] * len(config.dataset)
        self._orders = 1 + config.bidirectional
        forward = corpus.directions
        self.directions = forward + [each.reverse for each in forward] * config.bidirectional
        self.tags: list[tuple[int, ...]] = [()] * len(self.directions)  # token ids

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The numbers of direction and dataset of each block of training pairs, in order."""
        forward = self._corpus.directions
        numbers = [(forward.index(part.direction), part.dataset) for part in self._corpus.parts]
        orders = range(self._orders)
        return [(at + order * len(forward), number) for order in orders for at, number in numbers]

    @property
    def sizes(self) -> list[int]:
        """The training pairs of each block."""
        return self._corpus.sizes * self._orders

    @property
    def validation_sizes(self) -> list[int]:
        """The validation pairs of each direction."""
        return self._corpus.validation_sizes * self._orders

    def training(self) -> Iterator[TaggedPairs]:
        """The training pairs in batches, some of which may be empty."""
        first_row = 0
        for order in range(self._orders):
            for batch in self.pairs(self._corpus.is_train, order, first_row):
                yield batch
                first_row += len(batch.pairs)

    def pairs(
        self, is_chosen: np.ndarray, order: int = 0, first_row: int = 0
    ) -> Iterator[TaggedPairs]:
        """The marked pairs, swapped if `order` is 1, in batches, some of which may be empty."""
        blocks, half = self.blocks, len(self._corpus.parts)
        for pairs, numbers, _ in self._corpus.batches_of_parts(is_chosen):
            found = (blocks[number + order * half] for number in numbers.tolist())
            rows = zip(found, pairs, strict=True)
            for direction, run in groupby(rows, key=lambda row: row[0][0]):
                chosen = [(self._prefixes[dataset], pair) for (_, dataset), pair in run]
                tagged = [(prefix + pair[order], pair[1 - order]) for prefix, pair in chosen]
                prefixes = [prefix for prefix, _ in chosen]
                languages, tag = self.directions[direction], self.tags[direction]
                yield TaggedPairs(tagged, prefixes, languages, tag, first_row)
                first_row += len(tagged)

    def validation(self) -> Iterator[TaggedPairs]:
        """The validation pairs of each direction. No dataset's tag is before them."""
        ends = [0, *np.cumsum(self._corpus.validation_sizes).tolist()]
        pairs, forward = self._corpus.validation(), len(ends) - 1
        for number, direction in enumerate(self.directions):
            order, place = divmod(number, forward)
            for start in range(ends[place], ends[place + 1], BATCH_PAIRS):
                batch = pairs[start : min(start + BATCH_PAIRS, ends[place + 1])]
                turned = [(pair[order], pair[1 - order]) for pair in batch]
                yield TaggedPairs(turned, [""] * len(turned), direction, self.tags[number], 0)

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
        parts, hashed = self._corpus.parts, self._corpus.records["pair"]
        factors = self._language_factors(is_chosen)
        for pairs, numbers, rows in self._corpus.batches_of_parts(is_chosen):
            for side in range(2):
                found = [parts[number] for number in numbers.tolist()]
                texts = [pair[side] for pair in pairs]
                if side < self._orders:  # the sources of a direction
                    texts = self._as_sources(texts, found, side, perturb)
                copies = np.array([factors[part.direction[side]] for part in found])
                draws = uniform(SALT, side, hashed[rows])
                for text, count in zip(texts, (copies + draws).astype(int).tolist(), strict=True):
                    yield from repeat(text, count)

    def _as_sources(
        self, texts: list[str], parts: list[Part], side: int, perturb: bool
    ) -> list[str]:
        """Texts of these parts with the tags of their datasets, if need be perturbed."""
        changed: dict[int, str] = {}
        for language in {part.direction[side] for part in parts if perturb}:
            places = [at for at, part in enumerate(parts) if part.direction[side] == language]
            found = perturb_some([texts[at] for at in places], language)
            changed |= {places[at]: text for at, text in found.items()}
        rows = enumerate(zip(texts, parts, strict=True))
        return [self._prefixes[part.dataset] + changed.get(at, text) for at, (text, part) in rows]

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
        corpus, found = self._corpus, dict[LanguagePair, dict[str, str]]()
        for each in corpus.directions:
            rows = corpus.is_train & corpus.rows_in(each)
            chosen = smallest(corpus.records["pair"], rows, LEXICON_PAIRS)
            found[each] = learn_lexicon(chain.from_iterable(corpus.batches(chosen)))
        reverse = {each.reverse: {b: a for a, b in found[each].items()} for each in found}
        return {**reverse, **found}

    def learn_abbreviations(self, is_chosen: np.ndarray) -> dict[str, list[str]]:
        """Those in the marked pairs, by language of a source."""
        corpus, found = self._corpus, dict[str, list[str]]()
        for language in dict.fromkeys(base_language(each.src) for each in self.directions):
            texts = (
                pair[side]
                for each in corpus.directions
                for side, code in enumerate(each)
                if base_language(code) == language
                for pairs in corpus.batches(is_chosen & corpus.rows_in(each))
                for pair in pairs
            )
            found[language] = learn_abbreviations(texts)
        return found
