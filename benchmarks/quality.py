"""Whether what makes training fast costs quality: the validation loss, with it and without.

    python -m benchmarks.quality
    python -m benchmarks.quality --dataset data/train --validation data/valid --lang_tgt de

Three ways to compute the same run take as many steps, over several seeds:

- plain: fp32, within `kernels.plain()`, which puts PyTorch's own operations in place of the fast
  ones: cross-entropy by autograd over the scores of all real target tokens at once, `F.dropout`,
  `scaled_dot_product_attention`. `tests/test_kernels.py` checks that no fast one is used there.
- fp32, bf16: the product as it is, with `--precision` fp32 or bf16.

A seed gives all ways the same first weights and the same sentences at each step; what dropout draws
is plain's own. The loss is that of a validation: without smoothing or dropout, in bf16 where the
layers were trained in it.
"""

import math
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import tyro
from tqdm import tqdm

from benchmarks.machine import facts
from benchmarks.report import OWN, RESULTS, Row, short, write_report
from benchmarks.workbench import open_trainer, take_steps
from config import Config, parse
from translate_ddp.data.dataset import PreparedData, load_prepared, prepare
from translate_ddp.errors import first_line, report_errors
from translate_ddp.modeling import kernels
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.training.trainer import Trainer
from translate_ddp.training.validation import _summed_loss

PLAIN = "plain"
WAYS = {PLAIN: "plain torch, fp32", "fp32": f"{OWN}, fp32", "bf16": f"{OWN}, bf16"}
BAR = "mean validation loss, nats a token"
MEAN, DIFFERENCE, SPREAD = "mean validation loss", "mean less plain's", "spread over seeds"


