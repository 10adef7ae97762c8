"""Training throughput beside other trainers: real target tokens per second.

    python -m benchmarks.training
    python -m benchmarks.training --dataset data/train --validation data/valid --lang_tgt de

Each contestant is a separate process that trains for `--seconds` after 5 warm-up steps; the rounds
of all contestants are interleaved. Counted are the tokens in the loss, end markers included, and
no padding. What is equal for all contestants, and what is not: `benchmarks/README.md`.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import OWN, Values, module_command, read_settings, select
from benchmarks.machine import default_device, facts_and_peaks
from benchmarks.report import write_report
from benchmarks.rounds import Outcome, Outcomes, raw, rows, run_rounds
from benchmarks.trainers.task import Task
from benchmarks.workbench import Corpus, CorpusSettings
from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.tokenizer import SPECIAL_TOKENS
from translate_ddp.errors import report_errors

SEQ_LEN = 350  # a limit
PACE = "target_tokens_per_second"
BAR = "target tokens/s"
STARTUP_SECONDS = 180  # allowed in addition to the measured time
TITLE = "Training throughput"
NOTE = (
    "`1 x 2` is processes x threads. Best peer: for fp32 the fastest of the others in fp32, for "
    "bf16 the fastest of the others in any precision. Padding: share of all positions on both "
    "sides. What is equal and what is not: `benchmarks/README.md`."
)


@dataclass(frozen=True)
class TrainingBenchmark(CorpusSettings):
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


def contestants(seconds: float) -> dict[str, list[str]]:
    """The commands of all contestants on this machine by name, ours first, without the task."""
    cores = len(os.sched_getaffinity(0))
    # One process, and one per GPU or two on CPU cores.
    one, most = {1}, {1, torch.cuda.device_count() or min(2, cores)}
    # For epochs that go from long sentences to short ones: a short window measures the long ones.
    longer = {"seconds": 3 * seconds}
    entries: list[tuple[str, str, set[int], dict[str, Any]]] = [
        (OWN, "ours", most, {}),
        ("transformers Seq2SeqTrainer", "transformers_trainer", most, longer),
        ("Eole", "eole_train", one, {}),
    ]
    found, common = {}, {"seconds": seconds}
    for trainer, module, worlds, further in entries:
        for size in sorted(worlds):
            for precision in ("fp32", "bf16"):
                threads = max(1, cores // size)
                shape = {"precision": precision, "processes": size, "threads": threads}
                command = module_command(f"trainers.{module}", common | shape | further, size)
                found[f"{trainer}, {precision}, {size} x {threads}"] = command
    return found


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as folder:
        settings = read_settings(TrainingBenchmark, __doc__)
        commands, work = contestants(settings.seconds), ["--work", folder]
        chosen = select(list(commands), settings.only)
        facts = prepare_task(settings, Path(folder))
        outcomes = run_rounds(
            {name: commands[name] + work for name in chosen},
            settings.rounds,
            STARTUP_SECONDS + 4 * settings.seconds,
        )
        write_report(
            "training",
            TITLE,
            rows(outcomes, PACE, BAR, partial(further_values, outcomes)),
            facts=facts_and_peaks() | facts,
            raw=raw(outcomes),
            folder=settings.results,
            notes=[NOTE],
        )


def prepare_task(settings: TrainingBenchmark, work: Path) -> dict[str, Any]:
    """Write the input of the trainers to `work`; return the facts about it for the report."""
    flags = settings.flags(batch_tokens=settings.batch_tokens, seq_len=SEQ_LEN, optimizer="adamw")
    corpus = Corpus.prepare(flags, work / "data")
    write_as_words(corpus.data, work)
    batches = corpus.config.batches
    mean_target = float((corpus.data.train.target.lengths + 1).mean())
    Task(
        device=default_device().type,
        prepared=str(corpus.folder),
        flags=flags,
        pairs=len(corpus.data.train),
        vocabulary=len(corpus.data.facts.tokenizer),
        sentences=round(batches.batch_tokens / mean_target),
        batch_tokens=batches.batch_tokens,
        seq_len=batches.seq_len,
        label_smoothing=corpus.config.loss.label_smoothing,
        model=corpus.config.model,
    ).save(work)
    return corpus.facts() | {
        "target tokens of a pair": f"{mean_target:.1f}",
        "measured": f"{settings.rounds} rounds of {settings.seconds:g} s",
    }


def write_as_words(data: PreparedData, work: Path) -> None:
    """Write the same ids as text, for trainers that read only text."""
    for side, rows_of_side in (("src", data.train.source), ("tgt", data.train.target)):
        with (work / f"corpus.{side}.txt").open("w") as file:
            file.writelines(" ".join(map(str, row.tolist())) + "\n" for row in rows_of_side)
    words = range(len(SPECIAL_TOKENS), len(data.facts.tokenizer))
    (work / "vocabulary.txt").write_text("".join(f"{word}\n" for word in words))


def further_values(outcomes: Outcomes, name: str, outcome: Outcome) -> Values:
    """Ratios to the others, padding and memory of a contestant."""
    paces = {other: o.median(PACE) for other, o in outcomes.items() if not o.failure}
    values: Values = {}
    if best := best_peer(name, paces):
        values["x best peer"] = f"{paces[name] / best:.2f}"
    if "padding_share" in outcome.rounds[0]:
        values["padding"] = f"{outcome.median('padding_share'):.0%}"
    return values | {"peak RSS, MiB": outcome.median("peak_rss_mib")}


def best_peer(name: str, paces: Mapping[str, float]) -> float | None:
    """The best pace of the others: for fp32 among those in fp32, for bf16 among all."""
    others = (other for other in paces if not other.startswith(OWN))
    allowed = (other for other in others if ", bf16" in name or ", fp32" in other)
    return max((paces[other] for other in allowed), default=None)


if __name__ == "__main__":
    main()
