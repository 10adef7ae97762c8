"""Compares an exported model with its checkpoint, and rejects it if it is not the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from translate_ddp.apps.exporting.sentences import Sentences
from translate_ddp.data.tokenizer import EOS, Tokenizer
from translate_ddp.errors import UserError
from translate_ddp.modeling.engine import Engine
from translate_ddp.settings import GREEDY
from translate_ddp.training.bootstrap import compare
from translate_ddp.training.metrics import bleu_signature, score_texts

TOLERANCE = 1e-4  # of a log-probability, in nats
MAX_BLEU_LOSS = 0.5  # of a model whose arithmetic is not fp32

Translations = list[list[int]]


@dataclass(frozen=True)
class Verification:
    """What was compared, and the scores of the exported model if there are references."""

    lines: list[str]
    scores: dict[str, float] = field(default_factory=dict)
    bleu_signature: str = ""
    notes: list[str] = field(default_factory=list)  # what was not compared, or does not work


class NotTheSame(UserError):
    """The exported model computes something else than its checkpoint."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The exported model is not the same as the checkpoint: {reason}. Nothing was written."
        )


def translate_greedily(engine: Engine, sentences: Sentences) -> Translations:
    return [best.ids for (best,) in engine.translate(sentences.sources, GREEDY)]


def verify_equal(
    model: Engine, exported: Engine, sentences: Sentences
) -> tuple[Translations, list[str]]:
    """The greedy translations of the exported model, and lines that say what is equal.

    Raises NotTheSame if a log-probability differs by `TOLERANCE`, or a translation for another
    reason than two best tokens that are as close.
    """
    ours, theirs = (translate_greedily(engine, sentences) for engine in (model, exported))
    long_sources, long_targets = sentences.longest
    sources = [*sentences.sources, *long_sources]
    targets = [*(sentences.targets or ours), *long_targets]
    expected, found = (engine.log_probs(sources, targets) for engine in (model, exported))
    worst, tokens = 0.0, sum(map(len, expected))
    for row, (p, q) in enumerate(zip(expected, found, strict=True)):
        difference = float(np.abs(p - q).max()) if len(p) == len(q) else np.inf
        if not difference < TOLERANCE:  # true for NaN
            raise NotTheSame(
                f"the log-probabilities of sentence {row + 1} differ by {difference:.1e}, more "
                f"than {TOLERANCE:.0e}"
            )
        worst = max(worst, difference)
    ties = _check_translations(model, sentences, ours, theirs)
    equal = f"greedy translations of {sentences.description} are equal"
    if ties:
        equal += f", but {ties} that differ at two best tokens within {TOLERANCE:.0e} nats"
    return theirs, [
        f"log-probabilities of {tokens:,} tokens are equal within {TOLERANCE:.0e} nats (the "
        f"largest difference is {worst:.0e})",
        equal,
    ]


def _check_translations(
    model: Engine, sentences: Sentences, ours: Translations, theirs: Translations
) -> int:
    """The number of translations that differ at tokens of equal probability.

    Raises NotTheSame if one differs for another reason.
    """
    rows = [row for row in range(len(ours)) if ours[row] != theirs[row]]
    first = {row: _first_difference(ours[row], theirs[row]) for row in rows}
    sources = [sentences.sources[row] for row in rows]
    # The [EOS] that `log_probs` scores after a whole translation may be the token that differs.
    p, q = (
        model.log_probs(sources, [found[row][: first[row] + 1] for row in rows])
        for found in (ours, theirs)
    )
    for row, p_T, q_T in zip(rows, p, q, strict=True):
        place = first[row]
        if not abs(float(p_T[place]) - float(q_T[place])) < TOLERANCE:
            raise NotTheSame(
                f"the greedy translations of sentence {row + 1} differ from token {place + 1} on, "
                f"where the log-probabilities of the two tokens are {p_T[place]:.4f} and "
                f"{q_T[place]:.4f}"
            )
    return len(rows)


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip([*one, EOS], [*other, EOS], strict=False))
    return next(place for place, (token, token_2) in pairs if token != token_2)


def verify_quality(
    model: Engine, exported: Engine, sentences: Sentences, tokenizer: Tokenizer, language: str
) -> tuple[Translations, list[str]]:
    """The greedy translations of the exported model, and lines on its BLEU beside the model's.

    The test is paired bootstrap resampling (Koehn 2004; sacreBLEU). Raises NotTheSame if the
    exported model loses more than `MAX_BLEU_LOSS`.
    """
    ours, theirs = (translate_greedily(engine, sentences) for engine in (model, exported))
    before, after = (tokenizer.decode(ids) for ids in (ours, theirs))
    bleu = compare(after, before, sentences.references, language)["BLEU"]
    line = (
        f"BLEU {bleu.baseline:.2f} of the checkpoint, {bleu.score:.2f} of the exported model on "
        f"{sentences.description} (p = {bleu.p_value:.3f}, paired bootstrap)"
    )
    if not bleu.baseline - bleu.score <= MAX_BLEU_LOSS:
        raise NotTheSame(f"{line}: a loss of more than {MAX_BLEU_LOSS}")
    return theirs, [line]


def verification_of(
    translations: Translations,
    lines: list[str],
    sentences: Sentences,
    decode: Callable[[Translations], list[str]],
    language: str,
) -> Verification:
    """The verification with the scores of the exported model's translations."""
    if not sentences.references:
        return Verification(lines)
    scores = score_texts(
        sentences.source_texts, decode(translations), sentences.references, language
    )
    return Verification(lines, scores, bleu_signature(language))
