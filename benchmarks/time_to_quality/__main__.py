"""Minutes of training until a validation BLEU, beside transformers.

    python -m benchmarks.time_to_quality --minutes 60 --results RESULTS -- \\
        --dataset multi30k/train --validation multi30k/val --lang_tgt de --preset small
    python -m benchmarks.time_to_quality --minutes 0.2 --every 0.1 --learning_rates 3e-3  # a trial

What follows `--` are flags of train.py: all of them but the optimizer hold for ours; corpus,
vocabulary, model, batch_tokens, label smoothing and warm-up for both. Ours trains with Muon and
with AdamW, transformers with AdamW. Each contestant trains with each learning rate for the same
time. Its weights are saved every few minutes and scored afterwards, all by one greedy decoder and
sacreBLEU (cased, 13a). Start-up, the first step, saving and scoring are not counted.

A contestant is recorded when it is scored, and not trained again by a later call. A BLEU that is
not reached is a result. What is equal and what is not: `benchmarks/README.md`.
"""

import itertools
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.common import OWN, Failed, Settings, Values, module_command, read_settings, select
from benchmarks.machine import facts
from benchmarks.report import Row, write_report
from benchmarks.rounds import run_once
from benchmarks.time_to_quality.snapshots import score_snapshots
from benchmarks.training import write_task
from benchmarks.workbench import Corpus
from translate_ddp.errors import UserError, report_errors
from translate_ddp.training.metrics import bleu_signature

OPTIMIZERS = {f"{OWN} with Muon": "muon", f"{OWN} with AdamW": "adamw"}  # of ours
MODULES = dict.fromkeys(OPTIMIZERS, "ours") | {"transformers Seq2SeqTrainer": "transformers_side"}
STARTUP_SECONDS = 300
PROTOCOL = ("minutes", "every", "precision")  # settings that all records must share
TITLE = "Training time until a validation BLEU"
NOTE = (
    "Greedy validation BLEU, scored by one decoder for all. `-`: not reached. Minutes of training "
    "from the first step, without saving and scoring, to the first snapshot that reaches the BLEU."
    " What is equal and what is not: `benchmarks/README.md`."
)
Curve = Sequence[Mapping[str, float]]  # points with minutes, steps and bleu


@dataclass(frozen=True)
class TimeToQuality(Settings):
    minutes: float = 60.0
    """Training time of each contestant."""
    every: float = 2.0
    """Minutes of training between two scores."""
    learning_rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3)
    """Peak learning rates, the same for both sides."""
    targets: tuple[float, ...] = (33.0, 36.0)
    """BLEU scores to reach."""
    processes: int = min(2, len(os.sched_getaffinity(0)))
    """Processes of each side."""
    precision: Literal["fp32", "bf16"] = "bf16"
    """Of matrix products, of all sides."""
    work: Path = Path("weights/time_to_quality")
    """Folder of what is trained and not yet recorded."""
    only: tuple[str, ...] = ()
    """Run only contestants whose name contains one of these."""


def main() -> None:
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    with report_errors():
        settings = read_settings(TimeToQuality, __doc__, words[:end])
        run(settings, words[end + 1 :])


def run(settings: TimeToQuality, flags: list[str]) -> None:
    """Train, score and record every contestant that is not recorded; report after each."""
    rates = (f"{rate:g}" for rate in settings.learning_rates)
    names = [f"{side}, lr {rate}" for rate, side in itertools.product(rates, MODULES)]
    names = select(names, settings.only)
    protocol = {"flags": flags} | {n: getattr(settings, n) for n in PROTOCOL}
    read_records(settings.results, protocol)  # before hours of training
    work = settings.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    corpus = Corpus.prepare(flags, work / "data")
    write_task(corpus, flags, work)
    failures: dict[str, str] = {}
    for name in names:
        path = record_path(settings.results, name)
        if not path.exists():
            try:
                record = protocol | measure(name, settings, corpus, work)
            except Failed as error:
                failures[name] = str(error)
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        write(settings, protocol, failures)


