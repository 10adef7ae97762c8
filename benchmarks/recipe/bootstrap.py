"""Differences of BLEU with intervals, by paired bootstrap resampling (Koehn 2004) of sentences.

A score of several seeds is the mean of their BLEU. A resample takes the same sentences for every
seed of both systems: the interval covers the choice of sentences, not of seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

RESAMPLES = 1000
ORDERS = 4  # of n-grams


@dataclass(frozen=True)
class Difference:
    """A mean difference, the bounds of its 95 % interval, and a two-sided p-value."""

    mean: float
    low: float
    high: float
    p: float


def sentence_counts(
    metric: sacrebleu.BLEU, hypotheses: Sequence[str], references: Sequence[str]
) -> np.ndarray:
    """A row per sentence: matches and totals of each order, and both lengths. BLEU adds them."""
    scores = [
        metric.corpus_score([hypothesis], [[reference]])
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])


def bleu_of(counts: np.ndarray) -> float:
    """BLEU of summed rows of `sentence_counts`."""
    matches, totals, (length, reference) = np.split(counts, (ORDERS, 2 * ORDERS))
    return BLEU.compute_bleu(matches.tolist(), totals.tolist(), int(length), int(reference)).score


def compare(system: Sequence[np.ndarray], baseline: Sequence[np.ndarray]) -> Difference:
    """The difference of two systems, each given as the counts of every seed."""
    sentences = len(system[0])
    draws = np.random.default_rng(0).integers(sentences, size=(RESAMPLES, sentences))

    def scores(seeds: Sequence[np.ndarray]) -> np.ndarray:
        return np.mean([[bleu_of(s[rows].sum(0)) for rows in draws] for s in seeds], axis=0)

    found = np.mean([bleu_of(s.sum(0)) for s in system])
    mean = float(found - np.mean([bleu_of(s.sum(0)) for s in baseline]))
    resampled = scores(system) - scores(baseline)
    low, high = np.quantile(resampled, (0.025, 0.975))
    # How often chance alone, the resamples around their mean, differs as much.
    more = np.sum(np.abs(resampled - resampled.mean()) >= abs(mean))
    return Difference(mean, float(low), float(high), float((more + 1) / (RESAMPLES + 1)))
