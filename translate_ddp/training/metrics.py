"""The scores of a validation. To add one, add an entry to `METRICS`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from translate_ddp.errors import UserError

Texts = Sequence[str]


@dataclass(frozen=True)
class Metric:
    """One score of a whole validation set, logged as `validation/NAME`."""

    name: str
    unit: str
    higher_is_better: bool
    compute: Callable[[Texts, Texts, Texts], float] | None
    """Of sources, predictions and references; None for the loss, which the model computes."""

    def is_better(self, score: float, best: float) -> bool:
        """Whether `score` is better than `best`. Any score is better than NaN."""
        return best != best or (score > best if self.higher_is_better else score < best)


# sacreBLEU and jiwer are imported where they are used: they take a second, and training steps need
# neither.


def bleu(sources: Texts, predictions: Texts, references: Texts) -> float:
    """BLEU of detokenized, cased text, 0 to 100 (Papineni et al. 2002; sacreBLEU)."""
    import sacrebleu

    return sacrebleu.corpus_bleu(list(predictions), [list(references)]).score


def chrf(sources: Texts, predictions: Texts, references: Texts) -> float:
    """chrF2, the F-score of character n-grams, 0 to 100 (Popovic 2015; sacreBLEU)."""
    import sacrebleu

    return sacrebleu.corpus_chrf(list(predictions), [list(references)]).score


def cer(sources: Texts, predictions: Texts, references: Texts) -> float:
    """Character error rate: edits per character of the references."""
    import jiwer

    return float(jiwer.cer(list(references), list(predictions)))


def wer(sources: Texts, predictions: Texts, references: Texts) -> float:
    """Word error rate: edits per word of the references."""
    import jiwer

    return float(jiwer.wer(list(references), list(predictions)))


METRICS = (
    Metric("loss", "nats/token", higher_is_better=False, compute=None),  # without label smoothing
    Metric("BLEU", "", higher_is_better=True, compute=bleu),
    Metric("chrf", "", higher_is_better=True, compute=chrf),
    Metric("cer", "edits/character", higher_is_better=False, compute=cer),
    Metric("wer", "edits/word", higher_is_better=False, compute=wer),
)
UNITS = {metric.name: metric.unit for metric in METRICS} | {
    "nll": "nats/token",
    "tokens_per_second": "tokens/s",
}


def find_metric(name: str) -> Metric:
    """The metric of that name, in any case. Raises UserError if there is none."""
    for metric in METRICS:
        if metric.name.lower() == name.lower():
            return metric
    names = ", ".join(metric.name for metric in METRICS)
    raise UserError(f"There is no validation metric {name!r}: choose one of {names}.")


def score_texts(sources: Texts, predictions: Texts, references: Texts) -> dict[str, float]:
    """Every metric of the texts, by name."""
    return {
        metric.name: float(metric.compute(sources, predictions, references))
        for metric in METRICS
        if metric.compute is not None
    }


def bleu_signature() -> str:
    """sacreBLEU's signature, with which a BLEU score can be compared to others."""
    import sacrebleu

    metric = sacrebleu.BLEU()
    metric.corpus_score(["text"], [["text"]])  # it counts the references
    return str(metric.get_signature())
