"""How fast translate_ddp trains, side by side with others: real target tokens a second.

    python -m benchmarks.training
    python -m benchmarks.training --dataset data/train --validation data/valid --lang_tgt de

Each contestant is a process of its own that trains for `--seconds` after a warm-up, in rounds that
take turns. Only tokens that the loss counts are counted, the end of each sentence among them;
padding is not.

Equal for all: the corpus, as the same ids; width, heads, layers, feed-forward and vocabulary; tied
embeddings; label smoothing; Adam with 0.9 and 0.98; the cores of the machine. Equal for all but the
tutorial's way: norms before sublayers, gradients clipped at a norm of 1, and about `--batch_tokens`
target tokens an update.

Not equal:
- Dropout: on embeddings and sublayer outputs for all. Eole's feed-forward layers drop inside too,
  and the tutorial's also inside attention.
- Batches: ours and Eole fill them up to `--batch_tokens` with padding, of the longer side, and Eole
  leaves out a source that a batch has already; transformers takes a fixed number of sentences, as
  many as have that many target tokens on average.
- Adam: ours and transformers' is AdamW, fused; the others' is Adam as torch has it by default.
- Learning rates, which cost no time.
- Windows: transformers takes runs of some thousand sentences from long to short, of which a short
  window would see the long ones alone: it is measured three times as long.
- The clock: ours and Eole tell their pace themselves, without validation and saving where there is
  any; the others have a clock around their steps. It starts after 5 steps, for all.
- The tutorial's way is batches of 8 sentences in random order, each padded to 350 tokens: what a
  first program does, and no library. `translate_ddp, batches of 8` takes as many sentences.
- Eole is run as one process only: its parallel training is made for GPUs.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from benchmarks.machine import default_device, facts, matrix_peaks
from benchmarks.report import OWN, RESULTS, Row, short, write_report
from benchmarks.rounds import Contestant, Outcome, median, run_rounds, spread
from benchmarks.trainers.task import Task, launcher
from config import parse
from translate_ddp.data.dataset import PreparedData, load_prepared, prepare
from translate_ddp.data.tokenizer import SPECIAL_TOKENS
from translate_ddp.errors import UserError, report_errors

SEQ_LEN = 350  # the tutorial's, which all others only meet as a limit
PACE = "target_tokens_per_second"
BAR = "target tokens/s"
TUTORIAL = "the tutorial's way"
STARTUP_SECONDS = 180  # granted to a run beside what it measures
NOTE = (
    "`1 x 2` is processes x threads. Best peer: for fp32 the fastest of the others in fp32, for "
    "bf16 the fastest of the others in any precision. Padding: share of all positions, on both "
    "sides. What is equal and what is not: `benchmarks/training.py`."
)


@dataclass(frozen=True)
class TrainingBenchmark:
    """Measure training throughput side by side with other trainers."""

    dataset: str = "demo"
    """Named as for train.py."""
    validation: str = ""
    """Named like the dataset; '' as for train.py."""
    lang_src: str = "en"
    """Language to translate from."""
    lang_tgt: str = "it"
    """Language to translate to."""
    preset: str = "small"
    """Shape of the model, as for train.py."""
    batch_tokens: int = 4096
    """Tokens of an update."""
    seconds: float = 30.0
    """How long each run measures, after its warm-up."""
    rounds: int = 3
    """Runs of each contestant."""
    only: tuple[str, ...] = ()
    """Contestants of which the name contains one of these; all if there is none."""
    work: str = ""
    """Folder for the prepared corpus, kept afterwards; '' is one that is removed."""
    results: Path = RESULTS
    """Where training.json, .md and .svg go."""


@dataclass(frozen=True)
class Entry:
    """A contestant in one of its settings."""

    trainer: str
    module: str  # below benchmarks.trainers
    precision: str = "fp32"
    processes: int = 1
    flags: tuple[str, ...] = ()
    by_torchrun: bool = False  # else it starts its processes itself
    windows: int = 1  # that it is measured over

    @property
    def threads(self) -> int:
        return max(1, len(os.sched_getaffinity(0)) // self.processes)

    @property
    def label(self) -> str:
        return f"{self.trainer}, {self.precision}, {self.processes} x {self.threads}"

    def contestant(self, work: Path, seconds: float) -> Contestant:
        start = launcher(self.processes if self.by_torchrun else 1)
        settings = {
            "work": work,
            "seconds": self.windows * seconds,
            "precision": self.precision,
            "processes": self.processes,
            "threads": self.threads,
        }
        flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        module = f"benchmarks.trainers.{self.module}"
        offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        return Contestant(self.label, [*start, "-m", module, *flags, *self.flags], offline)


def entries() -> list[Entry]:
    """All contestants on this machine, ours first."""
    both = [(precision, n) for n in widths() for precision in ("fp32", "bf16")]
    return [
        *(Entry(OWN, "ours", precision, n) for precision, n in both),
        *(
            Entry(f"{OWN}, batches of 8", "ours", precision, flags=("--batch_size", "8"))
            for precision in ("fp32", "bf16")
        ),
        *(
            Entry(
                "transformers Seq2SeqTrainer",
                "transformers_trainer",
                precision,
                n,
                by_torchrun=n > 1,
                windows=3,
            )
            for precision, n in both
        ),
        *(Entry("Eole", "eole_train", precision) for precision in ("fp32", "bf16")),
        Entry(TUTORIAL, "tutorial"),
    ]


def widths() -> list[int]:
    """Numbers of processes to try: one, and one a GPU or two on CPU cores."""
    gpus = torch.cuda.device_count()
    more = gpus or min(2, len(os.sched_getaffinity(0)))
    return [1, more] if more > 1 else [1]


def main() -> None:
    with report_errors():
        settings = tyro.cli(
            TrainingBenchmark,
            prog="python -m benchmarks.training",
            description=__doc__,
            use_underscores=True,
        )
        chosen = select(settings.only)
        with work_folder(settings.work) as name:
            compare(settings, chosen, Path(name).absolute())


def select(only: Sequence[str]) -> list[Entry]:
    every = entries()
    chosen = [entry for entry in every if not only or any(name in entry.label for name in only)]
    if not chosen:
        names = "; ".join(entry.label for entry in every)
        raise UserError(f"--only {' '.join(only)} names none of: {names}.")
    return chosen


def work_folder(chosen: str) -> AbstractContextManager[str]:
    if not chosen:
        return tempfile.TemporaryDirectory()
    Path(chosen).mkdir(parents=True, exist_ok=True)
    return nullcontext(chosen)


def compare(settings: TrainingBenchmark, chosen: Sequence[Entry], work: Path) -> None:
    about = prepare_task(settings, work)
    for precision, pace in matrix_peaks(default_device()).items():
        about[f"{precision} matrix product, GFLOP/s"] = round(pace)
    contestants = [entry.contestant(work, settings.seconds) for entry in chosen]
    outcomes = run_rounds(contestants, settings.rounds, STARTUP_SECONDS + 4 * settings.seconds)
    write_report(
        "training",
        "Training throughput",
        build_rows(chosen, outcomes),
        [BAR, "least to most", "x best peer", "x tutorial", "padding", "peak RSS, MiB"],
        BAR,
        facts() | about,
        {outcome.contestant.name: outcome.rounds for outcome in outcomes},
        folder=settings.results,
        notes=[NOTE],
    )


def prepare_task(settings: TrainingBenchmark, work: Path) -> dict[str, Any]:
    """Write into `work` what the trainers read; return what a reader should know of it."""
    own = {
        "preset": settings.preset,
        "dataset": settings.dataset,
        "validation": settings.validation,
        "lang_src": settings.lang_src,
        "lang_tgt": settings.lang_tgt,
        "batch_tokens": settings.batch_tokens,
        "seq_len": SEQ_LEN,
    }
    flags = [word for name, value in own.items() for word in (f"--{name}", str(value))]
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
        **asdict(config.model),
    )
    task.save(work)
    return {
        "corpus": f"{short(settings.dataset)} {settings.lang_src}-{settings.lang_tgt}, "
        f"{task.pairs:,} pairs, {mean_target:.1f} target tokens each",
        "vocabulary": f"{task.vocabulary:,}",
        "model": f"{task.num_encoder_layers}+{task.num_decoder_layers} layers, "
        f"width {task.d_model}, {task.num_heads} heads, feed-forward {task.d_ff}",
        "batch tokens": f"{task.batch_tokens:,}",
        "measured": f"{settings.rounds} rounds of {settings.seconds:g} s",
    }


def write_as_words(data: PreparedData, work: Path) -> None:
    """The same ids as text, for trainers that read nothing else."""
    for side, rows in (("src", data.train.source), ("tgt", data.train.target)):
        with (work / f"corpus.{side}.txt").open("w") as file:
            file.writelines(" ".join(map(str, row.tolist())) + "\n" for row in rows)
    words = range(len(SPECIAL_TOKENS), len(data.tokenizer))
    (work / "vocabulary.txt").write_text("".join(f"{word}\n" for word in words))


def build_rows(chosen: Sequence[Entry], outcomes: Sequence[Outcome]) -> list[Row]:
    """A row a contestant, beside the best of the others."""
    done = {entry: o for entry, o in zip(chosen, outcomes, strict=True) if not o.failure}
    paces = {entry: median(outcome, PACE) for entry, outcome in done.items()}
    return [
        Row(entry.label, describe(entry, outcome, paces), spread=spread(outcome, PACE))
        if entry in done
        else Row(entry.label, {}, outcome.failure)
        for entry, outcome in zip(chosen, outcomes, strict=True)
    ]


def describe(
    entry: Entry, outcome: Outcome, paces: Mapping[Entry, float]
) -> dict[str, str | float]:
    least, most = spread(outcome, PACE)
    values: dict[str, str | float] = {
        BAR: paces[entry],
        "least to most": f"{least:,.0f} to {most:,.0f}",
        "peak RSS, MiB": median(outcome, "peak_rss_mib"),
    }
    if "padding_share" in outcome.rounds[0]:
        values["padding"] = f"{median(outcome, 'padding_share'):.0%}"
    if best := best_peer(entry.precision, paces):
        values["x best peer"] = f"{paces[entry] / best:.2f}"
    for other, pace in paces.items():
        if other.trainer == TUTORIAL:
            values["x tutorial"] = f"{paces[entry] / pace:.1f}"
    return values


def best_peer(precision: str, paces: Mapping[Entry, float]) -> float | None:
    """The best pace of the others in fp32; for bf16, in whichever precision they are best."""
    allowed = {"fp32", precision}
    others = (e for e in paces if not e.trainer.startswith(OWN) and e.precision in allowed)
    return max((paces[entry] for entry in others), default=None)


if __name__ == "__main__":
    main()
