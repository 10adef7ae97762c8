"""The scores of translations. To add one, add an entry to `METRICS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from translate_ddp.console import number
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError
from translate_ddp.text import (
    CHINESE,
    JAPANESE,
    UNSPACED_LANGUAGES,
    base_language,
    normalize,
    separates_words,
)

if TYPE_CHECKING:
    import sacrebleu

Texts = Sequence[str]

BLEU_TOKENIZERS: dict[str, str] = {
    **dict.fromkeys(UNSPACED_LANGUAGES, "char"),
    **dict.fromkeys(CHINESE, "zh"),
    **dict.fromkeys(JAPANESE, "ja-mecab"),
    "ko": "ko-mecab",
}


@dataclass(frozen=True)
class Metric:
    """One score of a whole validation set, logged as `validation/NAME`."""

    name: str
    unit: str
    higher_is_better: bool
    compute: Callable[[Texts, Texts, Texts, str], float] | None
    """Of sources, predictions, references and the target language; None for the loss, which the
    model computes."""
    of_words: bool = False
    """Whether it counts words, so that it is not computed for a language without spaces."""
    label: str = ""
    """Its name in reports, if it is another one."""

    def is_better(self, score: float, best: float) -> bool:
        """Whether `score` is better than `best`. Any score is better than NaN."""
        return best != best or (score > best if self.higher_is_better else score < best)


# sacreBLEU and jiwer are imported where they are used: they take a second, and training steps need
# neither.


def bleu(sources: Texts, predictions: Texts, references: Texts, language: str) -> float:
    """BLEU of detokenized, cased text, 0 to 100 (Papineni et al. 2002; sacreBLEU)."""
    return bleu_of(language).corpus_score(list(predictions), [list(references)]).score


def bleu_of(language: str) -> sacrebleu.BLEU:
    """sacreBLEU's BLEU with its tokenizer of the language.

    Without the optional dependencies sacrebleu[ja] and sacrebleu[ko], it compares characters of
    these languages.
    """
    import sacrebleu

    try:
        return sacrebleu.BLEU(tokenize=BLEU_TOKENIZERS.get(base_language(language), "13a"))
    except RuntimeError:  # an optional dependency is not installed
        return sacrebleu.BLEU(tokenize="char")


def chrf(sources: Texts, predictions: Texts, references: Texts, language: str) -> float:
    """chrF2, the F-score of character n-grams, 0 to 100 (Popovic 2015; sacreBLEU)."""
    import sacrebleu

    return sacrebleu.corpus_chrf(list(predictions), [list(references)]).score


def cer(sources: Texts, predictions: Texts, references: Texts, language: str) -> float:
    """Character error rate: edits per character of the references."""
    import jiwer

    return float(jiwer.cer(list(references), list(predictions)))


def wer(sources: Texts, predictions: Texts, references: Texts, language: str) -> float:
    """Word error rate: edits per word of the references."""
    import jiwer

    return float(jiwer.wer(list(references), list(predictions)))


def chrf_words(sources: Texts, predictions: Texts, references: Texts, language: str) -> float:
    """chrF2++, which also counts words and pairs of words, 0 to 100 (Popovic 2017; sacreBLEU)."""
    import sacrebleu

    return sacrebleu.corpus_chrf(list(predictions), [list(references)], word_order=2).score


def ter(sources: Texts, predictions: Texts, references: Texts, language: str) -> float:
    """Translation edit rate: edits and moves in percent of the words (Snover 2006; sacreBLEU)."""
    import sacrebleu

    return sacrebleu.corpus_ter(list(predictions), [list(references)]).score


OFF_TARGET = "off_target"  # 0 to 1; of models of several directions
METRICS = (
    Metric("loss", "nats/token", False, compute=None, label="loss (nats/token)"),  # not smoothed
    Metric("BLEU", "", higher_is_better=True, compute=bleu),
    Metric("chrf", "", higher_is_better=True, compute=chrf, label="chrF"),
    Metric("cer", "edits/character", higher_is_better=False, compute=cer, label="CER"),
    Metric("wer", "edits/word", higher_is_better=False, compute=wer, of_words=True, label="WER"),
)
# Not in the validations of training: TER takes longer than decoding.
SLOW_METRICS = (
    Metric("chrf++", "", higher_is_better=True, compute=chrf_words, of_words=True),
    Metric("ter", "%", higher_is_better=False, compute=ter, of_words=True),
)
TITLES = {metric.name: metric.label for metric in METRICS if metric.label} | {
    OFF_TARGET: "off-target share"
}
UNITS = {metric.name: metric.unit for metric in METRICS + SLOW_METRICS} | {
    "nll": "nats/token",
    "tokens_per_second": "tokens/s",
}


def with_units(scalars: Mapping[str, float]) -> str:
    """`loss 2.1 nats/token, BLEU 34.5, 2,447 tokens/s`, without scores of single directions."""
    return ", ".join(
        f"{number(value)} {UNITS[name]}"
        if name == "tokens_per_second"
        else f"{name} {number(value)} {UNITS.get(name, '')}".rstrip()
        for name, value in scalars.items()
        if "/" not in name
    )


def metrics_of(language: str, metrics: Sequence[Metric] | None = None) -> list[Metric]:
    """The metrics, by default all in training, that are computed for a target language."""
    among = METRICS if metrics is None else metrics
    return [metric for metric in among if separates_words(language) or not metric.of_words]


def find_metric(name: str, directions: Sequence[LanguagePair]) -> Metric:
    """The metric of that name, in any case; with several directions also of one: `en-it/BLEU`.

    "auto" is BLEU; of several directions chrF, which is steadier with their small validation sets.
    Raises UserError if no direction has it.
    """
    found = {each.name: each for pair in directions for each in metrics_of(pair.tgt)}
    names = ", ".join(found)
    if len(directions) > 1:
        own = {f"{pair}/{each.name}": each for pair in directions for each in metrics_of(pair.tgt)}
        found, names = found | own, f"{names}, or one of a direction, such as {[*own][0]}"
    if name == "auto":
        name = "chrf" if len(directions) > 1 else "BLEU"
    for known, metric in found.items():
        if known.lower() == name.lower():
            return replace(metric, name=known)
    languages = ", ".join(dict.fromkeys(pair.tgt for pair in directions))
    raise UserError(
        f"There is no validation metric {name!r} for the language {languages}: choose one of "
        f"{names}."
    )


def score_texts(
    sources: Texts,
    predictions: Texts,
    references: Texts,
    language: str,
    metrics: Sequence[Metric] | None = None,
) -> dict[str, float]:
    """The `metrics`, or all of training, of translations into `language`, by name.

    The texts are normalized before.
    """
    sources, predictions, references = (
        [normalize(text) for text in texts] for texts in (sources, predictions, references)
    )
    return {
        metric.name: float(metric.compute(sources, predictions, references, language))
        for metric in metrics_of(language, metrics)
        if metric.compute is not None
    }


def bleu_signature(*languages: str) -> str:
    """sacreBLEU's signature, with which a BLEU score can be compared to others.

    A line for each tokenizer of the languages.
    """
    metrics = list(map(bleu_of, languages))
    for metric in metrics:
        metric.corpus_score(["text"], [["text"]])  # it counts the references
    return "\n".join(dict.fromkeys(str(metric.get_signature()) for metric in metrics))


# --- intervals of scores, and tests of the difference between two systems ---

# By sacreBLEU's bootstrap: sentences are drawn 1,000 times with replacement (Koehn 2004). The seed
# is sacreBLEU's: 12345, or the variable SACREBLEU_SEED.


class Interval(NamedTuple):
    """95 % of the resampled scores lie within `half_width` of their `mean`."""

    mean: float
    half_width: float


class Comparison(NamedTuple):
    """A score and the score of a baseline on the same sentences."""

    score: float
    baseline: float
    p_value: float  # the probability that equal systems differ at least as much


def score_intervals(predictions: Texts, references: Texts, language: str) -> dict[str, Interval]:
    """The intervals of BLEU and chrF, by name."""
    found = _resampled([predictions], references, language)
    return {
        name: Interval(float(result.mean), float(result.ci)) for name, (result,) in found.items()
    }


def compare_systems(
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
