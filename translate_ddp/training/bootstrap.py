"""Intervals of scores, and tests of the difference between two systems, by sacreBLEU's bootstrap.

Sentences are drawn 1,000 times with replacement (Koehn 2004). The seed is sacreBLEU's: 12345, or
the variable SACREBLEU_SEED.
"""

from typing import Any, NamedTuple

from translate_ddp.text import normalize
from translate_ddp.training.metrics import Texts, bleu_of


class Interval(NamedTuple):
    """95 % of the resampled scores lie within `half_width` of their `mean`."""

    mean: float
    half_width: float


class Comparison(NamedTuple):
    """A score and that of a baseline on the same sentences."""

    score: float
    baseline: float
    p_value: float  # of a difference at least as large between equal systems


def score_intervals(predictions: Texts, references: Texts, language: str) -> dict[str, Interval]:
    """The intervals of BLEU and chrF, by name."""
    found = _resampled([predictions], references, language)
    return {
        name: Interval(float(result.mean), float(result.ci)) for name, (result,) in found.items()
    }


def compare(
    predictions: Texts, baseline: Texts, references: Texts, language: str
) -> dict[str, Comparison]:
    """BLEU and chrF of two systems, by name."""
    found = _resampled([baseline, predictions], references, language)
    # For systems without any difference sacreBLEU computes 1/1001, the p-value of a sure one.
    return {
        name: Comparison(new.score, old.score, 1.0 if new.score == old.score else new.p_value)
        for name, (old, new) in found.items()
    }


def _resampled(systems: list[Texts], references: Texts, language: str) -> dict[str, list[Any]]:
    """sacreBLEU's results of each system by metric; those after the first have a p-value."""
    from sacrebleu import CHRF
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Texts]] = [
        (str(number), list(map(normalize, texts))) for number, texts in enumerate(systems)
    ]
    metrics = {"BLEU": bleu_of(language), "chrF2": CHRF()}
    test = PairedTest(named, metrics, [list(map(normalize, references))], test_type="bs")
    _, results = test()
    return {"BLEU": results["BLEU"], "chrf": results["chrF2"]}
