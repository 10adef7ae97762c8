"""Decodes a validation set greedily and scores it, on rank 0 or on all ranks.

It returns scores and texts; the trainer and the commands log them.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import torch

from translate_ddp.data.batches import split_into_passes
from translate_ddp.data.dataset import ParallelDataset, PreparedData
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.modeling.decoding import decode
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.loss import Objective
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World
from translate_ddp.settings import GREEDY, BatchConfig, LossConfig, SearchConfig, ValidateOn
from translate_ddp.training.logbook import Sample
from translate_ddp.training.metrics import score_texts

NUM_SAMPLES = 3  # translations shown at each validation


@dataclass(frozen=True)
class ValidationSet:
    """Pairs to decode, encoded and as text."""

    pairs: ParallelDataset
    sources: list[str]
    references: list[str]
    lang_tgt: str

    @classmethod
    def of(cls, data: PreparedData, lang_tgt: str) -> "ValidationSet":
        """The validation set of a prepared corpus."""
        return cls(data.validation, data.validation_sources, data.validation_references, lang_tgt)

    def rows_of(self, world: World, on: ValidateOn) -> list[int]:
        """The rows of this rank's shard; on "rank0", those of rank 0, which decodes all."""
        rows = list(range(len(self.pairs)))
        return rows if on == "rank0" else rows[world.rank :: world.size]


class Validation(NamedTuple):
    """The result of a validation, as plain values that can be sent between ranks."""

    scores: dict[str, float]  # metric -> score
    samples: list[Sample]


class Shard(NamedTuple):
    """The predictions of one rank, and the loss of its rows."""

    rows: list[int]
    predictions: list[str]
    loss: float  # sum, in nats
    tokens: int


def validate(
    model: Transformer,
    data: ValidationSet,
    tokenizer: Tokenizer,
    world: World,
    on: ValidateOn,
    max_tokens: int,
    search: SearchConfig = GREEDY,
    *,
    on_done: Callable[[int], None] = lambda count: None,
) -> Validation:
    """Decode and score `data`. Every rank returns the same result.

    While rank 0 validates, the others wait without a time limit. `on_done` is called with the
    number of sentences after each batch; if it raises Stopped, all ranks do.
    """

    def work() -> Shard:
        rows = data.rows_of(world, on)
        return _decode(
            ready_to_decode(model), data.pairs, rows, tokenizer, world, max_tokens, search, on_done
        )

    was_training = model.training
    model.eval()
    if on == "rank0":
        result = world.on_main("validating", lambda: _score([work()], data))
    else:
        shards = world.on_each_rank("validating", work)
        result = world.on_main("scoring", lambda: _score(shards, data))
    model.train(was_training)
    return result


def _decode(
    model: Transformer,
    pairs: ParallelDataset,
    rows: list[int],
    tokenizer: Tokenizer,
    world: World,
    max_tokens: int,
    search: SearchConfig,
    on_done: Callable[[int], None],
) -> Shard:
    sources = [pairs.source[row] for row in rows]
    found = decode(
        model.start,
        sources,
        world.device,
        max_tokens=max_tokens,
        **asdict(search),
        on_done=on_done,
    )
    predictions = tokenizer.decode([hypothesis.ids for hypothesis in found])
    loss, tokens = _summed_loss(model, pairs, rows, max_tokens, world.device)
    return Shard(rows=rows, predictions=predictions, loss=loss, tokens=tokens)


@torch.inference_mode()
def _summed_loss(
    model: Transformer,
    pairs: ParallelDataset,
    rows: list[int],
    max_tokens: int,
    device: torch.device,
) -> tuple[float, int]:
    by_length = sorted(rows, key=lambda row: (len(pairs.target[row]), len(pairs.source[row])))
    objective = Objective(model, LossConfig(label_smoothing=0.0))
    total, tokens = 0.0, 0
    # A pass over all positions needs more memory than a search over the same tokens.
    max_tokens = min(max_tokens, BatchConfig().pass_tokens(device.type))
    for batch in split_into_passes(pairs.take(by_length), [len(by_length)], max_tokens):
        total += float(objective(batch.to(device))["loss"])
        tokens += len(batch.labels_R)
    return total, tokens


def _score(shards: Sequence[Shard], data: ValidationSet) -> Validation:
    predictions = [""] * len(data.references)
    for shard in shards:
        for row, prediction in zip(shard.rows, shard.predictions, strict=True):
            predictions[row] = prediction
    loss = sum(shard.loss for shard in shards) / sum(shard.tokens for shard in shards)
    scores = {"loss": loss} | score_texts(data.sources, predictions, data.references, data.lang_tgt)
    samples = [
        Sample(data.sources[row], data.references[row], predictions[row])
        for row in choose_samples(NUM_SAMPLES, len(predictions))
    ]
    return Validation(scores=scores, samples=samples)


def choose_samples(count: int, size: int) -> list[int]:
    """`count` random rows below `size`, the same at each validation, so that samples compare."""
    random = np.random.default_rng(size)
    return sorted(random.choice(size, size=min(count, size), replace=False).tolist())
