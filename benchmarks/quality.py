"""Validation loss with the project's fast kernels and with plain torch.

    python -m benchmarks.quality
    python -m benchmarks.quality --dataset data/train --validation data/valid --lang_tgt de

Three ways to compute the same run, each with as many steps and over several seeds:

- plain: fp32, within `kernels.plain()`, which uses PyTorch's own operations instead of the fast
  kernels: cross-entropy by autograd over the scores of all real target tokens at once, `F.dropout`,
  `scaled_dot_product_attention`. `tests/test_kernels.py` checks that no fast kernel runs there.
- fp32, bf16: the project unchanged, with `--precision` fp32 or bf16.

With one seed all ways have the same initial weights and the same sentences at each step; only
plain's dropout masks differ. The loss is that of validation: without smoothing or dropout, in bf16
if the layers were trained in it.
"""

import math
import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.common import Failed, Settings, Values, as_flags, read_settings, work_folder
from benchmarks.machine import facts
from benchmarks.report import OWN, Row, short, write_report
from benchmarks.workbench import Training, open_training, take_steps
from config import Config, parse
from translate_ddp.data.dataset import PreparedData, load_prepared, prepare
from translate_ddp.errors import first_line, report_errors
from translate_ddp.modeling import kernels
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.training.validation import _summed_loss

PLAIN = "plain"
WAYS = {PLAIN: "plain torch, fp32", "fp32": f"{OWN}, fp32", "bf16": f"{OWN}, bf16"}
MEAN, DIFFERENCE, SPREAD = (
    "mean validation loss, nats per token",
    "mean minus plain's",
    "spread over seeds",
)


@dataclass(frozen=True)
class QualityBenchmark(Settings):
    dataset: str = "demo"
    """As for train.py."""
    validation: str = ""
    """As for train.py."""
    lang_src: str = "en"
    """Source language."""
    lang_tgt: str = "it"
    """Target language."""
    preset: str = "auto"
    """Model and schedule, as for train.py."""
    dropout: float = 0.1
    """Replaces the preset's, which for the demo is 0 and would not test dropout."""
    steps: int = 200
    """Optimizer steps of each run."""
    seeds: int = 3
    """Runs of each way; at least 2."""

    def __post_init__(self) -> None:
        self.require_at_least(1, "steps")
        self.require_at_least(2, "seeds")

    def flags(self) -> list[str]:
        """Flags of train.py, equal for all runs."""
        names = ("dataset", "validation", "lang_src", "lang_tgt", "preset", "dropout")
        # A logging interval as long as the run counts all skipped steps.
        return as_flags({n: getattr(self, n) for n in names} | {"log_every": self.steps})


@dataclass
class Result:
    """The runs of one way."""

    losses: list[float] = field(default_factory=list)  # nats per token, one per seed
    failure: str = ""  # why there were no further seeds

    @property
    def mean(self) -> float:
        return statistics.mean(self.losses)

    @property
    def spread(self) -> float:
        return max(self.losses) - min(self.losses)


def main() -> None:
    with report_errors(), work_folder() as work:
        settings = read_settings(QualityBenchmark, __doc__)
        config = parse(settings.flags())
        prepared = prepare(config.corpus, config.tokenizer, config.batches.seq_len, work)
        data = load_prepared(prepared)
        report(settings, config, data, run_all(settings, data))


def run_all(settings: QualityBenchmark, data: PreparedData) -> dict[str, Result]:
    """Run every way with each seed, in turns."""
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
    """Train from new weights; return the validation loss. Raises Failed if the run is unusable."""
    precision = "fp32" if way == PLAIN else way
    with (
        kernels.plain() if way == PLAIN else nullcontext(),
        open_training([*flags, "--precision", precision], data) as training,
    ):
        for _ in islice(take_steps(training), steps):
            bar.update()
        if skipped := sum(training.meters.take_skipped(0, steps)):
            raise Failed(f"{skipped} of {steps} steps were skipped: not finite")
        found = validation_loss(training)
    if not math.isfinite(found):
        raise Failed(f"its validation loss is {found}")
    return found


def validation_loss(training: Training) -> float:
    """Nats per token, in the precision in which a run validates."""
    pairs = training.data.validation
    total, tokens = _summed_loss(
        ready_to_decode(training.model).eval(),
        pairs,
        list(range(len(pairs))),
        training.loader.max_tokens,
        training.world.device,
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
        facts=facts() | describe(settings, config, data),
        raw={way: vars(result) for way, result in results.items()},
        folder=settings.results,
        first_column="way",
        notes=[
            verdict(results),
            "What plain is and what is equal for all: `benchmarks/quality.py`.",
        ],
    )


def row(way: str, result: Result, plain: Result) -> Row:
    values: Values = {f"seed {seed}": f"{found:.4f}" for seed, found in enumerate(result.losses)}
    if result.failure:
        return Row(WAYS[way], values, result.failure)
    values |= {MEAN: f"{result.mean:.4f}", SPREAD: f"{result.spread:.4f}"}
    if not plain.failure and result is not plain:
        values[DIFFERENCE] = f"{result.mean - plain.mean:+.4f}"
    return Row(WAYS[way], values)


def verdict(results: dict[str, Result]) -> str:
    """Whether the means differ by less than plain's losses over seeds."""
    plain = results[PLAIN]
    if plain.failure:
        return "There is no plain result to compare with."
    parts = []
    for way, result in results.items():
        if way != PLAIN and not result.failure:
            difference = result.mean - plain.mean
            place = "within" if abs(difference) <= plain.spread else "outside"
            parts.append(f"{way}'s differs by {difference:+.4f}, {place} this spread")
    differences = "; ".join(parts) or "no other way has one"
    return f"Over seeds plain's loss spreads by {plain.spread:.4f}; of the means, {differences}."


def describe(settings: QualityBenchmark, config: Config, data: PreparedData) -> dict[str, Any]:
    """The facts about the runs for the report."""
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
