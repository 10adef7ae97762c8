"""What small corpora gain from settings, and from each other in one model.

    python -m benchmarks.languages --languages hau ibo lug pcm tsn twi yor zul

For each language it trains a model of its own direction alone, with several settings, of which
validation chooses; for each temperature
one model of all directions; and from the one of the best validation, one that is fine-tuned for
each direction. Test sets are excluded from all training, and scored once, with the
epoch that is best on validation. Each finished run has a record beside the report, and is not
trained again: the same command goes on where it was stopped, on any machine with the records.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.common import ROOT, Settings, Values, as_flags, python, read_settings
from benchmarks.machine import facts
from benchmarks.report import Row, write_report
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError, report_errors
from translate_ddp.runtime.files import write_atomically
from translate_ddp.text import normalize
from translate_ddp.training.metrics import bleu_signature, score_texts
from translate_ddp.translator import Translator

ALONE, TOGETHER, TUNED = "alone", "together", "tuned"
STOPPED = 3  # exit code of train.py after a request to stop: it has saved, but not finished


@dataclass(frozen=True)
class LanguagesBenchmark(Settings):
    corpus: str = "mafand/en-{tgt}.{split}.json.gz"
    """Sources, as of `train.py --dataset`; {split} is train, dev and test."""
    languages: tuple[str, ...] = ("hau", "ibo", "lug", "pcm", "tsn", "twi", "yor", "zul")
    """Languages beside English."""
    run_folder: Path = Path("weights/languages")
    """Folder of the runs."""
    alone: tuple[str, ...] = (
        "1000 --preset small --num_epochs 40 --dropout 0.3 --vocab_size 1000",
        "2000 --preset small --num_epochs 40 --dropout 0.3 --vocab_size 2000",
        "few-4096 --preset few --batch_tokens 4096",
        "few --preset few",
    )
    """Settings of models of one direction: a name, then flags of train.py."""
    temperatures: tuple[float, ...] = (1.0, 1.5, 5.0)
    """Values of --mix_temperature of models of all directions; without any, none are trained."""
    together_flags: str = "--preset small --num_epochs 14"
    """Flags of the models of all directions."""
    tuned_flags: str = "--preset small --num_epochs 10 --dropout 0.3 --lr 0.001"
    """Flags of the fine-tuned models."""
    beam_width: int = 5
    """Width of the beam on the test sets."""
    processes: int = 2
    """Processes of a training."""
    seed: int = 1
    """Seed of the trainings."""

    def source(self, split: str) -> str:
        return str(Path(self.corpus.replace("{split}", split)).absolute())


@dataclass(frozen=True)
class Training:
    """A run of some directions, and the record of its scores."""

    settings: LanguagesBenchmark
    kind: str
    languages: tuple[str, ...]
    flags: str
    variant: str = ""  # among runs of one kind and the same languages
    start: "Training | None" = None  # whose weights it takes

    @property
    def name(self) -> str:
        of = [*self.languages] if len(self.languages) == 1 else []
        parts = [self.kind, *of, self.variant, str(self.settings.seed)]
        return "-".join(filter(None, parts))

    @property
    def folder(self) -> Path:
        return (self.settings.run_folder / self.name).absolute()

    @property
    def file(self) -> Path:
        return self.settings.results / "languages" / f"{self.name}.json"

    @property
    def is_finished(self) -> bool:
        """Whether there is a record. Raises UserError if it is of other flags."""
        if self.file.exists() and self.record["flags"] != self.flags:
            raise UserError(f"{self.file} has other flags: {self.record['flags']}. Choose a name.")
        return self.file.exists()

    def finish(self) -> None:
        """Train and score, unless there is a record."""
        if self.is_finished:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        clock = self.folder / "seconds.txt"
        flags = [*self._data_flags, *self.flags.split()]
        flags += ["--init_from", self.start.checkpoint] if self.start else []
        train(flags, self.settings.processes, clock)
        record = {"flags": self.flags, "minutes": round(float(clock.read_text()) / 60, 1)}
        record |= {"init_from": self.start.name} if self.start else {}
        record |= {split: dict(self._score(split)) for split in ("dev", "test")} | {"on": facts()}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, json.dumps(record, indent=1) + "\n")

    @cached_property
    def record(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())

    def score(self, language: str, metric: str = "chrf", split: str = "test") -> float:
        return self.record[split][f"en-{language}"][metric]

    def mean(self, split: str) -> float:
        return fmean(self.score(each, split=split) for each in self.languages)

    @property
    def checkpoint(self) -> str:
        """The file of the best epoch. Raises UserError if its run is on another machine."""
        epoch = Translator.open(str(self.folder), preload="best").state.position.epoch
        (path,) = self.folder.glob(f"tmodel_epoch_{epoch:04}_*.pt")
        return str(path)

    @property
    def _data_flags(self) -> list[str]:
        settings = self.settings
        names = {"dataset": "train", "validation": "dev", "exclude": "test"}
        others = {"model_folder": self.folder, "seed": settings.seed, "keep_last": 1}
        others |= {"wandb_mode": "disabled", "preempted_exit_code": STOPPED}
        flags = as_flags({name: settings.source(split) for name, split in names.items()} | others)
        return [*flags, "--lang_src", "en", "--lang_tgt", *self.languages]

    def _score(self, split: str) -> Iterator[tuple[str, dict[str, float]]]:
        """The scores of each direction: sentences are translated whole, as in training."""
        model = Translator.open(str(self.folder), preload="best")
        for language in self.languages:
            pair = LanguagePair("en", language)
            rows = read_pairs(pair.fill(self.settings.source(split)), pair).read(ignore_progress)
            texts = [(normalize(src), normalize(tgt)) for src, tgt in rows if src and tgt]
            sources, references = ([text[side] for text in texts] for side in range(2))
            found = model.translate(
                sources, self.settings.beam_width, split="none", to=pair.tgt, source=pair.src
            )
            yield str(pair), score_texts(sources, found, references, pair.tgt)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # a training saves
    with report_errors():
        measure(read_settings(LanguagesBenchmark, __doc__))


def measure(settings: LanguagesBenchmark) -> None:
    """Train and score one run after the other, and write the report after each."""
    for training in (*runs_alone(settings), *runs_together(settings)):
        training.finish()
        report(settings)
    if settings.temperatures:
        start = max(runs_together(settings), key=lambda run: run.mean("dev"))
        for training in runs_tuned(settings, start):
            training.finish()
            report(settings)


def train(flags: Sequence[str], processes: int, clock: Path) -> None:
    """Start or resume the run to its end. `clock` holds the seconds of all its processes.

    Raises UserError if the training failed or was stopped.
    """
    begin = time.monotonic() - (float(clock.read_text()) if clock.exists() else 0.0)
    child = subprocess.Popen([*python(processes), "train.py", *flags], cwd=ROOT)
    try:
        code = child.wait()
    finally:
        child.terminate()  # it saves; without effect if it has ended
        child.wait()
        write_atomically(clock, f"{time.monotonic() - begin}\n")
    if code:
        raise UserError(f"train.py ended with code {code}: see its message above.")


def runs_alone(settings: LanguagesBenchmark) -> list[Training]:
    return [
        Training(settings, ALONE, (language,), flags, name)
        for name, _, flags in (setting.partition(" ") for setting in settings.alone)
        for language in settings.languages
    ]


def runs_together(settings: LanguagesBenchmark) -> list[Training]:
    flags = f"{settings.together_flags} --mix_temperature"
    return [
        Training(settings, TOGETHER, settings.languages, f"{flags} {temperature}", temperature)
        for temperature in (f"{each:g}" for each in settings.temperatures)
    ]


def runs_tuned(settings: LanguagesBenchmark, start: Training | None = None) -> list[Training]:
    return [
        Training(settings, TUNED, (language,), settings.tuned_flags, start=start)
        for language in settings.languages
    ]


def report(settings: LanguagesBenchmark) -> None:
    """Write the scores of all finished runs."""
    alone = [run for run in runs_alone(settings) if run.is_finished]
    rows = [Row(f"en-{run.languages[0]}, {run.variant}", values_of(run)) for run in alone]
    notes = [
        "chrF / BLEU, by the epoch that is best on validation.",
        f"BLEU: {bleu_signature(*settings.languages)}",
    ]
    places = {"folder": settings.results, "notes": notes}
    write_report(f"alone_{settings.seed}", "Models of one direction", rows, **places)
    if not settings.temperatures:
        return
    columns: dict[str, dict[str, Training]] = {}
    for run in sorted(alone, key=lambda run: run.mean("dev")):  # the best one comes last
        columns.setdefault(ALONE, {})[run.languages[0]] = run
    for run in filter(lambda run: run.is_finished, runs_together(settings)):
        columns[f"{TOGETHER}, {run.variant}"] = dict.fromkeys(run.languages, run)
    columns[TUNED] = {run.languages[0]: run for run in runs_tuned(settings) if run.is_finished}
    rows = [row_of(f"en-{each}", columns, [each]) for each in settings.languages]
    rows.append(row_of("mean", columns, settings.languages))
    notes.append("Models of all directions stand with their temperature.")
    write_report(f"languages_{settings.seed}", "Several languages in one model", rows, **places)


def values_of(run: Training) -> Values:
    scores = {split: scores_of([run], run.languages, split) for split in ("dev", "test")}
    return {"flags": run.flags, "minutes": run.record["minutes"]} | scores


def row_of(label: str, columns: dict[str, dict[str, Training]], languages: Sequence[str]) -> Row:
    """The means over the languages, of each kind of model that is finished for all of them."""
    values: Values = {
        column: scores_of([runs[each] for each in languages], languages)
        for column, runs in columns.items()
        if runs.keys() >= {*languages}
    }
    return Row(label, values)


def scores_of(runs: Sequence[Training], languages: Sequence[str], split: str = "test") -> str:
    """The means of chrF and BLEU of the languages, each by the run at its place."""
    chrf, bleu = (
        fmean(run.score(each, metric, split) for run, each in zip(runs, languages, strict=True))
        for metric in ("chrf", "BLEU")
    )
    return f"{chrf:.1f} / {bleu:.1f}"


if __name__ == "__main__":
    main()
