"""Differences of translations from their references, and the sentences with the lowest scores."""

import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from heapq import nsmallest
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np

from translate_ddp.apps.reporting.page_template import MAX_CHARACTERS
from translate_ddp.data.languages import script_of
from translate_ddp.run_record import TextRow
from translate_ddp.text import normalize

T = TypeVar("T")

UNSPACED_SCRIPTS = ("CJK", "KANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
# Validation sets may have 100,000 sentences, and chrF takes a millisecond for a long one.
MAX_SCORED = 3000  # sentences
MAX_SCORED_CHARACTERS = 1000  # at the start of each text


def marked(reference: str, text: str) -> list[tuple[str, bool]]:
    """The parts of the text, and whether they differ from the reference.

    Words are compared, and single characters of scripts without spaces between words. The parts
    make up the normalized text, up to the length that a page shows.
    """
    reference, text = normalize(reference), normalize(text)
    parts = split_words(text[:MAX_CHARACTERS])
    places = [place for place, part in enumerate(parts) if not part.isspace()]
    # Cut, too: the time grows with the product of both lengths.
    known = [part for part in split_words(reference[: 2 * MAX_CHARACTERS]) if not part.isspace()]
    matcher = SequenceMatcher(None, known, [parts[place] for place in places], autojunk=False)
    differs = [True] * len(parts)
    for _, start, size in matcher.get_matching_blocks():
        for place in places[start : start + size]:
            differs[place] = False
    if len(text) > MAX_CHARACTERS:
        parts.append("…")
        differs[-1:] = [False, False]  # half a word
    for place, part in enumerate(parts):
        if part.isspace():  # differs between two words that do
            differs[place] = all(differs[max(place - 1, 0) : place + 2])
    return [
        ("".join(part for part, _ in group), differ)
        for differ, group in groupby(zip(parts, differs, strict=True), key=lambda each: each[1])
    ]


def split_words(text: str) -> list[str]:
    """The words, signs and runs of spaces of a text, which they make up when joined.

    A character of a script without spaces between words is a word. Marks and joiners belong to
    what precedes them.
    """
    parts: list[str] = []
    previous = ""
    for character in text:
        kind = _kind(character)
        if parts and (kind == "mark" or kind == previous and kind in ("word", "space")):
            parts[-1] += character
        else:
            parts.append(character)
            previous = kind
    return parts


def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    if character.isalnum():
        return "character" if script_of(character) in UNSPACED_SCRIPTS else "word"
    category = unicodedata.category(character)
    return "mark" if category.startswith("M") or category == "Cf" else "sign"


def worst(rows: Sequence[TextRow], count: int) -> list[tuple[float, TextRow]]:
    """The lowest values of sentence chrF (sacreBLEU, 0 to 100) with their rows, lowest first.

    Of more than 3,000 rows, 3,000 are scored.
    """
    import sacrebleu  # takes a second

    metric = sacrebleu.CHRF()
    scored = (
        (metric.sentence_score(_scored(row[2]), [_scored(row[1])]).score, row)
        for row in few(rows, MAX_SCORED)
    )
    return nsmallest(count, scored, key=itemgetter(0))


def _scored(text: str) -> str:
    return normalize(text)[:MAX_SCORED_CHARACTERS]


def few(items: Sequence[T], count: int) -> list[T]:
    """At most `count` items: the first, the last, and others at about equal distances."""
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[place] for place in places.tolist()]
