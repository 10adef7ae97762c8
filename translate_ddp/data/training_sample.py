"""The lines on which a tokenizer is trained: a sample of a large corpus."""

import hashlib
import re
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

# The training of byte-level BPE takes about 90 bytes of memory per byte of distinct words, that of
# a unigram model about 18 per byte of text.
MAX_TEXT_BYTES = 24 * 2**20
MAX_LINES = 300_000
MAX_WORD_BYTES = 4_500_000
WORD = re.compile(r"[^\W\d_]+")  # letters, as in the words of byte-level BPE


class Line(NamedTuple):
    """A line with its place in the sample: lines with the largest hashes are dropped first."""

    drop_order: int  # minus the hash of the text
    number: int  # minus the number of the line
    text: bytes


def sample(lines: Iterable[str]) -> list[str]:
    """The lines, or so many of them that the training takes at most about 600 MB of memory.

    They are chosen by a hash of their text, so they are the same on every machine and in any order
    of the lines, and stay in their order.
    """
    kept = _with_most_text(lines)
    if sum(len(line.text) for line in kept) > MAX_WORD_BYTES:
        kept = _with_few_words(sorted(kept, reverse=True))
    return [line.text.decode() for line in sorted(kept, key=lambda line: -line.number)]


def _with_most_text(lines: Iterable[str]) -> list[Line]:
    """The lines with the smallest hashes: at most `MAX_LINES`, of `MAX_TEXT_BYTES` in total."""
    kept: list[Line] = []
    size, last = 0, -(2**64)
    for number, text in enumerate(lines):
        encoded = text.encode()
        digest = hashlib.blake2b(encoded, digest_size=8).digest()
        line = Line(-int.from_bytes(digest), -number, encoded)
        if line.drop_order < last:
            continue
        heappush(kept, line)
        size += len(encoded)
        while size > MAX_TEXT_BYTES or len(kept) > MAX_LINES:
            dropped = heappop(kept)
            last = dropped.drop_order
            size -= len(dropped.text)
    return kept


def _with_few_words(lines: list[Line]) -> list[Line]:
    """The first of the lines, whose distinct words have at most `MAX_WORD_BYTES` in total."""
    words: set[str] = set()
    size = 0
    for place, line in enumerate(lines):
        found = {*WORD.findall(line.text.decode())} - words
        words |= found
        size += sum(len(word.encode()) for word in found)
        if size > MAX_WORD_BYTES:
            return lines[:place]
    return lines
