"""Sentence pairs of invented words, some 10,000 a second on one core.

Frequencies of words follow Zipf's law, frequent words are short, and lengths of sentences have a
long tail, as in text of the web. A target is its source word by word in another invented language,
without some of the words; numbers are equal on both sides.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

import numpy as np
from tqdm import tqdm

from benchmarks.preparers import Task

TYPES = 200_000  # different words of a language
CHUNK_PAIRS = 10_000  # generated at once; another size gives another corpus
MEAN_WORDS, LOG_DEVIATION, MOST_WORDS = 20.0, 0.75, 250  # of a sentence; log-normal
LEFT_OUT = 0.05  # share of the source's words
NUMBER_EVERY = 40  # of the types, one is a number
ENDS = np.array([".", ".", ".", ".", ".", ".", "?", "!", "", " ..."])
SOURCE_LETTERS = "bcdfghklmnprstvwy", "aeiou"
TARGET_LETTERS = "bcdfghklmnprstvwzßç", "aeiouäöüéà"


def generate(
    pairs: int, seed: int = 0, with_numbers: bool = False
) -> Iterator[list[tuple[str, str]]]:
    """Chunks of sources and targets, `pairs` in all; equal arguments give equal texts.

    `with_numbers`, each pair has one of four or five digits on both sides.
    """
    source, target = invent_words(SOURCE_LETTERS, 1), invent_words(TARGET_LETTERS, 2)
    shares = 1 / (np.arange(TYPES) + 2.7)  # Zipf's law in the form of Mandelbrot
    bounds = np.cumsum(shares / shares.sum())
    center = np.log(MEAN_WORDS) - LOG_DEVIATION**2 / 2
    for chunk, start in enumerate(range(0, pairs, CHUNK_PAIRS)):
        random = np.random.default_rng([seed, chunk])
        count = min(CHUNK_PAIRS, pairs - start)
        lengths = random.lognormal(center, LOG_DEVIATION, count).astype(int) + 1
        lasts = np.cumsum(lengths.clip(max=MOST_WORDS))
        types = np.searchsorted(bounds, random.random(lasts[-1])).clip(max=TYPES - 1)
        kept = random.random(len(types)) >= LEFT_OUT
        kept[lasts - 1] = True  # no target is empty
        kept[types % NUMBER_EVERY == NUMBER_EVERY - 1] = True
        ends = random.choice(ENDS, count)
        if with_numbers:
            numbers = random.integers(1000, 100_000, count).astype(str)
            ends = [f" {number}{end}" for number, end in zip(numbers, ends, strict=True)]
        ours, theirs = source[types], target[types]
        yield [
            (sentence(ours[first:last], end), sentence(theirs[first:last][kept[first:last]], end))
            for first, last, end in zip([0, *lasts[:-1]], lasts, ends, strict=True)
        ]


def sentence(words: np.ndarray, end: str) -> str:
    text = " ".join(words)
    return text[0].upper() + text[1:] + end


def write_corpus(task: Task, pairs: int, with_numbers: bool = False) -> None:
    """Write the corpus as parallel text and as jsonl, with a progress bar. Raises OSError."""
    languages = task.lang_src, task.lang_tgt
    with ExitStack() as stack:
        files = [
            stack.enter_context(path.open("w", encoding="utf-8"))
            for path in (*task.files, task.jsonl)
        ]
        for chunk in tqdm(
            generate(pairs, with_numbers=with_numbers), total=-(-pairs // CHUNK_PAIRS)
        ):
            for pair in chunk:
                content = {"translation": dict(zip(languages, pair, strict=True))}
                lines = (*pair, json.dumps(content, ensure_ascii=False))
                for file, line in zip(files, lines, strict=True):
                    file.write(f"{line}\n")


@cache
def invent_words(letters: tuple[str, str], seed: int) -> np.ndarray:
    """Different words by falling frequency, and some numbers, which all languages have."""
    random = np.random.default_rng(seed)
    consonants, vowels = (list(each) for each in letters)
    words: dict[str, None] = {}  # in order, without duplicates
    while len(words) < TYPES:
        parts = [random.choice(part, TYPES) for part in (consonants, vowels) * 4]
        syllables = random.integers(1, 5, TYPES)
        drawn = zip(syllables, *parts, strict=True)
        words |= dict.fromkeys("".join(row[: 2 * count]) for count, *row in drawn)
    found = np.array(sorted(list(words)[:TYPES], key=len), dtype=object)
    # Each word moves by some ranks, more in the tail, so that long words are not all rare.
    found = found[np.argsort(np.arange(TYPES) * random.uniform(0.5, 2, TYPES))]
    found[NUMBER_EVERY - 1 :: NUMBER_EVERY] = [str(n) for n in range(TYPES // NUMBER_EVERY)]
    return found
