"""Decodes a validation set greedily and scores it, on rank 0 or on all ranks.

`validate` returns scores and texts; `Validator` validates during training.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

import numpy as np

from translate_ddp.data.dataset import PreparedData
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import Stopped
from translate_ddp.modeling.engine import Engine, TorchEngine, ignore
from translate_ddp.modeling.search_options import GREEDY
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.long_calls import heartbeat
from translate_ddp.runtime.world import World
from translate_ddp.settings import ValidateOn
from translate_ddp.text import normalize
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.logbook import Logbook, Sample
from translate_ddp.training.metrics import (
    OFF_TARGET,
    Texts,
    bleu_signature,
    score_texts,
    with_units,
)
from translate_ddp.training.open_checkpoint import average_run, listed, loaded
from translate_ddp.training.state import Position


def validation_rows(data: PreparedData) -> dict[LanguagePair, slice]:
    """The rows of each direction in the validation set."""
    ends = np.cumsum([0, *data.validation_sizes]).tolist()
    return dict(zip(data.facts.directions, map(slice, ends, ends[1:]), strict=True))


def rows_of(world: World, data: PreparedData, on: ValidateOn) -> list[int]:
    """The rows of this rank's shard; on "rank0", all rows, which rank 0 decodes."""
    rows = list(range(len(data.validation)))
    return rows if on == "rank0" else rows[world.rank :: world.size]


class Validation(NamedTuple):
    """The result of a validation, as plain values that can be sent between ranks."""

    scores: dict[str, float]  # metric -> score
    predictions: list[str]  # normalized, as they are scored


class Decoded(NamedTuple):
    """What the scores of a row are computed from."""

    prediction: str
    language: str  # as identified; "": not known
    loss: float  # sum over the tokens, in nats
    tokens: int


def validate(
    engine: Engine,
    data: PreparedData,
    world: World,
    on: ValidateOn,
    *,
    on_decoded: Callable[[int], None] = ignore,
    on_loss: Callable[[int], None] = ignore,
) -> Validation:
    """Decode and score the validation set. Every rank returns the same result.

    With several directions, a score is the mean of theirs, and each has its own, as en-it/BLEU.
    While rank 0 validates, the others wait without a time limit. `on_decoded` is called with the
    number of sentences after each batch that is decoded, then `on_loss` after each whose loss is
    computed; if one of them raises Stopped, all ranks do.
    """
    identifier = data.facts.identifier

    def work() -> dict[int, Decoded]:
        rows, pairs = rows_of(world, data, on), data.validation
        sources, targets = ([side[row] for row in rows] for side in (pairs.source, pairs.target))
        ids = [best.ids for best, *_ in engine.translate(sources, GREEDY, on_decoded)]
        languages = identifier.identify(ids) if identifier else [""] * len(ids)
        log_probs = engine.log_probs(sources, targets, on_loss)
        losses = (-float(each.sum(dtype=np.float64)) for each in log_probs)
        texts = map(normalize, data.facts.tokenizer.decode(ids))
        columns = texts, languages, losses, map(len, log_probs)
        return dict(zip(rows, map(Decoded, *columns), strict=True))

    if on == "rank0":
        return world.on_main("validating", lambda: _score([work()], data))
    shards = world.on_each_rank("validating", work)
    return world.on_main("scoring", lambda: _score(shards, data))


def _score(shards: Sequence[dict[int, Decoded]], data: PreparedData) -> Validation:
    decoded = [row for _, row in sorted(each for shard in shards for each in shard.items())]
    predictions = [row.prediction for row in decoded]
    found: dict[LanguagePair, dict[str, float]] = {}
    for pair, rows in validation_rows(data).items():
        part, references = decoded[rows], data.validation_references[rows]
        texts = data.validation_sources[rows], predictions[rows], references
        loss = sum(row.loss for row in part) / sum(row.tokens for row in part)
        found[pair] = {"loss": loss} | score_texts(*texts, pair.tgt)
        if data.facts.identifier:
            languages = [row.language for row in part if row.prediction]
            found[pair][OFF_TARGET] = off_target(languages, pair.tgt)
    if len(found) == 1:
        return Validation(*found.values(), predictions=predictions)
    names = dict.fromkeys(name for scores in found.values() for name in scores)
    means = {name: fmean(s[name] for s in found.values() if name in s) for name in names}
    own = {f"{pair}/{name}": s for pair, scores in found.items() for name, s in scores.items()}
    return Validation(means | own, predictions)


def off_target(languages: Sequence[str], target: str) -> float:
    """The share of these identified languages that are not the target; "" is unknown."""
    return sum(each not in ("", target) for each in languages) / max(len(languages), 1)


def samples_of(sources: Texts, references: Texts, predictions: Texts) -> list[Sample]:
    """A row for each sentence."""
    return [Sample(*texts) for texts in zip(sources, references, predictions, strict=True)]


@dataclass
class Validator:
    """Scores models on the validation set of a run, with a progress bar and heartbeats.

    Every rank calls it at the same steps.
    """

    data: PreparedData
    on: ValidateOn
    max_tokens: int
    logbook: Logbook
    world: World
    _signatures_shown: bool = field(default=False, init=False)

    def validate(self, model: Transformer, step: int) -> dict[str, float]:
        """The scores at this step; the translations are logged. Raises Stopped like `score`."""
        result = self.score(model, step)
        texts = self.data.validation_sources, self.data.validation_references
        self.logbook.validated(step, samples_of(*texts, result.predictions))
        return result.scores

    def score_average(
        self, model: Transformer, store: CheckpointStore, history: Sequence[str], ended: Position
    ) -> dict[str, float]:
        """The scores of the average that `translate` will use of a run that ends at a position.

        Empty if it will use the weights of one epoch. Raises Stopped like `score`.
        """
        average = average_run(model, store, history, ended, self.world)
        if average is None:
            return {}
        with loaded(model, average, self.world):
            scores = self.score(model, ended.global_step).scores
        found = f"average of epochs {listed(average.epochs)}: validation {with_units(scores)}"
        for line in [*average.messages, found]:
            self.logbook.message(line)
        return scores

    def score(self, model: Transformer, step: int) -> Validation:
        """Scores and translations at this step. Raises Stopped at a request to stop."""
        world, supervisor = self.world, self.world.supervisor
        supervisor.enter_phase("validating", step)
        total = len(rows_of(world, self.data, self.on))

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
                self.data,
                world,
                self.on,
                on_decoded=on_decoded,
                on_loss=on_batch,
            )
            model.train(was_training)
            return result

    def show_signatures(self) -> None:
        """Print BLEU's signatures once, on rank 0."""
        if self.world.is_main and not self._signatures_shown:
            for line in bleu_signature(*(pair.tgt for pair in self.data.facts.directions)).split(
                "\n"
            ):
                self.logbook.message(f"BLEU signature: {line}")
            self._signatures_shown = True
