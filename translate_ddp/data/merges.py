"""Byte pair encoding with dropped merges, of many words at once (Provilkov et al. 2020).

Libraries draw from generators that cannot be seeded, or not reproducibly across processes.

Axes: N words, L letters or tokens of a word.
"""

import json
from typing import Any

import numpy as np

MAX_LETTERS = 64  # of a word; longer ones are not segmented anew


class Merges:
    """The merges of a BPE tokenizer. A word is a sequence of its letters, here bytes."""

    def __init__(self, text: str) -> None:
        """Read the text of a tokenizer.json. Raises ValueError if it has no merges."""
        model = json.loads(text)["model"]
        if model["type"] != "BPE" or not model["merges"]:
            raise ValueError("it has no merges")
        self._ids: dict[str, int] = model["vocab"]
        self._tokens = {token_id: token for token, token_id in self._ids.items()}
        self.padding = max(self._tokens) + 1
        pairs = [merge if isinstance(merge, list) else merge.split() for merge in model["merges"]]
        keys = [self._key(self._ids[left], self._ids[right]) for left, right in pairs]
        self._ranks = np.argsort(keys)
        self._keys = np.array(keys)[self._ranks]
        self._merged = np.array([self._ids[left + right] for left, right in pairs])

    def letters(self, word: np.ndarray) -> list[int]:
        """The ids of the letters of a word of token ids; [] if one is not in the vocabulary."""
        tokens = word.tolist()
        if not self._tokens.keys() >= set(tokens):  # one was added, beside the vocabulary
            return []
        text = "".join(self._tokens[token_id] for token_id in tokens)
        found = [self._ids.get(letter, -1) for letter in text]
        return [] if -1 in found else found

    def segment(
        self, words_NL: np.ndarray, probability: float, random: np.random.Generator
    ) -> np.ndarray:
        """The tokens of each word, given its letters; both padded on the right with `padding`.

        The first of the merges that apply to a word is made, until there is none. Each time, every
        one of them is dropped with this probability. 0 gives the plain segmentation, 1 the letters.
        """
        words_NL = words_NL.copy()
        active = np.arange(len(words_NL))  # the words that may have another merge
        while len(active):
            current = words_NL[active]
            ranks = self._rank(current[:, :-1], current[:, 1:])
            ranks[random.random(ranks.shape) < probability] = len(self._merged)
            place = ranks.argmin(axis=1, keepdims=True)
            rank = np.take_along_axis(ranks, place, axis=1)
            merges = rank[:, 0] < len(self._merged)
            active, place, rank = active[merges], place[merges], rank[merges]
            words_NL[active] = self._merge(current[merges], place, self._merged[rank])
        return words_NL

    def _merge(self, words_NL: np.ndarray, place: np.ndarray, token: np.ndarray) -> np.ndarray:
        """The words with `token` in the place of the pair at `place`; both are columns."""
        columns = np.arange(words_NL.shape[1])
        ended = np.pad(words_NL, ((0, 0), (0, 1)), constant_values=self.padding)
        moved = np.take_along_axis(ended, columns + (columns > place), axis=1)
        return np.where(columns == place, token, moved)

    def _rank(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The rank of the merge of each pair of tokens; the number of merges if there is none."""
        keys = self._key(left, right)
        found = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return np.where(self._keys[found] == keys, self._ranks[found], len(self._merged))

    def _key(self, left: Any, right: Any) -> Any:
        return left * (self.padding + 1) + right
