"""The words of a translation with their probabilities."""

import math
import re
from itertools import pairwise
from typing import NamedTuple

from translate_ddp.text import normalize, separates_words
from translate_ddp.translator import Translation


class Word(NamedTuple):
    """A word and the white space after it."""

    text: str
    probability: float  # product for all its tokens, given the source and the words before


def words_of(translation: Translation, language: str) -> list[Word]:
    """The words of a translation; their texts joined are its text.

    In languages without spaces between words, a word is what starts with a token.
    """
    text = translation.text
    if not text:
        return []
    log_probs, starts = _by_character(translation)
    if separates_words(language):
        starts = {found.end() for found in re.finditer(r"\s+(?=\S)", text)}
    return [
        Word(text[start:end], math.exp(sum(log_probs[start:end])))
        for start, end in pairwise([*sorted({0, *starts}), len(text)])
    ]


def _by_character(translation: Translation) -> tuple[list[float], set[int]]:
    """The log-probability of the tokens that start at each character, and where tokens start.

    The text of a token may not be found in the translation: bytes of a character, or a mark
    that NFC composes with the letter before. Its log-probability then counts for the character at
    which the search stands.
    """
    text = translation.text
    log_probs, starts = [0.0] * len(text), set[int]()
    at = skipped = 0  # the end of the last token that was found, and characters of others since
    for sentence in translation.sentences:
        # The last token is the end of the sentence.
        for token, log_prob in zip(sentence.tokens[:-1], sentence.log_probs[:-1], strict=True):
            while at < len(text) and text[at].isspace():
                at += 1
            core = normalize(token)
            found = text.find(core, at, at + skipped + len(core)) if core else -1
            place = min(at if found < 0 else found, len(text) - 1)
            log_probs[place] += log_prob
            starts.add(place)
            if found < 0:
                skipped += len(core)
            else:
                at, skipped = found + len(core), 0
    return log_probs, starts
