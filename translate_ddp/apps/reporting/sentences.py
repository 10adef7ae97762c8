"""Differences of translations from their references; scores of sentences and by length."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nsmallest
from itertools import groupby

import numpy as np

from translate_ddp.apps.reporting.page_template import MAX_CHARACTERS
from translate_ddp.apps.reporting.thinning import few
from translate_ddp.data.languages import script_of
from translate_ddp.run_record import TextRow
from translate_ddp.text import normalize
from translate_ddp.training.metrics import bleu, chrf

UNSPACED_SCRIPTS = ("CJK", "KANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
# Validation sets may have 100,000 sentences, and chrF takes a millisecond for a long one.
MAX_SCORED = 3000  # sentences
MAX_SCORED_CHARACTERS = 1000  # of each text
LENGTH_BINS = 6


@dataclass(frozen=True)
class ScoredRow:
    """A translation and its sentence chrF, 0 to 100."""

    score: float
    row: TextRow


@dataclass(frozen=True)
class LengthBin:
    """The scores of the sentences whose sources have so many words."""

    label: str  # such as 4–7
    sentences: int
    chrf: float
    bleu: float


def marked(reference: str, text: str) -> list[tuple[str, bool]]:
    """The parts of the text, and whether they differ from the reference.

    Words are compared, and single characters of scripts without blanks between words. The parts
    are those of the normalized text, up to the length that a page shows.
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
    """The words, signs and runs of blanks of a text, which they make up when joined.

    A character of a script without blanks between words is a word. Marks and joiners belong to
    what precedes them.
    """
    parts: list[str] = []
    previous = ""
    for character in text:
        kind = _kind(character)
        if parts and (kind == "mark" or kind == previous and kind in ("word", "blank")):
            parts[-1] += character
        else:
            parts.append(character)
            previous = kind
    return parts


def _kind(character: str) -> str:
    if character.isspace():
        return "blank"
    if character.isalnum():
        return "character" if script_of(character) in UNSPACED_SCRIPTS else "word"
    category = unicodedata.category(character)
    return "mark" if category.startswith("M") or category == "Cf" else "sign"


def worst(rows: Sequence[TextRow], count: int) -> list[ScoredRow]:
    """The rows with the lowest sentence chrF (sacreBLEU), lowest first.

    Of more than 3,000 rows, 3,000 are scored.
    """
    import sacrebleu  # takes a second

    metric = sacrebleu.CHRF()
    scored = (
        ScoredRow(metric.sentence_score(_scored(row[2]), [_scored(row[1])]).score, row)
        for row in few(rows, MAX_SCORED)
    )
    return nsmallest(count, scored, key=lambda each: each.score)


def by_length(rows: Sequence[TextRow], lang_tgt: str) -> list[LengthBin]:
    """The corpus scores of up to six groups of about equal size, by the words of the source.

    Of more than 3,000 rows, 3,000 are scored.
    """
    texts = [(_scored(src), _scored(tgt), _scored(out)) for src, tgt, out in few(rows, MAX_SCORED)]
    if not texts:
        return []
    words = np.array([_count_words(source) for source, _, _ in texts])
    quantiles = np.quantile(words, np.arange(1, LENGTH_BINS + 1) / LENGTH_BINS, method="higher")
    last = np.unique(quantiles)  # the most words of each group
    groups = np.searchsorted(last, words)
    members = [np.flatnonzero(groups == group) for group in range(len(last))]
    return [_bin(texts, words, of_group, lang_tgt) for of_group in members]


def _bin(
    texts: Sequence[TextRow], words: np.ndarray, members: np.ndarray, lang_tgt: str
) -> LengthBin:
    sources, references, translations = zip(*(texts[row] for row in members), strict=True)
    low, high = words[members].min(), words[members].max()
    return LengthBin(
        f"{low}" if low == high else f"{low}–{high}",
        len(members),
        chrf(sources, translations, references, lang_tgt),
        bleu(sources, translations, references, lang_tgt),
    )


def _count_words(text: str) -> int:
    """Words between blanks that have a letter or digit; of scripts without blanks, characters."""
    count = 0
    for part in text.split():
        kinds = list(map(_kind, part))
        count += kinds.count("character") + ("word" in kinds)
    return count


def _scored(text: str) -> str:
    return normalize(text)[:MAX_SCORED_CHARACTERS]