@dataclass(frozen=True)
class QualityBenchmark:
    """Measure what the product's own ways to compute do to the validation loss."""

    dataset: str = "demo"
    """Named as for train.py."""
    validation: str = ""
    """Named like the dataset; '' as for train.py."""
    lang_src: str = "en"
    """Language to translate from."""
    lang_tgt: str = "it"
    """Language to translate to."""
    preset: str = "auto"
    """Model and schedule, as for train.py."""
    dropout: float = 0.1
    """In place of the preset's, which for the demo is 0 and would leave dropout untried."""
    steps: int = 200
    """Optimizer steps of each run."""
    seeds: int = 3
    """Runs of each way; at least 2."""
    results: Path = RESULTS
    """Where quality.json, .md and .svg go."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("seeds", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, but is {getattr(self, name)}.")

    def flags(self) -> list[str]:
        """Those of train.py, alike for all runs."""
        own = asdict(self)
        # A record as long as the run knows of every step whether it was skipped.
        own["log_every"] = self.steps
        for name in ("steps", "seeds", "results"):
            del own[name]
        return [word for name, value in own.items() for word in (f"--{name}", str(value))]


class Failed(Exception):
    """A run gave no loss to compare; the text says why."""


@dataclass
class Result:
    """What the runs of one way came to."""

    losses: list[float] = field(default_factory=list)  # nats a token, a seed each
    failure: str = ""  # why no more seeds were run

    @property
    def mean(self) -> float:
        return statistics.mean(self.losses)

    @property
    def spread(self) -> float:
        return max(self.losses) - min(self.losses)


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as work:
        settings = tyro.cli(
            QualityBenchmark,
            prog="python -m benchmarks.quality",
            description=__doc__,
            use_underscores=True,
        )
        config = parse(settings.flags())
        prepared = prepare(config.corpus, config.tokenizer, config.batches.seq_len, Path(work))
        data = load_prepared(prepared)
        report(settings, config, data, run_all(settings, data))


def run_all(settings: QualityBenchmark, data: PreparedData) -> dict[str, Result]:
    """The ways take turns at each seed."""
    results = {way: Result() for way in WAYS}
    turns = [(seed, way) for seed in range(settings.seeds) for way in WAYS]
    with tqdm(total=len(turns) * settings.steps, unit="step") as bar:
        for seed, way in turns:
            result = results[way]
            if result.failure:
                continue
            bar.set_postfix_str(f"{way}, seed {seed}")
            flags = [*settings.flags(), "--seed", str(seed)]
            try:
                result.losses.append(run(way, flags, settings.steps, data, bar))
            except (Failed, RuntimeError) as error:  # of which running out of memory is one
                result.failure = f"seed {seed}: {first_line(error)}"
    return results


def run(
    way: str,
    flags: Sequence[str],
    steps: int,
    data: PreparedData,
    bar: "tqdm[Any]",
) -> float:
    """Train from new weights; return the validation loss. Raises Failed if it compares to none."""
    precision = "fp32" if way == PLAIN else way
    with (
        kernels.plain() if way == PLAIN else nullcontext(),
        open_trainer([*flags, "--precision", precision], data) as trainer,
    ):
        for _ in islice(take_steps(trainer), steps):
            bar.update()
        if skipped := sum(trainer.window.take_skipped(0, steps)):
            raise Failed(f"{skipped} of {steps} steps were skipped as not finite")
        found = validation_loss(trainer)
    if not math.isfinite(found):
        raise Failed(f"its validation loss is {found}")
    return found


def validation_loss(trainer: Trainer) -> float:
    """Nats a token, in the precision in which the product would validate."""
    pairs = trainer.data.validation
    total, tokens = _summed_loss(
        ready_to_decode(trainer.model).eval(),
        pairs,
        list(range(len(pairs))),
        trainer.loader.max_tokens,
        trainer.world.device,
    )
    return total / tokens


# --- the report ---


def report(
    settings: QualityBenchmark, config: Config, data: PreparedData, results: dict[str, Result]
) -> None:
    write_report(
        "quality",
        "Validation loss after as many steps",
        [row(way, result, results[PLAIN]) for way, result in results.items()],
        [MEAN, *(f"seed {seed}" for seed in range(settings.seeds)), DIFFERENCE, SPREAD],
        BAR,
        facts() | describe(settings, config, data),
        {way: vars(result) for way, result in results.items()},
        folder=settings.results,
        first_column="way",
        notes=[
            verdict(results),
            "What plain is, and what is equal for all: `benchmarks/quality.py`.",
        ],
    )


def row(way: str, result: Result, plain: Result) -> Row:
    values: dict[str, str | float] = {
        f"seed {seed}": f"{found:.4f}" for seed, found in enumerate(result.losses)
    }
    if result.failure:
        return Row(WAYS[way], values, result.failure)
    values |= {BAR: result.mean, MEAN: f"{result.mean:.4f}", SPREAD: f"{result.spread:.4f}"}
    if not plain.failure and result is not plain:
        values[DIFFERENCE] = f"{result.mean - plain.mean:+.4f}"
    return Row(WAYS[way], values, spread=(min(result.losses), max(result.losses)))


def verdict(results: dict[str, Result]) -> str:
    """One sentence: whether the means differ by less than seeds alone make plain's losses do."""
    plain = results[PLAIN]
    if plain.failure:
        return "There is nothing to compare with."
    parts = []
    for way, result in results.items():
        if way != PLAIN and not result.failure:
            difference = result.mean - plain.mean
            place = "within" if abs(difference) <= plain.spread else "outside"
            parts.append(f"{way}'s differs by {difference:+.4f}, {place} that spread")
    told = "; ".join(parts) or "no other way has one"
    return f"Seeds alone spread plain's loss over {plain.spread:.4f}; of the means, {told}."


def describe(settings: QualityBenchmark, config: Config, data: PreparedData) -> dict[str, Any]:
    """What a reader should know of the runs."""
    shape = config.model
    return {
        "corpus": f"{short(settings.dataset)} {settings.lang_src}-{settings.lang_tgt}, "
        f"{len(data.train):,} pairs, {len(data.validation):,} for validation",
        "vocabulary": f"{len(data.tokenizer):,}",
        "model": f"{shape.num_encoder_layers}+{shape.num_decoder_layers} layers, width "
        f"{shape.d_model}, feed-forward {shape.d_ff}, dropout {shape.dropout:g}",
        "steps": f"{settings.steps:,} of {config.batches.batch_tokens:,} batch tokens",
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    main()
