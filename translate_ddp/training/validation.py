"""How good the model is on the validation set: loss, BLEU, chrF, character and word error rate.

It returns scores and texts; where they are logged is not its business.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch

from translate_ddp.data.batches import split_into_passes
from translate_ddp.data.dataset import ParallelDataset
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.modeling.decoding import decode
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.loss import Objective
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World
from translate_ddp.settings import BatchConfig, ValidateOn

NUM_SAMPLES = 3  # translations shown at each validation


@dataclass(frozen=True)
class ValidationSet:
    pairs: ParallelDataset
    sources: list[str]
    references: list[str]


class TextScores(TypedDict):
    """Of predictions against references."""

    bleu: float  # 0 to 100
    chrf: float  # 0 to 100
    cer: float  # edits a character of the reference
    wer: float  # edits a word of the reference
    signature: str  # sacreBLEU's, of the BLEU score


class Scores(TextScores):
    """Of a whole validation set; plain values, so that they can travel between ranks."""

    loss: float  # nats a target token, no smoothing
    samples: list[tuple[str, str, str]]  # source, reference, prediction


class Part(TypedDict):
    """One rank's share of a validation."""

    rows: list[int]
    predictions: list[str]
    loss: float
    tokens: int


def validate(
    model: Transformer,
    data: ValidationSet,
    tokenizer: Tokenizer,
    world: World,
    on: ValidateOn,
    max_tokens: int,
    *,
    show: Sequence[int],
    on_done: Callable[[int], None] = lambda count: None,
) -> Scores:
    """Greedy-decode the validation set and score it, on rank 0 or spread over all ranks.

    Every rank gets the scores and the texts of the rows to `show`. While rank 0 works alone the
    others wait without a time limit. `on_done` may raise Stopped, which then all ranks do.
    """

    def work() -> Part:
        rows = validation_share(data, world, on)
        return _translate(
            ready_to_decode(model), data.pairs, rows, tokenizer, world, max_tokens, on_done
        )

    was_training = model.training
    model.eval()
    if on == "rank0":
        scores = world.on_main("validating", lambda: _merge([work()], data, show))
    else:
        parts = world.on_each_rank("validating", work)
        scores = world.on_main("scoring", lambda: _merge(parts, data, show))
    model.train(was_training)
    return scores


def validation_share(data: ValidationSet, world: World, on: ValidateOn) -> list[int]:
    """The rows of the validation set that this rank decodes, if it is asked to."""
    rows = list(range(len(data.pairs)))
    return rows if on == "rank0" else rows[world.rank :: world.size]


def score_texts(predictions: Sequence[str], references: Sequence[str]) -> TextScores:
    """BLEU with its signature, chrF, CER and WER of detokenized text."""
    import jiwer  # here: they take a second to import, and training steps need neither
    import sacrebleu

    metric = sacrebleu.BLEU()
    bleu = metric.corpus_score(list(predictions), [list(references)]).score
    return TextScores(
        bleu=bleu,
        chrf=sacrebleu.corpus_chrf(list(predictions), [list(references)]).score,
        cer=float(jiwer.cer(list(references), list(predictions))),
        wer=float(jiwer.wer(list(references), list(predictions))),
        signature=str(metric.get_signature()),
    )


def _translate(
    model: Transformer,
    pairs: ParallelDataset,
    rows: list[int],
    tokenizer: Tokenizer,
    world: World,
    max_tokens: int,
    on_done: Callable[[int], None],
) -> Part:
    found = decode(
        model.start,
        [pairs.source[row] for row in rows],
        world.device,
        max_tokens=max_tokens,
        on_done=on_done,
    )
    loss, tokens = _summed_loss(model, pairs, rows, max_tokens, world.device)
    return Part(
        rows=rows,
        predictions=tokenizer.decode([hypothesis.ids for hypothesis in found]),
        loss=loss,
        tokens=tokens,
    )


@torch.inference_mode()
def _summed_loss(
    model: Transformer,
    pairs: ParallelDataset,
    rows: list[int],
    max_tokens: int,
    device: torch.device,
) -> tuple[float, int]:
    by_length = sorted(rows, key=lambda row: (len(pairs.target[row]), len(pairs.source[row])))
    objective = Objective(model, label_smoothing=0.0)
    total, tokens = 0.0, 0
    # A pass of all positions takes more than the same tokens in a search, one position at a time.
    max_tokens = min(max_tokens, BatchConfig().pass_tokens(device.type))
    for batch in split_into_passes(pairs, np.array(by_length), max_tokens):
        total += float(objective(batch.to(device))["nll"])
        tokens += len(batch.labels_R)
    return total, tokens


def _merge(parts: Sequence[Part], data: ValidationSet, show: Sequence[int]) -> Scores:
    predictions = [""] * len(data.references)
    for part in parts:
        for row, prediction in zip(part["rows"], part["predictions"], strict=True):
            predictions[row] = prediction
    loss = sum(part["loss"] for part in parts) / sum(part["tokens"] for part in parts)
    samples = [(data.sources[row], data.references[row], predictions[row]) for row in show]
    return Scores(loss=loss, samples=samples, **score_texts(predictions, data.references))


def choose_samples(count: int, size: int, step: int) -> list[int]:
    """Rows to show of `size`: other ones each time, the same ones at every repetition."""
    random = np.random.default_rng([size, step])
    return sorted(random.choice(size, size=min(count, size), replace=False).tolist())


def as_metrics(scores: Scores) -> dict[str, float]:
    """Scores under the names they are logged by."""
    return {
        "validation/loss": scores["loss"],
        "validation/BLEU": scores["bleu"],
        "validation/chrf": scores["chrf"],
        "validation/cer": scores["cer"],
        "validation/wer": scores["wer"],
    }
