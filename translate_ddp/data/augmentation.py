"""Variants of the training pairs: sources as people type them.

The preparation encodes several variants of each pair beside the plain form, and each epoch draws
one of them. So the lengths of an epoch are exact, and a step only reads token ids. A variant is a
pure function of the pair, its row and the number of the variant: every machine writes the same.

Axes: N rows, C draws of a row.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from random import Random

import numpy as np

from translate_ddp.data.mix import hashes, uniform
from translate_ddp.text import lower, normalize, remove_end_punctuation, title, upper

# Small corpora are trained for 20 to 60 epochs, large ones for a few. With 8 variants, a sentence
# has 3 or 4 perturbed forms, while the preparation of 60,000 pairs takes some seconds longer.
# Together the variants of a corpus have at most 500,000 pairs (about 100 MB with sentences of 20
# tokens), which bounds time and disk; of a larger corpus, each pair has one variant. With one
# variant of the demo's pairs, plain sentences lose 1.0 chrF, and sentences as typed 0.9 to 1.4.
MAX_VARIANTS = 8
VARIANT_PAIRS = 500_000

LOWER, UPPER, TITLE = 0.15, 0.07, 0.05  # a sentence has one of them at most
NO_END_PUNCTUATION = 0.2  # this and the next two are independent of each other and of the case
TYPOS = 0.05
NOISE = 0.0005
RATES_C = np.array([LOWER + UPPER + TITLE, NO_END_PUNCTUATION, TYPOS, NOISE])
PERTURB_SALT = 0x706572  # keeps its draws apart from the draws of other modules

LONG_WORD = re.compile(r"[^\W\d_]{4,}")  # for typos; shorter words would often become another word
NOISE_CHARACTERS = "#*+-/<=>@\\^_|~§°•→♥☺"


def count_variants(pairs: int) -> int:
    """The number of variants of each of so many training pairs."""
    return min(max(VARIANT_PAIRS // max(pairs, 1), 1), MAX_VARIANTS)


def perturb_some(
    texts: Sequence[str], language: str, first_row: int = 0, number: int = 0
) -> dict[int, str]:
    """The texts that are perturbed in a variant of this number, by their place among `texts`."""
    rows, draws = np.arange(first_row, first_row + len(texts)), np.arange(len(RATES_C))
    draws_NC = uniform(PERTURB_SALT, number, rows[:, None], draws)
    keys = hashes(PERTURB_SALT, number, rows, len(RATES_C)).tolist()
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
    words = list(LONG_WORD.finditer(text))
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
