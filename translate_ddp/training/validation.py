"""Decodes a validation set greedily and scores it, on rank 0 or on all ranks.

`validate` returns scores and texts, which commands print; `Validator` validates during training,
on a sample if the whole set would take long.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

import numpy as np

from translate_ddp.data.dataset import Lengths, ParallelDataset, PreparedData
from translate_ddp.data.identifier import Identifier
from translate_ddp.data.mix import hashes
from translate_ddp.data.plan import StepSampler
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import Stopped, UserError
from translate_ddp.modeling.engine import Engine, TorchEngine, ignore
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.long_calls import heartbeat
from translate_ddp.runtime.world import World
from translate_ddp.settings import GREEDY, LanguagePair, ValidateOn
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
from translate_ddp.training.open_checkpoint import average_run, epoch_of_run, listed, loaded
from translate_ddp.training.state import Position

MAX_SHARE = 0.2  # of the tokens of a sample among those of training between two validations
MIN_SAMPLE = 100  # pairs of each direction
SALT = 0x76616C  # keeps the draws apart from those of other modules


@dataclass(frozen=True)
class ValidationSet:
    """Pairs to decode, encoded and as text."""

    pairs: ParallelDataset
    sources: list[str]
    references: list[str]
    sizes: Mapping[LanguagePair, int]  # rows of each direction, which follow each other

    @classmethod
    def of(cls, data: PreparedData) -> "ValidationSet":
        """The validation set of a prepared corpus."""
        sizes = dict(zip(data.facts.directions, data.validation_sizes, strict=True))
        return cls(data.validation, data.validation_sources, data.validation_references, sizes)

    @property
    def directions(self) -> list[tuple[LanguagePair, slice]]:
        """Each direction and its rows."""
        ends = np.cumsum([0, *self.sizes.values()]).tolist()
        return list(zip(self.sizes, map(slice, ends, ends[1:]), strict=False))

    def sample(self, tokens: float) -> "ValidationSet":
        """Pairs with about so many target tokens at most; all pairs if they have no more.

        Each direction has an equal part of the tokens, but at least `MIN_SAMPLE` pairs. They are
        those with the smallest hashes of their numbers, in the order of the rows.
        """
        lengths, chosen = Lengths.of(self.pairs).target, []
        parts = [lengths[rows] for _, rows in self.directions]
        left, limit = tokens, 0.0
        for done, needed in enumerate(sorted(int(part.sum()) for part in parts)):
            if needed > (limit := left / (len(parts) - done)):
                break
            left -= needed  # what a small direction leaves is for the others
        for part, (_, rows) in zip(parts, self.directions, strict=True):
            order = np.argsort(hashes(SALT, np.arange(len(part))), kind="stable")
            count = np.searchsorted(part[order].cumsum(), limit, side="right")
            chosen.append(rows.start + np.sort(order[: max(MIN_SAMPLE, int(count))]))
        numbers = np.concatenate(chosen).tolist()
        texts = [[side[n] for n in numbers] for side in (self.sources, self.references)]
        sizes = dict(zip(self.sizes, map(len, chosen), strict=True))
        return ValidationSet(self.pairs.take(numbers), texts[0], texts[1], sizes)

    def rows_of(self, world: World, on: ValidateOn) -> list[int]:
        """The rows of this rank's shard; on "rank0", those of rank 0, which decodes all."""
        rows = list(range(len(self.pairs)))
        return rows if on == "rank0" else rows[world.rank :: world.size]


def sample_tokens(data: PreparedData, sampler: StepSampler, validate_every: int) -> float:
    """The target tokens of a sample that fits the training between two validations.

    That is an epoch, or `validate_every` steps if they are less.
    """
    counts, sizes = sampler.mix.counts, [block.size for block in data.blocks]
    ends = np.cumsum([0, *sizes])
    tokens = np.diff(data.train.target.offsets[ends] + ends)  # of each block, with [EOS]
    epoch = float(np.dot(counts, tokens / np.maximum(sizes, 1)))
    config = sampler.config
    step = config.batch_size * sampler.world_size * epoch / sum(counts) or config.batch_tokens
    return MAX_SHARE * min(epoch, validate_every * step or epoch)


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
    data: ValidationSet,
    tokenizer: Tokenizer,
    world: World,
    on: ValidateOn,
    *,
    identifier: Identifier | None = None,
    on_decoded: Callable[[int], None] = ignore,
    on_loss: Callable[[int], None] = ignore,
) -> Validation:
    """Decode and score `data`. Every rank returns the same result.

    With several directions, a score is the mean of theirs, and each has its own, as en-it/BLEU.
    Off-target translations are found with an `identifier`. While rank 0 validates, the others wait
    without a time limit. `on_decoded` is called with the number of sentences after each batch that
    is decoded, then `on_loss` after each whose loss is computed; if one of them raises Stopped, all
    ranks do.
    """

    def work() -> dict[int, Decoded]:
        rows = data.rows_of(world, on)
        sources, targets = (
            [side[row] for row in rows] for side in (data.pairs.source, data.pairs.target)
        )
        ids = [best.ids for best, *_ in engine.translate(sources, GREEDY, on_decoded)]
        languages = identifier.identify(ids) if identifier else [""] * len(ids)
        log_probs = engine.log_probs(sources, targets, on_loss)
        losses = (-float(each.sum(dtype=np.float64)) for each in log_probs)
        columns = map(normalize, tokenizer.decode(ids)), languages, losses, map(len, log_probs)
        return dict(zip(rows, map(Decoded, *columns), strict=True))

    if on == "rank0":
        return world.on_main("validating", lambda: _score([work()], data, identifier))
    shards = world.on_each_rank("validating", work)
    return world.on_main("scoring", lambda: _score(shards, data, identifier))