def measure(name: str, settings: TimeToQuality, corpus: Corpus, work: Path) -> dict[str, Any]:
    """Train a contestant, unless that is done, and score its snapshots, which are then deleted.

    Raises Failed if it gives none.
    """
    side, rate = name.split(", lr ")
    folder = work / record_path(work, name).stem
    done = folder / "done"
    processes = settings.processes
    threads = max(1, len(os.sched_getaffinity(0)) // processes)
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        contestant = {
            "work": work,
            "snapshots": folder,
            "learning_rate": rate,
            "warmup_steps": corpus.config.optimizer.warmup_steps,
            "seconds": 60 * settings.minutes,
            "every": 60 * settings.every,
            "precision": settings.precision,
            "optimizer": OPTIMIZERS.get(side, "adamw"),
            "processes": processes,
            "threads": threads,
        }
        command = module_command(f"time_to_quality.{MODULES[side]}", contestant, processes)
        run_once(command, STARTUP_SECONDS + 2 * 60 * settings.minutes)
        done.touch()
    record = {
        "name": name,
        "processes x threads": f"{processes} x {threads}",
        "facts": facts() | corpus.facts(),
        "signature": bleu_signature(corpus.config.corpus.lang_tgt[0]),
        "curve": score_snapshots(folder, corpus),
    }
    shutil.rmtree(folder)
    return record


def record_path(results: Path, name: str) -> Path:
    return results / "time_to_quality" / f"{name.replace(',', '').replace(' ', '-')}.json"


def write(
    settings: TimeToQuality, protocol: Mapping[str, Any], failures: Mapping[str, str]
) -> None:
    """The report of all records."""
    records = read_records(settings.results, protocol)
    found = [Row(name, description(r, settings.targets)) for name, r in records.items()]
    failed = [Row(name, failure=reason) for name, reason in failures.items()]
    curves = {name: record["curve"] for name, record in records.items()}
    first = next(iter(records.values()), {"facts": facts(), "signature": ""})
    write_report(
        "time_to_quality",
        TITLE,
        found + failed,
        folder=settings.results,
        facts=first["facts"] | {"BLEU": first["signature"], "precision": settings.precision},
        raw=curves,
        notes=[NOTE],
    )


def read_records(results: Path, protocol: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The records by name: by side, ours first, then by learning rate.

    Raises UserError if one is of another protocol.
    """
    paths = (results / "time_to_quality").glob("*.json")
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for record in records:
        if different := [name for name, value in protocol.items() if record[name] != value]:
            name = different[0]
            raise UserError(
                f"{record['name']} in {results} has {name} {record[name]}, not {protocol[name]}: "
                "choose another folder as --results, or the recorded flags."
            )
    records.sort(key=lambda record: float(record["name"].split(", lr ")[1]))
    records.sort(key=lambda record: record["name"].split(", lr ")[0], reverse=True)  # ours first
    return {record["name"]: record for record in records}


def description(record: Mapping[str, Any], targets: Sequence[float]) -> Values:
    """The row of a contestant."""
    curve = record["curve"]
    reached = {bleu: minutes_to(curve, bleu) for bleu in targets}
    values: Values = {
        f"minutes to {bleu:g}": "-" if minutes is None else f"{minutes:.1f}"
        for bleu, minutes in reached.items()
    }
    best = max(curve, key=lambda point: point["bleu"])
    values |= {"best BLEU": f"{best['bleu']:.2f}", "at minute": f"{best['minutes']:.1f}"}
    values |= {"last BLEU": f"{curve[-1]['bleu']:.2f}", "steps": curve[-1]["steps"]}
    return values | {"processes x threads": record["processes x threads"]}


def minutes_to(curve: Curve, target: float) -> float | None:
    """Minutes of the first score that reaches the target, or None."""
    return next((point["minutes"] for point in curve if point["bleu"] >= target), None)


if __name__ == "__main__":
    main()
