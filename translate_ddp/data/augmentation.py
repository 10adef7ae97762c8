"""Variants of the training pairs: sources as people type them, and segmentations of BPE-dropout.

The preparation encodes several variants of each pair beside the plain form, and each epoch draws
one of them. So the lengths of an epoch are exact, and a step only reads token ids. A variant is a
pure function of the pair, its row and the number of the variant: every machine writes the same.

Axes: N rows, C draws of a row.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from random import Random

import numpy as np

from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.mix import hashes, uniform
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.tokenizer import Tokenizer, open_json
from translate_ddp.errors import UserError
from translate_ddp.settings import AugmentConfig
from translate_ddp.text import capital, lower, normalize, upper

# Every epoch draws the variant of a pair anew: 16 are enough that runs of 20 to 60 epochs, which
# small corpora need, seldom repeat one. Large corpora need fewer epochs. From about 60,000 pairs
# on, all variants together have about 1,000,000 pairs, which bounds their time and their disk use.
MAX_VARIANTS, MIN_VARIANTS = 16, 2
VARIANT_PAIRS = 1_000_000

LOWER, UPPER, TITLE = 0.15, 0.07, 0.05  # a sentence has one of them at most
NO_END_PUNCTUATION = 0.2  # this and the next two are independent of each other and of the case
TYPOS = 0.05
NOISE = 0.0005
RATES_C = np.array([LOWER + UPPER + TITLE, NO_END_PUNCTUATION, TYPOS, NOISE])
PERTURBATION, DROPOUT = 0x706572, 0x64726F70  # keep the draws of the two apart

# Ends of sentences: Latin, CJK, Greek, Devanagari, Arabic, Urdu, Armenian, Ethiopic, Khmer,
# Burmese, Tibetan. A quotation mark or bracket behind them is left as it is.
END_PUNCTUATION = ".!?…‼⁇⁈⁉。．｡！？;।॥؟۔։።፧፨៕၊။།"
WORD = re.compile(r"[^\W\d_]{4,}")  # for typos; shorter words would often become another word
NOISE_CHARACTERS = "#*+-/<=>@\\^_|~§°•→♥☺"

SEGMENTATIONS = 16  # of a word, among which its places in the corpus choose
MAX_LETTERS = 64  # of a word; longer ones take long and are segmented plainly
CACHED_WORDS = 2**18  # segmentations that a process remembers
# Properties of BPE whose letters are not those of the text, or whose words are not merged.
OTHER_BPE = ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")


def count_variants(pairs: int) -> int:
    """The number of variants of each of so many training pairs."""
    return min(max(VARIANT_PAIRS // max(pairs, 1), MIN_VARIANTS), MAX_VARIANTS)


class Augmenter:
    """Encodes the variants of batches of pairs, in a worker process."""

    def __init__(
        self, config: AugmentConfig, num_variants: int, tokenizer: Tokenizer, seq_len: int
    ) -> None:
        """Raises UserError for BPE-dropout with a tokenizer without usable merges."""
        self._perturb, self._num_variants = config.perturb, num_variants
        self._tokenizer, self._seq_len = tokenizer, seq_len
        self._merges = Merges(tokenizer.text, config.bpe_dropout) if config.bpe_dropout else None

    def variants(
        self,
        pairs: Sequence[Pair],
        prefixes: Sequence[str],
        language: str,
        first_row: int,
        plain: Sequence[list[list[int]]],
    ) -> ParallelDataset:
        """All pairs in the first variant, then all in the second, and so on.

        `prefixes` are the tags before the sources, '' for none, `plain` the token ids of both
        sides, and `first_row` the row of the first pair in the corpus. A sentence whose variant
        would have `seq_len` tokens or more, end marker included, is plain in it.
        """
        texts = [[pair[side] for pair in pairs] for side in range(2)]
        sources = [text.removeprefix(tags) for text, tags in zip(texts[0], prefixes, strict=True)]
        words = [[], []] if self._merges is None else list(map(self._merges.words, texts, plain))
        sides: tuple[list[list[int]], list[list[int]]] = ([], [])
        for number in range(self._num_variants):
            ids, source_words = list(plain[0]), list(words[0])
            if self._perturb:
                changed = perturb_some(sources, language, first_row, number)
                changed = {place: prefixes[place] + text for place, text in changed.items()}
                self._replace(changed, ids, source_words)
            found = [ids, plain[1]]
            if self._merges is not None:
                keys = number, first_row
                found[0] = self._merges.segment(source_words, ids, 0, *keys)
                found[1] = self._merges.segment(words[1], plain[1], 1, *keys)
            for rows, before, side in zip(found, plain, sides, strict=True):
                fits = (0 < len(row) < self._seq_len for row in rows)
                side += [
                    row if fit else old for row, fit, old in zip(rows, fits, before, strict=True)
                ]
        return ParallelDataset(*map(Ragged.of, sides))

    def _replace(
        self, changed: dict[int, str], ids: list[list[int]], words: list[list[str]]
    ) -> None:
        """Put the ids and the words of changed sources into their places."""
        encoded = self._tokenizer.encode(list(changed.values()))
        for place, row in zip(changed, encoded, strict=True):
            ids[place] = row
        if self._merges is not None:
            found = self._merges.words(changed.values(), encoded)
            for place, row in zip(changed, found, strict=True):
                words[place] = row


class Merges:
    """The merges of a BPE tokenizer, some of which are dropped (Provilkov et al. 2020).

    The library `tokenizers` can drop merges, too, but draws from a generator without a seed.
    """

    def __init__(self, text: str, probability: float) -> None:
        """Read the text of a tokenizer.json. Raises UserError if it is not usable BPE."""
        model = json.loads(text).get("model", {})  # a SentencePiece model has none
        is_other = any(model.get(name) for name in OTHER_BPE)
        if model.get("type") != "BPE" or not model["merges"] or is_other:
            raise UserError(
                "--bpe_dropout needs a tokenizer of byte-level BPE: leave bpe_dropout at 0, or "
                "pass --tokenizer bpe without --tokenizer_file."
            )
        merges = (each.split(" ") if isinstance(each, str) else each for each in model["merges"])
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}
        self._ids: dict[str, int] = model["vocab"]
        library = open_json(text)
        self._normalizer, self._splitter = library.normalizer, library.pre_tokenizer
        self._model, self._probability = library.model, probability
        self._plain = lru_cache(CACHED_WORDS)(self._plain_word)
        self._segment = lru_cache(CACHED_WORDS)(self.segment_word)

    def words(self, texts: Iterable[str], ids: Iterable[list[int]]) -> list[list[str]]:
        """The words of each text as the model receives them, in letters that may stand for bytes.

        A text whose `ids` are not those of its words, such as one with an added token, has none.
        """
        found = [self._split(text) for text in texts]
        plain = (chain.from_iterable(map(self._plain, words)) for words in found)
        return [
            words if list(tokens) == row else []
            for words, tokens, row in zip(found, plain, ids, strict=True)
        ]

    def segment(
        self, words: Sequence[list[str]], plain: Sequence[list[int]], *key: int
    ) -> list[list[int]]:
        """The token ids of rows of words, with dropped merges; without words, those of `plain`.

        For each word, a hash of the key and of its place chooses one of `SEGMENTATIONS`.
        """
        places = np.arange(sum(map(len, words)))
        numbers = hashes(DROPOUT, *key, places) % np.uint64(SEGMENTATIONS)
        found = map(self._segment, chain.from_iterable(words), numbers.tolist())
        return [
            list(chain.from_iterable(islice(found, len(row)))) if row else ids
            for row, ids in zip(words, plain, strict=True)
        ]

    def segment_word(self, word: str, number: int) -> tuple[int, ...]:
        """The tokens of a word in one of its segmentations.

        The first of the merges that apply to the word is made, until there is none. Each time,
        every one of them is dropped with the probability. 0 gives the plain segmentation, 1 the
        letters.
        """
        if len(word) > MAX_LETTERS or not all(letter in self._ids for letter in word):
            return self._plain(word)
        tokens, random = list(word), Random(f"{number} {word}")
        while True:
            merges = [
                (rank, place)
                for place, pair in enumerate(pairwise(tokens))
                if (rank := self._ranks.get(pair)) is not None
                and random.random() >= self._probability
            ]
            if not merges:
                return tuple(self._ids[token] for token in tokens)
            _, place = min(merges)
            tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]

    def _split(self, text: str) -> list[str]:
        text = text if self._normalizer is None else self._normalizer.normalize_str(text)
        if self._splitter is None:
            return [text]
        return [word for word, _ in self._splitter.pre_tokenize_str(text)]

    def _plain_word(self, word: str) -> tuple[int, ...]:
        return tuple(token.id for token in self._model.tokenize(word))


def perturb_some(
    texts: Sequence[str], language: str, first_row: int = 0, number: int = 0
) -> dict[int, str]:
    """The texts that are perturbed in a variant of this number, by their place among `texts`."""
    rows, draws = np.arange(first_row, first_row + len(texts)), np.arange(len(RATES_C))
    draws_NC = uniform(PERTURBATION, number, rows[:, None], draws)
    keys = hashes(PERTURBATION, number, rows, len(RATES_C)).tolist()
    places = np.flatnonzero((draws_NC < RATES_C).any(axis=1)).tolist()
    chosen = draws_NC[places].tolist()
    return {
        place: perturb(texts[place], draws_C, keys[place], language)
        for place, draws_C in zip(places, chosen, strict=True)
    }


def perturb(text: str, draws: Sequence[float], key: int, language: str) -> str:
    """The text changed according to its four draws in [0, 1); `key` chooses places and letters."""
    case, punctuation, typos, noise = draws
    if noise < NOISE:
        text = add_noise(text, Random(key))
    if typos < TYPOS:
        text = add_typos(text, Random(key))
    if punctuation < NO_END_PUNCTUATION:
        text = remove_end_punctuation(text)
    if case < CASE_ENDS[-1]:
        text = CASES[bisect_right(CASE_ENDS, case)](text, language)
    return normalize(text)  # in upper case, a composed letter may have a mark of its own


def remove_end_punctuation(text: str) -> str:
    """The text without the punctuation at its end, unless it is nothing else."""
    return text.rstrip(END_PUNCTUATION + " ") or text


def title(text: str, language: str) -> str:
    """The text with the first letter of each word in upper case."""
    return re.sub(r"(?<!\S)\w", lambda letter: capital(letter[0], language), text)


def add_typos(text: str, random: Random) -> str:
    """The text with a typo in one or two of its words of four or more letters.

    A typo swaps a letter with the next one, omits it or doubles it.
    """
    words = list(WORD.finditer(text))
    chosen = random.sample(words, min(len(words), random.choice((1, 2))))
    for word in sorted(chosen, key=re.Match.end, reverse=True):
        at = random.randrange(word.start(), word.end() - 1)
        one, two = text[at : at + 2]
        text = text[:at] + random.choice((two + one, two, one + one + two)) + text[at + 2 :]
    return text


def add_noise(text: str, random: Random) -> str:
    """The text with one to four random characters before or after one of its words."""
    words = text.split(" ")
    noise = "".join(random.choices(NOISE_CHARACTERS, k=random.randint(1, 4)))
    words.insert(random.randint(0, len(words)), noise)
    return " ".join(words)


CASES = (lower, upper, title)
CASE_ENDS = (LOWER, LOWER + UPPER, LOWER + UPPER + TITLE)  # a draw is below the end of its case