def _score(
    shards: Sequence[dict[int, Decoded]], data: ValidationSet, identifier: Identifier | None
) -> Validation:
    decoded = [row for _, row in sorted(each for shard in shards for each in shard.items())]
    predictions = [row.prediction for row in decoded]
    found: dict[LanguagePair, dict[str, float]] = {}
    for pair, rows in data.directions:
        part = decoded[rows]
        texts = data.sources[rows], predictions[rows], data.references[rows]
        loss = sum(row.loss for row in part) / sum(row.tokens for row in part)
        found[pair] = {"loss": loss} | score_texts(*texts, pair.tgt)
        if identifier:
            languages = [row.language for row in part if row.prediction]
            others = sum(language not in ("", pair.tgt) for language in languages)
            found[pair][OFF_TARGET] = others / max(len(languages), 1)
    if len(found) == 1:
        return Validation(*found.values(), predictions=predictions)
    names = dict.fromkeys(name for scores in found.values() for name in scores)
    means = {name: fmean(s[name] for s in found.values() if name in s) for name in names}
    own = {f"{pair}/{name}": s for pair, scores in found.items() for name, s in scores.items()}
    return Validation(means | own, predictions)


def samples_of(sources: Texts, references: Texts, predictions: Texts) -> list[Sample]:
    """A row for each sentence."""
    return [Sample(*texts) for texts in zip(sources, references, predictions, strict=True)]


@dataclass
class Validator:
    """Scores models on the validation set of a run, with a progress bar and heartbeats.

    During training this is `data`, a sample of so many target tokens; the last scores are those of
    all pairs. Every rank calls it at the same steps.
    """

    all_pairs: ValidationSet
    sample_tokens: float
    tokenizer: Tokenizer
    identifier: Identifier | None
    on: ValidateOn
    max_tokens: int
    logbook: Logbook
    world: World
    _signatures_shown: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.data = self.all_pairs.sample(self.sample_tokens)
        self.samples = len(self.data.pairs) < len(self.all_pairs.pairs)

    def validate(self, model: Transformer, step: int) -> dict[str, float]:
        """The scores at this step; the translations are logged. Raises Stopped like `score`."""
        result = self.score(model, step)
        rows = samples_of(self.data.sources, self.data.references, result.predictions)
        self.logbook.validated(step, rows)
        return result.scores

    def finish(
        self, model: Transformer, store: CheckpointStore, history: Sequence[str], ended: Position
    ) -> Iterator[tuple[str, dict[str, float]]]:
        """The last scores of a run that ends at a position, by their name in metrics.jsonl.

        Those of the weights that `translate` will use, if they are an average. If `data` is a
        sample, also those of all pairs, for the same weights and for the best epoch, if it is
        another one. Raises Stopped like `score`.
        """
        step, message = ended.global_step, self.logbook.message
        average = average_run(model, store, history, ended, self.world)
        with nullcontext() if average is None else loaded(model, average, self.world):
            if average is not None:
                scores = self.score(model, step).scores
                yield "validation_average", scores
                found = (
                    f"average of epochs {listed(average.epochs)}: validation {with_units(scores)}"
                )
                for line in [*average.messages, found]:
                    message(line)
            if self.samples:
                yield "validation_all", self.score(model, step, self.all_pairs).scores
        is_last = ended.step_in_epoch == 0 and ended.best_epoch == ended.epoch
        if self.samples and ended.best_epoch and not is_last:
            try:
                best = epoch_of_run(store, ended.best_epoch, self.world)
            except UserError as error:
                message(f"The best epoch is not scored on all validation pairs: {error}")
            else:
                with loaded(model, best, self.world):
                    scores = self.score(model, step, self.all_pairs).scores
                yield "validation_all_best", scores

    def score(self, model: Transformer, step: int, data: ValidationSet | None = None) -> Validation:
        """Scores and translations at this step. Raises Stopped at a request to stop."""
        data, world, supervisor = data or self.data, self.world, self.world.supervisor
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
                identifier=self.identifier,
                on_decoded=on_decoded,
                on_loss=on_batch,
            )
            model.train(was_training)
            return result

    def show_signatures(self) -> None:
        """Print BLEU's signatures once, on rank 0."""
        if self.world.is_main and not self._signatures_shown:
            for line in bleu_signature(*(pair.tgt for pair in self.data.sizes)).split("\n"):
                self.logbook.message(f"BLEU signature: {line}")
            self._signatures_shown = True
