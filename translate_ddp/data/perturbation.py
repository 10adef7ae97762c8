"""Changes of source text as people type it: other case, no end punctuation, typos.

A model that has seen only edited text may answer such input with nonsense. The kinds and rates are
those of the modifiers of mozilla/translations. The target is not changed.

Axes: N rows, C draws of a row.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import repeat
from random import Random

import numpy as np

from translate_ddp.data.hashing import hashes, uniform
from translate_ddp.text import capital, lower, normalize, upper

LOWER, UPPER, TITLE = 0.15, 0.07, 0.05  # a sentence has one of them at most
NO_END_PUNCTUATION = 0.2  # this and the next two are independent of each other and of the case
TYPOS = 0.05
NOISE = 0.0005

RATES_C = np.array([LOWER + UPPER + TITLE, NO_END_PUNCTUATION, TYPOS, NOISE])

SALT = 0x706572  # keeps the draws apart from those of other modules
# Ends of sentences: Latin, CJK, Greek, Devanagari, Arabic, Urdu, Armenian, Ethiopic, Khmer,
# Burmese, Tibetan. A quotation mark or bracket behind them is left as it is.
END_PUNCTUATION = ".!?…‼⁇⁈⁉。．｡！？;।॥؟۔։።፧፨។៕၊။།"
WORD = re.compile(r"[^\W\d_]{4,}")  # for typos; shorter words would often become another word
NOISE_CHARACTERS = "#*+-/<=>@\\^_|~§°•→♥☺"


def draw(seed: int, epoch: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `perturb` does to each row in an epoch: its draws, one row each, and its key."""
    draws_NC = uniform(SALT, seed, epoch, rows[:, None], np.arange(len(RATES_C)))
    return draws_NC, hashes(SALT, seed, epoch, rows, len(RATES_C))


def perturb(text: str, draws: Sequence[float] | np.ndarray, key: int, language: str) -> str:
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


def perturb_lines(lines: Sequence[str], language: str) -> list[str]:
    """The lines, perturbed at the same rates, for a tokenizer to be trained on."""
    draws_NC, keys = draw(0, 0, np.arange(len(lines)))
    return list(map(perturb, lines, draws_NC, keys.tolist(), repeat(language)))


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
