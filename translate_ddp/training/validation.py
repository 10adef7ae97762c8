"""Decodes a validation set greedily and scores it, on rank 0 or on all ranks.

`validate` returns scores and texts, which commands print; `Validator` validates during training.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from translate_ddp.data.dataset import ParallelDataset, PreparedData
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import Stopped
from translate_ddp.modeling.engine import Engine, TorchEngine, ignore
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.long_calls import heartbeat
from translate_ddp.runtime.world import World
from translate_ddp.settings import GREEDY, NBestConfig, ValidateOn
from translate_ddp.text import normalize
from translate_ddp.training.logbook import Logbook, Sample
from translate_ddp.training.metrics import Texts, bleu_signature, score_texts


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
    predictions: list[str]  # normalized, as they are scored


class Shard(NamedTuple):
    """The predictions of one rank, and the loss of its rows."""

    rows: list[int]
    predictions: list[str]
    loss: float  # sum, in nats
    tokens: int


def validate(
    engine: Engine,
    data: ValidationSet,
    tokenizer: Tokenizer,
    world: World,
    on: ValidateOn,
    search: NBestConfig = GREEDY,
    *,
    on_decoded: Callable[[int], None] = ignore,
    on_loss: Callable[[int], None] = ignore,
) -> Validation:
    """Decode and score `data`. Every rank returns the same result.

    While rank 0 validates, the others wait without a time limit. `on_decoded` is called with the
    number of sentences after each batch that is decoded, then `on_loss` after each whose loss is
    computed; if one of them raises Stopped, all ranks do.
    """

    def work() -> Shard:
        rows = data.rows_of(world, on)
        sources, targets = (
            [side[row] for row in rows] for side in (data.pairs.source, data.pairs.target)
        )
        found = engine.translate(sources, search, on_decoded)
        predictions = tokenizer.decode([best.ids for best, *_ in found])
        log_probs = engine.log_probs(sources, targets, on_loss)
        loss = -sum(float(each.sum(dtype=np.float64)) for each in log_probs)
        return Shard(rows, predictions, loss, tokens=sum(map(len, log_probs)))

    if on == "rank0":
        return world.on_main("validating", lambda: _score([work()], data))
    shards = world.on_each_rank("validating", work)
    return world.on_main("scoring", lambda: _score(shards, data))


def _score(shards: Sequence[Shard], data: ValidationSet) -> Validation:
    predictions = [""] * len(data.references)
    for shard in shards:
        for row, prediction in zip(shard.rows, shard.predictions, strict=True):
            predictions[row] = normalize(prediction)
    loss = sum(shard.loss for shard in shards) / sum(shard.tokens for shard in shards)
    scores = {"loss": loss} | score_texts(data.sources, predictions, data.references, data.lang_tgt)
    return Validation(scores, predictions)


def samples_of(sources: Texts, references: Texts, predictions: Texts) -> list[Sample]:
    """A row for each sentence."""
    return [Sample(*texts) for texts in zip(sources, references, predictions, strict=True)]


@dataclass
class Validator:
    """Scores models on the validation set of a run, with a progress bar and heartbeats.

    Every rank calls it at the same steps.
    """

    data: ValidationSet
    tokenizer: Tokenizer
    on: ValidateOn
    max_tokens: int
    logbook: Logbook
    world: World
    _signature_shown: bool = field(default=False, init=False)

    def validate(self, model: Transformer, step: int) -> dict[str, float]:
        """The scores at this step; the translations are logged. Raises Stopped like `score`."""
        result = self.score(model, step)
        rows = samples_of(self.data.sources, self.data.references, result.predictions)
        self.logbook.validated(step, rows)
        return result.scores

    def score(self, model: Transformer, step: int) -> Validation:
        """Scores and translations at this step. Raises Stopped at a request to stop."""
        data, world, supervisor = self.data, self.world, self.world.supervisor
        supervisor.enter_phase("validating", step)
        total = len(data.rows_of(world, self.on))

        def on_batch(_: int) -> None:
            heartbeat()
            if supervisor.stop_reason is not None:
                raise Stopped  # the resumed run validates again

        def on_decoded(count: int) -> None:
            progress.advance(count)
            fault_point("validating")
            on_batch(count)

        with self.logbook.progress("validation", total=total) as progress:
            was_training = model.training
            engine = TorchEngine(model.eval(), world.device, self.max_tokens)
            result = validate(
                engine,
                data,
                self.tokenizer,
                world,
                self.on,
                on_decoded=on_decoded,
                on_loss=on_batch,
            )
            model.train(was_training)
            return result

    def show_signature(self) -> None:
        """Print BLEU's signature once, on rank 0."""
        if self.world.is_main and not self._signature_shown:
            self.logbook.message(f"BLEU signature: {bleu_signature(self.data.lang_tgt)}")
            self._signature_shown = True
