"""An English-Italian corpus made by a small grammar: something to train on without a download."""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import cycle
from random import Random

from translate_ddp.data.demo.grammar import Pair
from translate_ddp.data.demo.patterns import PATTERNS

TRAIN_PAIRS, HELD_OUT_PAIRS = 13_000, 500  # the latter twice: validation and test
ENGLISH_WORDS, ITALIAN_WORDS = range(4, 17), range(3, 17)
FAMILIAR = 5  # occurrences in training of every word of a held-out pair
SEED = 2017


@dataclass(frozen=True)
class DemoCorpus:
    """Pairs of sentences; no sentence of either language occurs twice."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


def demo_corpus() -> DemoCorpus:
    """The demo corpus, the same in every process; it takes a second or two to make."""
    pairs = distinct_pairs(TRAIN_PAIRS + 2 * HELD_OUT_PAIRS)
    train, held_out = hold_out(pairs, 2 * HELD_OUT_PAIRS)
    return DemoCorpus(train, held_out[:HELD_OUT_PAIRS], held_out[HELD_OUT_PAIRS:])


def distinct_pairs(num_pairs: int) -> list[Pair]:
    """Pairs of every pattern in turn; a sentence seen before, or too long, is drawn again."""
    rng = Random(SEED)
    pairs: list[Pair] = []
    seen: set[str] = set()
    for pattern in cycle(PATTERNS):
        while not _has_fitting_length(pair := pattern(rng)) or not seen.isdisjoint(pair):
            pass
        pairs.append(pair)
        seen.update(pair)
        if len(pairs) == num_pairs:
            break
    return pairs


def _has_fitting_length(pair: Pair) -> bool:
    english, italian = pair
    return len(english.split()) in ENGLISH_WORDS and len(italian.split()) in ITALIAN_WORDS


def word_forms(sentence: str) -> list[str]:
    """The words of a sentence, in small letters; an elided one (l', un') counts for itself."""
    return re.findall(r"\w+'?", sentence.lower())


def hold_out(pairs: list[Pair], num_held_out: int) -> tuple[list[Pair], list[Pair]]:
    """The pairs to train on, and others whose every word stays `FAMILIAR` from training.

    Takes the first such pairs: the patterns come in turn, so these are as mixed as the whole.
    """
    forms = [Counter(word_forms(" ".join(pair))) for pair in pairs]
    left = Counter(form for pair_forms in forms for form in pair_forms.elements())
    train: list[Pair] = []
    held_out: list[Pair] = []
    for pair, own in zip(pairs, forms, strict=True):
        if len(held_out) < num_held_out and all(left[form] - own[form] >= FAMILIAR for form in own):
            held_out.append(pair)
            left.subtract(own)
        else:
            train.append(pair)
    return train, held_out
