"""A line cut at the slices of its sentences."""

from collections.abc import Collection
from itertools import pairwise

from translate_ddp.data.sentences import find_sentences


def split_sentences(line: str, language: str = "", learnt: Collection[str] = ()) -> list[str]:
    """The sentences, and what is kept before, between and after them, without spaces."""
    found = find_sentences(line, language, learnt)
    bounds = [0, *(at for each in found for at in (each.start, each.stop)), len(line)]
    return [part for each in pairwise(bounds) if (part := line[slice(*each)].strip())]
