"""Training pairs with spans (`spans.py`), from which a model learns to place span tokens.

Spans that both sides share become MARKs in half of the pairs, so that a model also knows them as
text, for programs without our decoding. They are rare: a share of the pairs also has set spans,
around a phrase, as tags are, in its place, as terms of a glossary are, before it, or beside the
text. A lexicon finds the phrases. All of it is a pure function of the pair, its row, the number of
its form and the lexicon: every machine encodes the same.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from random import Random
from typing import NamedTuple

import numpy as np

from translate_ddp.data.mix import hashes, uniform
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.tokenizer import SPAN_TOKENS
from translate_ddp.span_rules import find_spans
from translate_ddp.spans import MARK
from translate_ddp.text import END_PUNCTUATION, separates_words

MARKED = 0.5  # share of the pairs with own spans in which they become MARKs, in each form
SHARE = 0.1  # share of the pairs that get set spans, in each form
IN_TEXT = 2 / 3  # share of these with spans at phrases; the others have them beside the text
MAX_PHRASES = 3  # with set spans in a pair
MAX_WORDS = 3  # words of the lexicon in a phrase
MIN_LETTERS = 5  # shorter words may be on both sides by chance
SPANS_SALT = 0x7370616E  # keeps its draws apart from the draws of other modules

MAX_TEXT_WORDS = 50  # different words in a text; longer texts say little of translations
MIN_PAIRS = 3  # in which two words stand together
MIN_DICE = 0.4  # Dice coefficient of two words: 1 if neither stands in a pair without the other
# A word between white space or punctuation, also with a hyphen, apostrophe or full stop in it.
WORD = re.compile(r"(?<![^\s(\[\"'«„“‘¿¡])\w+(?:[-'’.]\w+)*(?=[.,;:!?…)\]\"'»”’]*(?:\s|$))")
Lexicon = Mapping[str, str]  # words in lower case, source to target; no target word twice
Place = tuple[int, int]  # where a part of a text starts and ends
Edit = tuple[int, int, str]  # a place, and the text with one MARK that replaces it


class MarkedPair(NamedTuple):
    """A pair with a MARK in the place of each span, and the numbers of their tokens in order."""

    texts: Pair
    numbers: tuple[Sequence[int], Sequence[int]] = ((), ())


class SpanPairs:
    """Pairs that follow each other in the corpus, and the spans that both sides have once."""

    def __init__(
        self, pairs: Sequence[Pair], languages: Sequence[str], first_row: int, lexicon: Lexicon
    ) -> None:
        self._pairs, self._languages, self._lexicon = pairs, languages, lexicon
        self._rows = np.arange(first_row, first_row + len(pairs))
        self._spans = cache(self._find)  # by row, for all its forms

    def form(self, number: int) -> list[MarkedPair]:
        """The pairs, a share of them with their spans as MARKs, and a share with set spans.

        Forms differ in set spans and in the tokens of spans. A pair with more spans than there are
        tokens stays as it is.
        """
        is_set = uniform(SPANS_SALT, number, self._rows, 0) < SHARE
        keys = hashes(SPANS_SALT, number, self._rows, 1)
        is_marked = uniform(SPANS_SALT, number, self._rows, 2) < MARKED
        marks = enumerate(is_marked.tolist())
        shared = [self._spans(row)[1] if mark else [] for row, mark in marks]
        columns = range(len(self._pairs)), shared, is_set.tolist(), keys.tolist()
        return [
            self._marked(row, shared, has_set, Random(key))
            if shared or has_set
            else MarkedPair(self._pairs[row])
            for row, shared, has_set, key in zip(*columns, strict=True)
        ]

    def _find(self, row: int) -> tuple[list[list[Place]], list[list[Place]]]:
        """The places of the spans on each side of a pair, and of the spans on both sides."""
        places = list(map(_spans, self._pairs[row]))
        return places, _shared(self._pairs[row], places) if all(places) else []

    def _marked(
        self, row: int, shared: Sequence[Sequence[Place]], has_set: bool, random: Random
    ) -> MarkedPair:
        pair = self._pairs[row]
        most = len(SPAN_TOKENS)
        numbers = random.sample(range(most), most if has_set else min(len(shared), most))
        own = [[(*place, MARK) for place in each] for each in shared]
        texts = list(map(_without_spans, pair, self._spans(row)[0])) if has_set else []
        added = _set_spans(texts, self._languages, self._lexicon, random) if has_set else []
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


def _set_spans(
    texts: Sequence[str], languages: Sequence[str], lexicon: Lexicon, random: Random
) -> list[list[Edit]]:
    """The edits of both sides for the spans of one to three phrases, or for one beside the text."""
    phrases = _phrases(texts, lexicon, random) if random.random() < IN_TEXT else []
    spaces = [" " * separates_words(language) for language in languages]
    spans = list[list[Edit]]()
    for places in phrases:
        match random.choice(["around", "around", "in place of", "before"]):
            case "around":
                spans += [[(place[end], place[end], MARK) for place in places] for end in range(2)]
            case "in place of":
                spans.append([(*place, MARK) for place in places])
            case _:
                sides = zip(places, spaces, strict=True)
                spans.append([(start, start, MARK + space) for (start, _), space in sides])
    where = random.randrange(3)
    return spans or [[_beside(*side, where) for side in zip(texts, spaces, strict=True)]]


def _phrases(texts: Sequence[str], lexicon: Lexicon, random: Random) -> list[list[Place]]:
    """The places on both sides of phrases with up to three words that the lexicon translates.

    A phrase is everything from its first word to its last, but no span; on the other side, too, it
    has no translated word that is not its own. Phrases do not overlap.
    """
    words = _translated(texts, lexicon)
    count = min(len(words), random.randint(1, MAX_PHRASES))
    starts = sorted(random.sample(range(len(words)), count))
    phrases = list[list[Place]]()
    for first, end in pairwise([*starts, len(words)]):
        for length in range(min(random.randint(1, MAX_WORDS), end - first), 0, -1):
            sides = list(zip(*words[first : first + length], strict=True))
            places = [(min(side)[0], max(side)[1]) for side in sides]
            start, stop = places[1]
            is_whole = sum(start <= place[0] < stop for _, place in words) == length
            has_span = any(MARK in t[slice(*at)] for t, at in zip(texts, places, strict=True))
            if is_whole and not has_span:
                phrases.append(places)
                break
    return phrases


def _translated(texts: Sequence[str], lexicon: Lexicon) -> list[tuple[Place, Place]]:
    """The places on both sides of words that stand once on each, in the order of the source.

    The lexicon has the one as the translation of the other, or both sides share a name.
    """
    sides = [[(word[0], word.span()) for word in WORD.finditer(text)] for text in texts]
    counts = [Counter(word.lower() for word, _ in side) for side in sides]
    others = {word.lower(): (word, place) for word, place in sides[1]}
    found = list[tuple[Place, Place]]()
    for word, place in sides[0]:
        lower = word.lower()
        translation = lexicon.get(lower, lower)
        if counts[0][lower] == counts[1][translation] == 1:
            other, there = others[translation]
            is_name = word == other and all(map(_is_name, texts, (place, there)))
            if lower in lexicon or is_name:
                found.append((place, there))
    return found


def _is_name(text: str, place: Place) -> bool:
    """Whether a word that both sides share is probably meant to be the same."""
    word, before = text[slice(*place)], text[: place[0]]
    is_capital = word[0].isupper() and any(map(str.isalnum, before))  # not the first word
    return is_capital or any(map(str.isdigit, word)) or sum(map(str.isalpha, word)) >= MIN_LETTERS


def _beside(text: str, space: str, where: int) -> Edit:
    """A span at the start of the text, at its end, or before its final punctuation."""
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


def _without_spans(text: str, places: Sequence[Place]) -> str:
    """The text with MARKs in the place of each character of a span."""
    for start, end in places:
        text = text[:start] + MARK * (end - start) + text[end:]
    return text


def _shared(texts: Sequence[str], places: Iterable[Sequence[Place]]) -> list[list[Place]]:
    """The places on both sides of what stands once at the places of each side."""
    once = list[dict[str, Place]]()
    for text, found in zip(texts, places, strict=True):
        parts = [text[start:end] for start, end in found]
        counts = Counter(parts) if len(parts) > 1 else dict.fromkeys(parts, 1)
        once.append({part: at for part, at in zip(parts, found, strict=True) if counts[part] == 1})
    return [[side[part] for side in once] for part in once[0] if part in once[1]]


# --- words that are probably translations of each other ---


def learn_lexicon(pairs: Iterable[Pair]) -> dict[str, str]:
    """The source words and their translations, in lower case, by the pairs in which both stand.

    Only words that are each other's best by Dice's coefficient, which needs no training: what is
    missing costs nothing, what is wrong would teach a wrong order.
    """
    numbers = defaultdict[str, int](), defaultdict[str, int]()
    for ids in numbers:
        ids.default_factory = ids.__len__  # the next number
    columns: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    found = [np.zeros(0, dtype=np.int64)]
    for pair in pairs:
        words = [dict.fromkeys(WORD.findall(text.lower())) for text in pair]
        if max(map(len, words)) <= MAX_TEXT_WORDS:
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
