"""Training throughput beside other trainers: real target tokens per second.

    python -m benchmarks.training
    python -m benchmarks.training --dataset data/train --validation data/valid --lang_tgt de

Each contestant is a separate process that trains for `--seconds` after 5 warm-up steps; the rounds
of all contestants are interleaved. Counted are the tokens in the loss, end markers included, and
no padding.

Equal for all: the corpus, as the same ids; width, heads, layers, feed-forward width and vocabulary;
tied embeddings; label smoothing; Adam with betas 0.9 and 0.98; the cores of the machine. Equal for
all except the tutorial: pre-norm, gradients clipped at a norm of 1, about `--batch_tokens` target
tokens per update.

Not equal:
- Dropout: all apply it to embeddings and sublayer outputs. Eole also applies it inside feed-forward
  layers; the tutorial also inside feed-forward layers and attention.
- Batches: ours and Eole's contain up to `--batch_tokens` tokens of the longer side, with padding,
  and Eole drops a source that occurs twice in a batch. transformers takes a fixed number of
  sentences, whose targets have that many tokens on average.
- Adam: ours and transformers' is fused AdamW; the others' is torch's default Adam.
- Learning rates, which do not affect the time.
- Windows: transformers takes runs of some thousand sentences from long to short. A short window
  would measure the long sentences only, so its window is three times as long.
- The clock: Eole is measured by its own log, the others by a clock that waits for the end of each
  step. None of them validates or saves.
- The tutorial takes batches of 8 sentences in random order, each padded to 350 tokens, as a first
  program without a library does. `translate_ddp, batches of 8` takes as many sentences.
- Eole runs as one process only: its parallel training is made for GPUs.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.charts import draw_bars
from benchmarks.common import (
    Settings,
    Values,
    as_flags,
    python,
    read_settings,
    select,
    work_folder,
)
from benchmarks.machine import default_device, facts_and_peaks
from benchmarks.report import OWN, Row, short, write_report
from benchmarks.rounds import Outcome, run_rounds
from benchmarks.trainers.task import Task
from config import parse
from translate_ddp.data.dataset import PreparedData, load_prepared, prepare
from translate_ddp.data.tokenizer import SPECIAL_TOKENS
from translate_ddp.errors import report_errors

SEQ_LEN = 350  # the tutorial pads to it; for the others it is only a limit
PACE = "target_tokens_per_second"
BAR = "target tokens/s"
TUTORIAL = "the tutorial's way"
STARTUP_SECONDS = 180  # allowed in addition to the measured time
TITLE = "Training throughput"
NOTE = (
    "`1 x 2` is processes x threads. Best peer: for fp32 the fastest of the others in fp32, for "
    "bf16 the fastest of the others in any precision. Padding: share of all positions on both "
    "sides. What is equal and what is not: `benchmarks/training.py`."
)


@dataclass(frozen=True)
class TrainingBenchmark(Settings):
    dataset: str = "demo"
    """As for train.py."""
    validation: str = ""
    """As for train.py."""
    lang_src: str = "en"
    """Source language."""
    lang_tgt: str = "it"
    """Target language."""
    preset: str = "small"
    """Model shape, as for train.py."""
    batch_tokens: int = 4096
    """Target tokens per update."""
    seconds: float = 30.0
    """Measured time of each run."""
    rounds: int = 3
    """Runs of each contestant."""
    only: tuple[str, ...] = ()
    """Run only contestants whose name contains one of these."""
    work: str = ""
    """Folder for the prepared corpus, which is kept; '' is a temporary folder."""


@dataclass(frozen=True)
class Entry:
    """A contestant in one of its settings."""

    trainer: str
    module: str  # in benchmarks.trainers
    precision: str = "fp32"
    processes: int = 1
    flags: tuple[str, ...] = ()
    windows: int = 1  # length of its measurement, in units of --seconds

    @property
    def threads(self) -> int:
        return max(1, len(os.sched_getaffinity(0)) // self.processes)

    @property
    def name(self) -> str:
        return f"{self.trainer}, {self.precision}, {self.processes} x {self.threads}"

    def command(self, work: Path, seconds: float) -> list[str]:
        settings = {
            "work": work,
            "seconds": self.windows * seconds,
            "precision": self.precision,
            "processes": self.processes,
            "threads": self.threads,
        }
        start = python(self.processes)
        module = ["-m", f"benchmarks.trainers.{self.module}"]
        return [*start, *module, *as_flags(settings), *self.flags]


def entries() -> list[Entry]:
    """All contestants on this machine, ours first."""
    # One process, and one per GPU or two on CPU cores.
    most = torch.cuda.device_count() or min(2, len(os.sched_getaffinity(0)))
    precisions = ("fp32", "bf16")
    both = [(precision, n) for n in sorted({1, most}) for precision in precisions]
    peer = partial(Entry, "transformers Seq2SeqTrainer", "transformers_trainer", windows=3)
    few = partial(Entry, f"{OWN}, batches of 8", "ours", flags=("--batch_size", "8"))
    return [
        *(Entry(OWN, "ours", precision, n) for precision, n in both),
        *(few(precision) for precision in precisions),
        *(peer(precision, n) for precision, n in both),
        *(Entry("Eole", "eole_train", precision) for precision in precisions),
        Entry(TUTORIAL, "tutorial"),
    ]


def main() -> None:
    with report_errors():
        settings = read_settings(TrainingBenchmark, __doc__)
        chosen = select(entries(), settings.only)
        with work_folder(settings.work) as work:
            compare(settings, chosen, work)


def compare(settings: TrainingBenchmark, chosen: Sequence[Entry], work: Path) -> None:
    facts = prepare_task(settings, work)
    commands = {entry.name: entry.command(work, settings.seconds) for entry in chosen}
    outcomes = run_rounds(commands, settings.rounds, STARTUP_SECONDS + 4 * settings.seconds)
    rows = build_rows(chosen, outcomes)
    ranges = [None if o.failure else o.range(PACE) for o in outcomes.values()]
    write_report(
        "training",
        TITLE,
        rows,
        [BAR, "least to most", "x best peer", "x tutorial", "padding", "peak RSS, MiB"],
        facts=facts_and_peaks() | facts,
        raw={name: outcome.rounds for name, outcome in outcomes.items()},
        folder=settings.results,
        notes=[NOTE],
        draw=partial(draw_bars, rows, ranges, BAR, TITLE),
    )


def prepare_task(settings: TrainingBenchmark, work: Path) -> dict[str, Any]:
    """Write the input of the trainers to `work`; return the facts about it for the report."""
    names = ("preset", "dataset", "validation", "lang_src", "lang_tgt", "batch_tokens")
    flags = as_flags({name: getattr(settings, name) for name in names} | {"seq_len": SEQ_LEN})
    config = parse(flags)
    prepared = prepare(config.corpus, config.tokenizer, SEQ_LEN, work / "data")
    data = load_prepared(prepared)
    write_as_words(data, work)
    mean_target = float((data.train.target.lengths + 1).mean())
    task = Task(
        device=default_device().type,
        prepared=str(prepared),
        flags=flags,
        pairs=len(data.train),
        vocabulary=len(data.tokenizer),
        sentences=round(settings.batch_tokens / mean_target),
        batch_tokens=settings.batch_tokens,
        seq_len=SEQ_LEN,
        label_smoothing=config.loss.label_smoothing,
        model=config.model,
    )
    task.save(work)
    shape = config.model
    return {
        "corpus": f"{short(settings.dataset)} {settings.lang_src}-{settings.lang_tgt}, "
        f"{task.pairs:,} pairs, {mean_target:.1f} target tokens each",
        "vocabulary": f"{task.vocabulary:,}",
        "model": f"{shape.num_encoder_layers}+{shape.num_decoder_layers} layers, "
        f"width {shape.d_model}, {shape.num_heads} heads, feed-forward {shape.d_ff}",
        "batch tokens": f"{task.batch_tokens:,}",
        "measured": f"{settings.rounds} rounds of {settings.seconds:g} s",
    }


def write_as_words(data: PreparedData, work: Path) -> None:
    """Write the same ids as text, for trainers that read only text."""
    for side, rows in (("src", data.train.source), ("tgt", data.train.target)):
        with (work / f"corpus.{side}.txt").open("w") as file:
            file.writelines(" ".join(map(str, row.tolist())) + "\n" for row in rows)
    words = range(len(SPECIAL_TOKENS), len(data.tokenizer))
    (work / "vocabulary.txt").write_text("".join(f"{word}\n" for word in words))


def build_rows(chosen: Sequence[Entry], outcomes: Mapping[str, Outcome]) -> list[Row]:
    """One row per contestant, with ratios to the best of the others."""
    done = {entry: outcomes[entry.name] for entry in chosen if not outcomes[entry.name].failure}
    paces = {entry: outcome.median(PACE) for entry, outcome in done.items()}
    return [
        Row(entry.name, describe(entry, done[entry], paces))
        if entry in done
        else Row(entry.name, failure=outcomes[entry.name].failure)
        for entry in chosen
    ]


def describe(entry: Entry, outcome: Outcome, paces: Mapping[Entry, float]) -> Values:
    values: Values = {
        BAR: paces[entry],
        "least to most": outcome.least_to_most(PACE),
        "peak RSS, MiB": outcome.median("peak_rss_mib"),
    }
    if "padding_share" in outcome.rounds[0]:
        values["padding"] = f"{outcome.median('padding_share'):.0%}"
    if best := best_peer(entry.precision, paces):
        values["x best peer"] = f"{paces[entry] / best:.2f}"
    for other, pace in paces.items():
        if other.trainer == TUTORIAL:
            values["x tutorial"] = f"{paces[entry] / pace:.1f}"
    return values


def best_peer(precision: str, paces: Mapping[Entry, float]) -> float | None:
    """The best pace of the others: for fp32 among those in fp32, for bf16 among all."""
    allowed = {"fp32", precision}
    others = (e for e in paces if not e.trainer.startswith(OWN) and e.precision in allowed)
    return max((paces[entry] for entry in others), default=None)


if __name__ == "__main__":
    main()
