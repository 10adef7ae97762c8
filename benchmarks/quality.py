"""Validation loss with the project's fast kernels and with plain torch.

    python -m benchmarks.quality
    python -m benchmarks.quality --dataset data/train --validation data/valid --lang_tgt de

Three ways to compute the same run, each with as many steps and over several seeds:

- plain: fp32, within `kernels.plain()`: PyTorch's own operations instead of the fast kernels.
- fp32, bf16: the project unchanged, with `--precision` fp32 or bf16.

With one seed all ways have the same initial weights and the same sentences at each step; only
plain's dropout masks differ. The loss is that of validation, without smoothing or dropout.
"""

import math
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import OWN, Failed, Values, as_flags, read_settings
from benchmarks.corpus import Corpus, CorpusSettings
from benchmarks.machine import facts
from benchmarks.report import Row, write_report
from benchmarks.rounds import Outcome, Result, interleave, raw
from benchmarks.workbench import Training, open_training, take_steps
from translate_ddp.data.dataset import PreparedData
from translate_ddp.errors import first_line, report_errors
from translate_ddp.modeling import kernels
from translate_ddp.modeling.engine import TorchEngine

PLAIN = "plain torch, fp32"
WAYS = {PLAIN: "fp32", f"{OWN}, fp32": "fp32", f"{OWN}, bf16": "bf16"}  # name -> precision
LOSS = "nats_per_token"
NOTE = "Nats per token. What plain is and what is equal for all: `benchmarks/quality.py`."


@dataclass(frozen=True)
class QualityBenchmark(CorpusSettings):
    dropout: float = 0.1
    """Replaces the preset's, which for the demo is 0 and would not test dropout."""
    steps: int = 200
    """Optimizer steps of each run."""
    seeds: int = 3
    """Runs of each way."""


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as work:
        settings = read_settings(QualityBenchmark, __doc__)
        flags = settings.flags(dropout=settings.dropout)
        corpus = Corpus.prepare(flags, Path(work))
        measures = {way: partial(run, way, flags, settings.steps, corpus.data) for way in WAYS}
        outcomes = interleave(measures, settings.seeds)
        write_report(
            "quality",
            f"Validation loss after {settings.steps} steps",
            [
                Row(way, {} if o.failure else describe(o, outcomes[PLAIN]), o.failure)
                for way, o in outcomes.items()
            ],
            facts=facts() | corpus.facts() | {"threads": torch.get_num_threads()},
            raw=raw(outcomes),
            folder=settings.results,
            notes=[NOTE],
        )


def run(way: str, flags: list[str], steps: int, data: PreparedData, seed: int) -> Result:
    """Train from new weights; return the validation loss. Raises Failed if the run is unusable."""
    own = as_flags({"precision": WAYS[way], "seed": seed, "log_every": steps})
    try:
        with (
            kernels.plain() if way == PLAIN else nullcontext(),
            open_training([*flags, *own], data) as training,
        ):
            for _ in islice(take_steps(training), steps):
                pass
            loss = validation_loss(training)
    except RuntimeError as error:  # running out of memory is one
        raise Failed(f"seed {seed}: {first_line(error)}") from error
    if training.skipped_steps or not math.isfinite(loss):
        skipped = f"{training.skipped_steps} of {steps} steps were skipped"
        raise Failed(f"seed {seed}: {skipped}, and its validation loss is {loss}")
    return {LOSS: loss}


def validation_loss(training: Training) -> float:
    """Nats per token, in the precision in which a run validates."""
    pairs, device = training.data.validation, training.world.device
    engine = TorchEngine(training.model, device, training.loader.max_tokens)
    rows = range(len(pairs))
    sources, targets = ([side[row] for row in rows] for side in (pairs.source, pairs.target))
    return -float(np.concatenate(engine.log_probs(sources, targets)).mean(dtype=np.float64))


def describe(outcome: Outcome, plain: Outcome) -> Values:
    """The losses of all seeds and their mean, compared with plain's."""
    losses = outcome.all(LOSS)
    mean = sum(losses) / len(losses)
    values: Values = {"mean": f"{mean:.4f}", "spread": f"{max(losses) - min(losses):.4f}"}
    if not plain.failure and outcome is not plain:
        values["mean minus plain's"] = f"{mean - sum(plain.all(LOSS)) / len(losses):+.4f}"
    return values | {f"seed {seed}": f"{loss:.4f}" for seed, loss in enumerate(losses)}


if __name__ == "__main__":
    main()
