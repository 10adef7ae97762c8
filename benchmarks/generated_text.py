"""Sentence pairs of invented words, some 200,000 a second on one core.

Frequencies of words follow Zipf's law, frequent words are short, and lengths of sentences have a
long tail, as in text of the web. A target is its source word by word in another invented language,
with a few words left out and a few inserted; numbers, addresses and emoji are equal on both sides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from tqdm import tqdm

TYPES = 200_000  # different words of a language
CHUNK_PAIRS = 10_000  # generated at once; another size gives another corpus

MEAN_WORDS, LOG_DEVIATION, MOST_WORDS = 20.0, 0.75, 250  # of a sentence; log-normal
LEFT_OUT, INSERTED = 0.05, 0.08  # shares of the source's words
EQUAL_EVERY = 40  # of the types, one is equal in both languages, in any case
FREQUENT_WORDS = EQUAL_EVERY - 1  # the ones that are inserted
NAME_EVERY = 15  # of the types, one always has a capital
SHOUTED = 0.01  # share of the sentences in upper case

DRAWS = 2**23  # entries of the table of words by frequency
SYLLABLES = 400
SOURCE_LETTERS = ("bcdfghklmnprstvwy", "aeiou", "nrstl")  # start, middle and end of syllables
TARGET_LETTERS = ("bcdfghklmnprstvwzß", "aeiouäöüéà", "nrsthç")

# Affixes of a word inside a sentence, with their shares, and of its last word.
INSIDE = [("", " ", 0.91), ("", ", ", 0.06), ("„", "“ ", 0.015), ("(", ") ", 0.015)]
LAST = [
    ("", ".\n", 0.8),
    ("", "?\n", 0.06),
    ("", "!\n", 0.04),
    ("", " …\n", 0.02),
    ("", "\n", 0.08),
]
ASCII_QUOTES = str.maketrans({"„": '"', "“": '"', "…": "..."})  # of the source

Lines = list[bytes]  # without line ends


@dataclass(frozen=True)
class Language:
    """The words and affixes of a language as rows of bytes, padded with NUL."""

    words: np.ndarray  # 3 * TYPES rows: as written, capitalized, in upper case
    prefixes: np.ndarray
    suffixes: np.ndarray

    @classmethod
    def invent(cls, letters: tuple[str, str, str], seed: int, ascii_only: bool) -> "Language":
        words = invent_words(letters, np.random.default_rng(seed))
        cases = [[case(word) for word in words] for case in (str, str.capitalize, str.upper)]
        for forms in cases:
            forms[EQUAL_EVERY - 1 :: EQUAL_EVERY] = words[EQUAL_EVERY - 1 :: EQUAL_EVERY]
        quotes = ASCII_QUOTES if ascii_only else {}
        kinds = INSIDE + LAST
        return cls(
            _rows(cases[0] + cases[1] + cases[2]),
            _rows([prefix.translate(quotes) for prefix, _, _ in kinds]),
            _rows([suffix.translate(quotes) for _, suffix, _ in kinds]),
        )

    def lines(self, words_T: np.ndarray, kinds_T: np.ndarray) -> Lines:
        """The sentences whose words are these rows, with these affixes."""
        parts = ((self.prefixes, kinds_T), (self.words, words_T), (self.suffixes, kinds_T))
        rows = np.concatenate([table.take(places, axis=0) for table, places in parts], axis=1)
        return rows.tobytes().translate(None, delete=b"\0").split(b"\n")[:-1]


def generate(pairs: int, seed: int = 0) -> Iterator[tuple[Lines, Lines]]:
    """Chunks of sources and targets, `pairs` in all; equal arguments give equal lines.

    One pair in a hundred thousand repeats by chance.
    """
    source, target = invent_languages()
    draws = draws_by_frequency()
    for chunk, start in enumerate(range(0, pairs, CHUNK_PAIRS)):
        random = np.random.default_rng([seed, chunk])
        yield _sentences(min(CHUNK_PAIRS, pairs - start), source, target, draws, random)


def write_corpus(files: Sequence[Path], pairs: int) -> None:
    """Write the sources and the targets to two files, with a progress bar. Raises OSError."""
    source, target = files
    with source.open("wb") as ours, target.open("wb") as theirs:
        for sides in tqdm(generate(pairs), total=-(-pairs // CHUNK_PAIRS)):
            for file, lines in zip((ours, theirs), sides, strict=True):
                file.write(b"\n".join(lines) + b"\n")


@cache
def invent_languages() -> tuple[Language, Language]:
    source = Language.invent(SOURCE_LETTERS, seed=1, ascii_only=True)
    return source, Language.invent(TARGET_LETTERS, seed=2, ascii_only=False)


@cache
def draws_by_frequency() -> np.ndarray:
    """Types, each as often as its share of the text: a uniform draw of an entry is a word."""
    shares = 1 / (np.arange(TYPES) + 2.7)  # Zipf's law in the form of Mandelbrot
    last = np.cumsum(shares / shares.sum()) * DRAWS
    return (
        np.searchsorted(last, np.arange(DRAWS), side="right").clip(max=TYPES - 1).astype(np.int32)
    )


def invent_words(letters: tuple[str, str, str], random: np.random.Generator) -> list[str]:
    """Different words by falling frequency; some are equal in all languages."""
    starts, middles, ends = letters
    syllables = [
        start + middle + end for start in starts for middle in middles for end in ("", *ends)
    ]
    chosen = random.permutation(syllables)[:SYLLABLES]
    words: dict[str, None] = {}  # in order, without duplicates
    while len(words) < TYPES:
        counts = random.integers(1, 5, TYPES)
        rows = (random.random((TYPES, 4)) ** 2 * len(chosen)).astype(np.int64)
        drawn = zip(counts.tolist(), chosen[rows].tolist(), strict=True)
        words |= dict.fromkeys("".join(row[:count]) for count, row in drawn)
    found = sorted(list(words)[:TYPES], key=len)
    # Each word moves by some ranks, more in the tail, so that long words are not all rare.
    ranks = np.arange(TYPES) * random.uniform(0.5, 2, TYPES)
    found = [found[place] for place in np.argsort(ranks)]
    found[NAME_EVERY // 2 :: NAME_EVERY] = map(str.capitalize, found[NAME_EVERY // 2 :: NAME_EVERY])
    found[EQUAL_EVERY - 1 :: EQUAL_EVERY] = map(_equal_word, range(TYPES // EQUAL_EVERY))
    return found


def _equal_word(number: int) -> str:
    """A word that translators keep: a number, an amount, a time, an address, an emoji."""
    kinds = [
        str(number),
        str(1900 + number % 150),
        f"{number / 100:.2f}",
        f"{number % 24:02}:{number % 60:02}",
        f"{number % 100}%",
        f"€{number}",
        f"www.ab{number}.org",
        chr(0x1F600 + number % 64),
    ]
    return kinds[number % len(kinds)]


def _rows(texts: list[str]) -> np.ndarray:
    encoded = np.array([text.encode() for text in texts])  # as wide as the longest
    return encoded.view(np.uint8).reshape(len(texts), -1)


def _sentences(
    count: int, source: Language, target: Language, draws: np.ndarray, random: np.random.Generator
) -> tuple[Lines, Lines]:
    """`count` sources and their targets."""
    center = np.log(MEAN_WORDS) - LOG_DEVIATION**2 / 2
    lengths_N = random.lognormal(center, LOG_DEVIATION, count).astype(np.int64) + 1
    lengths_N = lengths_N.clip(max=MOST_WORDS)
    types_T = draws[random.integers(0, DRAWS, lengths_N.sum(), dtype=np.int32)]
    kinds_N = _draw(LAST, count, random) + len(INSIDE)
    shouted_N = random.random(count) < SHOUTED

    # How often each word of the source is in the target. The last one is, so that none is empty.
    copies_T = np.ones(len(types_T), dtype=np.int64)
    chance_T = random.random(len(types_T), dtype=np.float32)
    copies_T[chance_T < LEFT_OUT] = 0
    copies_T[chance_T > 1 - INSERTED] = 2
    copies_T[types_T % EQUAL_EVERY == EQUAL_EVERY - 1] = 1
    lasts_N = np.cumsum(lengths_N) - 1
    copies_T[lasts_N] = 1
    theirs_T = np.repeat(types_T, copies_T)
    ends_T = np.cumsum(copies_T)
    inserted = ends_T[copies_T == 2] - 2  # the first of two equal words becomes another one
    theirs_T[inserted] = random.integers(0, FREQUENT_WORDS, len(inserted))

    ours = _write(source, types_T, lasts_N, kinds_N, shouted_N, random)
    return ours, _write(target, theirs_T, ends_T[lasts_N] - 1, kinds_N, shouted_N, random)


def _write(
    language: Language,
    types_T: np.ndarray,
    lasts_N: np.ndarray,
    kinds_N: np.ndarray,
    shouted_N: np.ndarray,
    random: np.random.Generator,
) -> Lines:
    """The sentences that end with these words, in mixed case and with punctuation."""
    kinds_T = _draw(INSIDE, len(types_T), random)
    kinds_T[lasts_N] = kinds_N
    firsts_N = np.concatenate([[0], lasts_N[:-1] + 1])
    lengths_N = lasts_N - firsts_N + 1
    words_T = types_T + 2 * TYPES * np.repeat(shouted_N, lengths_N)
    words_T[firsts_N] = types_T[firsts_N] + TYPES * (1 + shouted_N)
    return language.lines(words_T, kinds_T)


def _draw(
    kinds: list[tuple[str, str, float]], count: int, random: np.random.Generator
) -> np.ndarray:
    """The places of `count` of the kinds, each with its share."""
    bounds = np.cumsum([share for *_, share in kinds])[:-1]
    return np.searchsorted(bounds, random.random(count, dtype=np.float32))
