"""Variants of the training pairs: sources as people type them, and segmentations of BPE-dropout.

The preparation encodes several variants of each pair beside the plain form, and each epoch draws
one of them. So the lengths of an epoch are exact, and a step only reads token ids. A variant is a
pure function of the pair, its row and the number of the variant: every machine writes the same.

Axes: N rows, C draws of a row.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from random import Random
from zlib import crc32

import numpy as np

from translate_ddp.data.mix import hashes, uniform
from translate_ddp.data.tokenizer import Word
from translate_ddp.errors import UserError
from translate_ddp.text import lower, normalize, remove_end_punctuation, title, upper

# Small corpora are trained for 20 to 60 epochs, large ones for a few. With 8 variants, a sentence
# has 3 or 4 perturbed forms, and its words are segmented in 8 ways, while the preparation of 60,000
# pairs takes some seconds longer. Together the variants of a corpus have at most 500,000 pairs
# (about 100 MB with sentences of 20 tokens), which bounds time and disk; of a larger corpus, each
# pair has one variant.
MAX_VARIANTS = 8
VARIANT_PAIRS = 500_000

LOWER, UPPER, TITLE = 0.15, 0.07, 0.05  # a sentence has one of them at most
NO_END_PUNCTUATION = 0.2  # this and the next two are independent of each other and of the case
TYPOS = 0.05
NOISE = 0.0005
RATES_C = np.array([LOWER + UPPER + TITLE, NO_END_PUNCTUATION, TYPOS, NOISE])
PERTURBATION, DROPOUT = 0x706572, 0x64726F70  # keep the draws of the two apart

WORD = re.compile(r"[^\W\d_]{4,}")  # for typos; shorter words would often become another word
NOISE_CHARACTERS = "#*+-/<=>@\\^_|~§°•→♥☺"

SEGMENTATIONS = 16  # of a word, among which its places in the corpus choose
MAX_LETTERS = 64  # of a word; longer ones take long and are segmented plainly
CACHED_WORDS = 2**18  # segmentations that a process remembers
DRAWS = 2**16  # random numbers in a table: a generator with a seed for each word would take longer
# Properties of BPE whose letters are not those of the text, or whose words are not merged.
OTHER_BPE = ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")


def count_variants(pairs: int) -> int:
    """The number of variants of each of so many training pairs."""
    return min(max(VARIANT_PAIRS // max(pairs, 1), 1), MAX_VARIANTS)


def flatten(rows: Sequence[Sequence[Word]]) -> list[Word]:
    """The token ids of each row of words."""
    return [row[0] if len(row) == 1 else tuple(chain.from_iterable(row)) for row in rows]


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
        self._tokens = {token_id: token for token, token_id in self._ids.items()}
        self._probability = probability
        self._draws = uniform(DROPOUT, np.arange(DRAWS)).tolist()
        self._segment = lru_cache(CACHED_WORDS)(self.segment_word)

    def segment(self, rows: Sequence[Sequence[Word]], *key: int) -> list[list[Word]]:
        """The words of each row with dropped merges.

        For each word, a hash of the key and of its place chooses one of `SEGMENTATIONS`.
        """
        places = np.arange(sum(map(len, rows)))
        numbers = hashes(DROPOUT, *key, places) % np.uint64(SEGMENTATIONS)
        found = map(self._segment, chain.from_iterable(rows), numbers.tolist())
        return [list(islice(found, len(row))) for row in rows]

    def segment_word(self, word: Word, number: int) -> Word:
        """The tokens of a word in one of its segmentations, a pure function of word and number.

        The first of the merges that apply to the word is made, until there is none. Each time,
        every one of them is dropped with the probability. 0 gives the plain segmentation, 1 the
        letters.
        """
        tokens = list("".join(self._tokens.get(token_id, "") for token_id in word))
        # Added tokens are outside of the vocabulary, and unknown letters are not in it.
        if len(tokens) > MAX_LETTERS or not self._tokens.keys() >= {*word}:
            return word
        if not self._ids.keys() >= {*tokens}:
            return word
        place_in_draws = crc32(f"{number} {word}".encode())
        while True:
            best = len(self._ranks), 0
            for place, pair in enumerate(pairwise(tokens)):
                rank = self._ranks.get(pair)
                if rank is not None:
                    place_in_draws += 1
                    if self._draws[place_in_draws % DRAWS] >= self._probability:
                        best = min(best, (rank, place))
            rank, place = best
            if rank == len(self._ranks):
                return tuple(self._ids[token] for token in tokens)
            tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]


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
