"""Words of the corpus that are probably translations of each other.

Only pairs of words that are each other's best by Dice's coefficient, which needs no training: what
is missing here costs nothing, what is wrong would teach a wrong order (`span_pairs.py`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from translate_ddp.data.pair_store import Pair

MAX_WORDS = 50  # different words in a text; pairs with longer texts say little, and take long
MIN_PAIRS = 3  # in which two words stand together
MIN_DICE = 0.4  # Dice coefficient of two words: 1 if neither stands in a pair without the other

# A word between white space or punctuation, also with a hyphen, apostrophe or full stop in it.
WORD = re.compile(r"(?<![^\s(\[\"'«„“‘¿¡])\w+(?:[-'’.]\w+)*(?=[.,;:!?…)\]\"'»”’]*(?:\s|$))")

Lexicon = Mapping[str, str]  # words in lower case, source to target; no target word twice


def learn_lexicon(pairs: Iterable[Pair]) -> dict[str, str]:
    """The source words and their translations, in lower case, by the pairs in which both stand."""
    numbers = defaultdict[str, int](), defaultdict[str, int]()
    for ids in numbers:
        ids.default_factory = ids.__len__  # the next number
    columns: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    found = [np.zeros(0, dtype=np.int64)]
    for pair in pairs:
        words = [dict.fromkeys(WORD.findall(text.lower())) for text in pair]
        if max(map(len, words)) <= MAX_WORDS:
            for side, ids, column in zip(words, numbers, columns, strict=True):
                column.append(np.array([*map(ids.__getitem__, side)], np.int64))
            found.append((columns[0][-1][:, None] << 32 | columns[1][-1]).ravel())
    codes, together = np.unique(np.concatenate(found), return_counts=True)
    codes, together = codes[together >= MIN_PAIRS], together[together >= MIN_PAIRS]
    sides = codes >> 32, codes & 0xFFFFFFFF
    if not len(codes):
        return {}
    in_pairs = sum(
        np.bincount(np.concatenate(column))[side]
        for side, column in zip(sides, columns, strict=True)
    )
    dice = 2 * together / in_pairs
    order = np.lexsort((codes, -dice))
    best, reverse_best = (order[np.unique(side[order], return_index=True)[1]] for side in sides)
    mutual = np.intersect1d(best, reverse_best)
    words, translations = map(list, numbers)
    return {
        words[sides[0][at]]: translations[sides[1][at]]
        for at in mutual[dice[mutual] >= MIN_DICE].tolist()
    }
