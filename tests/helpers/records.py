"""The files of an invented run, as a run writes them."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from translate_ddp.run_record import (
    EVENTS_FILE,
    METRICS_FILE,
    SAMPLES_FILE,
    SETTINGS_FILE,
    STATUS_FILE,
    VALIDATION_FILE,
    Attention,
    End,
    Event,
    LastValidation,
    LaunchFacts,
    Notice,
    SampleRows,
    Saved,
    TextRow,
    event_line,
)
from translate_ddp.runtime.run_folder import RunFolder

START = 1_800_000_000.0  # 2027-01-15 08:00 UTC
STEPS, LOG_EVERY = 180, 20  # of an epoch
STEP_SECONDS = 8.0
PAUSE_SECONDS = 5000.0  # between the two launches
RESUMED = 4  # epochs in the first launch
SENTENCES = {
    "My neighbour with the grey beard waters his tomatoes at noon.": "Mein Nachbar, ein alter Mann "
    "mit grauem Bart, gießt mittags seine Tomaten.",
    "Four geese cross the motorway.": "Vier Gänse überqueren die Autobahn.",
    "The woman at the till counts every coin before she opens the shop.": "Die Frau an der Kasse "
    "zählt jede Münze, bevor sie den Laden öffnet.",
    "We have read the second half of this letter.": "Wir haben die zweite Hälfte des Briefs "
    "gelesen.",
    "The printer is out of paper.": "Der Drucker hat kein Papier mehr.",
    "An old man carries two empty suitcases up the stairs of the station.": "Ein alter Mann trägt "
    "zwei leere Koffer die Treppe des Bahnhofs hinauf.",
}
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"


def write_lines(path: Path, records: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def write_metrics(folder: Path, records: Sequence[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / METRICS_FILE, records)


def write_curve(folder: Path, name: str, values: dict[int, float], first: float = 0.0) -> None:
    """The values at their steps, one each second from the first."""
    known = {s: v if math.isfinite(v) else str(v) for s, v in values.items()}
    write_metrics(folder, [{"step": s, "time": first + s, name: v} for s, v in known.items()])


def write_events(folder: Path, events: Sequence[Event]) -> None:
    (folder / EVENTS_FILE).write_text("".join(map(event_line, events)))


def write_status(folder: Path, state: str, **details: Any) -> None:
    (folder / STATUS_FILE).write_text(json.dumps({"state": state} | details))


def write_run(folder: Path, epochs: int = 10, state: str = "finished", planned: int = 10) -> None:
    """A run of two processes that was killed in its fifth epoch and resumed after a pause."""
    write_metrics(folder, [record for epoch in range(epochs) for record in _epoch(epoch)])
    events = _first_launch(planned, epochs)
    if epochs > RESUMED:
        events += _second_launch(planned, epochs)
    if state != "running":
        reason = {"preempted": "SIGTERM", "failed": "the disk is full"}.get(state, "")
        events.append(End(time_at(epochs * STEPS) + 4, epochs * STEPS, state, reason))
        write_status(folder, state, reason=reason)
    else:
        write_status(folder, state)
    write_events(folder, events)
    write_lines(
        folder / SAMPLES_FILE,
        [asdict(SampleRows((n + 1) * STEPS, sample_rows(n, planned)[:5])) for n in range(epochs)],
    )
    rows = [row for seed in range(60) for row in sample_rows(epochs - 1, planned, seed)]
    source, _, predicted = rows[0]
    pictures = [attention(source, predicted)] * 3
    validation = LastValidation(epochs * STEPS, rows, pictures, SIGNATURE)
    (folder / VALIDATION_FILE).write_text(json.dumps(asdict(validation)))
    (folder / SETTINGS_FILE).write_text("preset: small\nlang_src: en\nlang_tgt: de\n")
    for epoch in range(max(0, epochs - 5), epochs):
        (folder / checkpoint_name(epoch + 1)).write_bytes(b"x" * 640_000)


def checkpoint_name(epoch: int) -> str:
    return f"tmodel_epoch_{epoch:04}_step_{epoch * STEPS:08}-{epoch:08x}.pt"


def time_at(step: int) -> float:
    """When the step ended."""
    return START + 10 + step * STEP_SECONDS + PAUSE_SECONDS * (step > RESUMED * STEPS)


def _epoch(epoch: int) -> list[dict[str, Any]]:
    generator, records = random.Random(epoch), []
    for step in range(epoch * STEPS + LOG_EVERY, (epoch + 1) * STEPS + 1, LOG_EVERY):
        loss = 1.2 + 7 * math.exp(-step / 400) + generator.gauss(0, 0.05)
        records.append(
            {"step": step, "time": time_at(step)}
            | {"train/loss": loss + 1, "train/nll": loss, "epoch": step / STEPS}
            | {"train/lr": 3e-3 * min(step / 300, (300 / step) ** 0.5)}
            | {"train/grad_norm": abs(generator.gauss(0.6, 0.2)) + 3 / step}
            | {"train/skipped_steps": 2 if step > 500 else 0}
            | {"train/tokens_per_second": generator.gauss(10_400, 300)}
        )
    part, step = (epoch + 1) / 10, (epoch + 1) * STEPS
    scores = {"loss": 4 * math.exp(-part * 2) + 1, "BLEU": 40 * part**0.4, "chrf": 62 * part**0.2}
    scores |= {"cer": 0.7 - 0.3 * part, "wer": 0.9 - 0.35 * part}
    scalars = {f"validation/{name}": value for name, value in scores.items()}
    return [*records, {"step": step, "time": time_at(step) + 2, **scalars, "epoch": epoch + 1}]


def hold(folder: Path) -> None:
    """Lock the folder as a run at work does, until this process ends."""
    RunFolder(str(folder), "a").lock(0)


def launch(time: float, step: int, **values: Any) -> LaunchFacts:
    """A launch with a value in each field."""
    return LaunchFacts(
        **{
            **{"time": time, "step": step, "version": "0.2.0"},
            **{"torch": "2.13.0+cpu", "lang_src": "en", "lang_tgt": "de"},
            **{"datasets": ["bentrevett/multi30k"], "preset": "small"},
            **{"changed": {"num_epochs": 10, "dataset": ["bentrevett/multi30k"], "seed": 7}},
            **{"model": "4 encoder and 4 decoder layers, width 192, feed-forward 512, 4 heads"},
            **{"parameters": 4_200_000, "precision": "fp32", "device": "cpu", "world_size": 2},
            **{"ranks": ["rank 0  node-a: cpu, 3 thread(s)", "rank 1  node-a: cpu, 3 thread(s)"]},
            **{"threads": 3, "num_epochs": 10, "total_steps": 10 * STEPS, "best_metric": "BLEU"},
            **{"train_pairs": 29_000, "validation_pairs": 1014, "vocab_size": 5000},
            **{"dropped": {"empty": 12, "longer than --seq_len": 150, "duplicate": 31}},
            "padding": 0.042,
        }
        | values
    )


def _first_launch(planned: int, epochs: int) -> list[Event]:
    begun = launch(START, 0, num_epochs=planned, total_steps=planned * STEPS)
    notice = Notice(START + 300, 40, "warning: the disk of weights has 2.1 GB left.")
    return [begun, notice, *_saves(range(min(RESUMED, epochs)))]


def _second_launch(planned: int, epochs: int) -> list[Event]:
    step, time = RESUMED * STEPS, time_at(RESUMED * STEPS) + PAUSE_SECONDS
    values = {"num_epochs": planned, "total_steps": planned * STEPS}
    begun = launch(time, step, **values)
    notice = Notice(time, step, f"Resuming from {checkpoint_name(RESUMED)}, step {step}.")
    return [begun, notice, *_saves(range(RESUMED, epochs))]


def _saves(epochs: range) -> list[Event]:
    return [
        Saved(time_at(step) + 3, step, checkpoint_name(epoch + 1), 640_000, epoch + 1)
        for epoch in epochs
        for step in [(epoch + 1) * STEPS]
    ]


def sample_rows(epoch: int, planned: int, seed: int = 0) -> list[TextRow]:
    """Sentences with translations in which the more words are right the later the epoch."""
    generator = random.Random(f"{epoch} {seed}")
    words = sorted({word for text in SENTENCES.values() for word in text.split()})
    share = ((epoch + 1) / planned) ** 0.5
    found = []
    for source, reference in SENTENCES.items():
        text = [
            word if generator.random() < share else generator.choice(words)
            for word in reference.split()
        ]
        found.append((source, reference, " ".join(text)))
    return found


def attention(source: str, predicted: str) -> Attention:
    """Weights that follow the diagonal."""
    rows, columns = predicted.split(), source.split()
    weights = []
    for row in range(len(rows)):
        values = [
            math.exp(-abs(row / len(rows) - c / len(columns)) * 9) for c in range(len(columns))
        ]
        weights.append([value / sum(values) for value in values])
    return Attention(columns, rows, weights, source)
