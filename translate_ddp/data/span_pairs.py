"""Training pairs with spans (`spans.py`), from which a model learns to place span tokens.

Spans that both sides share become MARKs. These are rare, so a share of the pairs also has set
spans: words that both sides share, or a span beside the text. All of it is a pure function of the
pair, its row and the number of its form: every machine encodes the same.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from translate_ddp.data.augmentation import END_PUNCTUATION
from translate_ddp.data.mix import hashes, uniform
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.tokenizer import SPAN_TOKENS
from translate_ddp.spans import MARK, find_spans
from translate_ddp.text import separates_words

SHARE = 0.1  # of the pairs that have set spans, in each form
MAX_WORDS = 3  # that are set spans in a pair
ENCLOSED = 1 / 3  # of them are between two MARKs, as in <b>word</b>
MIN_LETTERS = 5  # of a word that both sides do not share by chance
SALT = 0x7370616E  # keeps the draws apart from those of other modules

# A word between white space or punctuation, also with a hyphen, apostrophe or full stop in it.
WORD = re.compile(r"(?<![^\s(\[\"'«„“‘¿¡])\w+(?:[-'’.]\w+)*(?=[.,;:!?…)\]\"'»”’]*(?:\s|$))")

Place = tuple[int, int]  # where a part of a text starts and ends
Edit = tuple[int, int, str]  # a place, and the text with one MARK that replaces it


class MarkedPair(NamedTuple):
    """A pair with a MARK in the place of each span, and the numbers of their tokens in order."""

    texts: Pair
    numbers: tuple[Sequence[int], Sequence[int]] = ((), ())


class SpanPairs:
    """Pairs that follow each other in the corpus, and the spans that both sides have once."""

    def __init__(self, pairs: Sequence[Pair], languages: Sequence[str], first_row: int) -> None:
        self._pairs, self._languages = pairs, languages
        self._rows = np.arange(first_row, first_row + len(pairs))
        self._shared = [_shared(pair, map(_spans, pair)) for pair in pairs]

    def form(self, number: int) -> list[MarkedPair]:
        """The pairs with their spans as MARKs, and a share of the pairs with set spans.

        Forms differ in set spans and in the tokens of spans. A pair with more spans than there are
        tokens stays as it is.
        """
        is_set = uniform(SALT, number, self._rows, 0) < SHARE
        keys = hashes(SALT, number, self._rows, 1)
        columns = self._pairs, self._shared, is_set.tolist(), keys.tolist()
        return [
            self._marked(pair, shared, has_set, Random(key))
            if shared or has_set
            else MarkedPair(pair)
            for pair, shared, has_set, key in zip(*columns, strict=True)
        ]

    def _marked(
        self, pair: Pair, shared: Sequence[Sequence[Place]], has_set: bool, random: Random
    ) -> MarkedPair:
        numbers = random.sample(range(len(SPAN_TOKENS)), len(SPAN_TOKENS))
        own = [[(*place, MARK) for place in places] for places in shared]
        added = _set_spans(pair, self._languages, random) if has_set else []
        for spans in (own + added, own):
            if len(spans) <= len(SPAN_TOKENS):
                (source, of_source), (target, of_target) = (
                    _edited(text, [span[side] for span in spans], numbers)
                    for side, text in enumerate(pair)
                )
                if MARK * 2 not in f"{source} {target}":  # would be one token
                    return MarkedPair((source, target), (of_source, of_target))
        return MarkedPair(pair)


def _edited(text: str, edits: Sequence[Edit], numbers: Sequence[int]) -> tuple[str, list[int]]:
    """The text after the edits, of which each has its own number, and these in their order."""
    parts, at = list[str](), 0
    order = sorted(range(len(edits)), key=edits.__getitem__)
    for start, end, new in map(edits.__getitem__, order):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]]), [numbers[place] for place in order]


def _set_spans(pair: Pair, languages: Sequence[str], random: Random) -> list[list[Edit]]:
    """The edits of both sides for spans of one to three words, or for one beside the text."""
    texts = [_without_spans(text) for text in pair]
    words = [[word.span() for word in WORD.finditer(text)] for text in texts]
    names = [places for places in _shared(texts, words) if all(map(_is_name, texts, places))]
    spans = list[list[Edit]]()
    for places in random.sample(names, min(len(names), random.randint(1, MAX_WORDS))):
        if random.random() < ENCLOSED:
            spans += [[(place[end], place[end], MARK) for place in places] for end in range(2)]
        else:
            spans.append([(*place, MARK) for place in places])
    where = random.randrange(3)
    return spans or [[_beside(*side, where) for side in zip(texts, languages, strict=True)]]


def _is_name(text: str, place: Place) -> bool:
    """Whether a word that both sides share is probably meant to be the same."""
    word, before = text[slice(*place)], text[: place[0]]
    is_capital = word[0].isupper() and any(map(str.isalnum, before))  # not the first word
    return is_capital or any(map(str.isdigit, word)) or sum(map(str.isalpha, word)) >= MIN_LETTERS


def _beside(text: str, language: str, where: int) -> Edit:
    """A span at the start of the text, at its end, or before its final punctuation."""
    space = " " * separates_words(language)
    end = len(text.rstrip(END_PUNCTUATION + " ")) if where == 2 else len(text)
    return (end, end, space + MARK) if where and end else (0, 0, MARK + space)


def _spans(text: str) -> list[Place]:
    """The places of the spans of a text; adjacent ones are one, as a run of MARKs is one token."""
    found = list[Place]()
    for start, end in find_spans(text):
        if found and found[-1][1] == start:
            start, _ = found.pop()
        found.append((start, end))
    return found


def _without_spans(text: str) -> str:
    """The text with MARKs in the place of each character of a span."""
    for start, end in _spans(text):
        text = text[:start] + MARK * (end - start) + text[end:]
    return text


def _shared(texts: Sequence[str], places: Iterable[Sequence[Place]]) -> list[list[Place]]:
    """The places on both sides of what stands once at the places of each side."""
    once = list[dict[str, Place]]()
    for text, found in zip(texts, places, strict=True):
        parts = [text[start:end] for start, end in found]
        counts = Counter(parts)
        once.append({part: at for part, at in zip(parts, found, strict=True) if counts[part] == 1})
    return [[side[part] for side in once] for part in once[0] if part in once[1]]
