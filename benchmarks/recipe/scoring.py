"""Decoding settings chosen on validation, and the scores of the chosen ones."""

import gzip
import itertools
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import sacrebleu

from benchmarks.common import ROOT, as_flags, python
from benchmarks.recipe.record import Scored, Setting, best
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import write_atomically
from translate_ddp.settings import NBestConfig
from translate_ddp.text import normalize
from translate_ddp.translator import Translator

SOURCE, TARGET = "en", "de"
TRAIN, VALIDATION, TEST = "train", "val", "test_2016_flickr"


@dataclass(frozen=True)
class Convention:
    """Which files of the folder are read, and how sacreBLEU tokenises."""

    ending: str
    tokenize: str

    def prefix(self, corpus: Path, split: str) -> str:
        """The common start of the two files of a split, as train.py takes it."""
        return str(corpus / f"{split}{self.ending}")

    def read(self, corpus: Path, split: str) -> tuple[list[str], list[str]]:
        """Sources and references. Raises UserError if there is no such file."""
        prefix = self.prefix(corpus, split)
        return read_lines(f"{prefix}.{SOURCE}"), read_lines(f"{prefix}.{TARGET}")

    def metric(self) -> sacrebleu.BLEU:
        return sacrebleu.BLEU(tokenize=self.tokenize, force=True)  # no warning of tokenised text

    def bleu(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return self.metric().corpus_score(hypotheses, [references]).score

    def signature(self) -> str:
        metric = self.metric()
        metric.corpus_score(["text"], [["text"]])  # it counts the references
        return str(metric.get_signature())


CONVENTIONS = {"tok": Convention(".lc.norm.tok", "none"), "raw": Convention("", "13a")}


def read_lines(path: str) -> list[str]:
    """The lines of a file, plain or `.gz`."""
    for found, opened in ((Path(path), open), (Path(f"{path}.gz"), gzip.open)):
        if found.is_file():
            with opened(found, "rt", encoding="utf-8", newline="\n") as file:
                return [line.removesuffix("\n") for line in file]
    raise UserError(f"There is no file {path}, plain or .gz: pass the folder that holds it.")


Texts = Sequence[str]


@lru_cache(maxsize=1)  # settings come in the order of their averages
def open_average(folder: Path, average: int) -> Translator:
    return Translator.open(str(folder), average=average)


def decode(folder: Path, setting: Setting, sources: Texts) -> list[str]:
    """Each line as one sentence, as in training; `Translator.translate` would split it."""
    translator = open_average(folder, setting.average)
    found = translator.engine.translate(
        translator.tokenizer.encode([normalize(text) for text in sources]),
        # Greedy search ignores the length penalty.
        NBestConfig(setting.beam_width, setting.length_penalty or 0.0),
    )
    return translator.tokenizer.decode([best.ids for best, *_ in found])


def score_all(
    folder: Path, settings: Sequence[Setting], convention: Convention, texts: tuple[Texts, Texts]
) -> tuple[list[Scored], dict[Setting, list[str]]]:
    """The score and the translations of each setting, in order; a setting is decoded once."""
    sources, references = texts
    found = {setting: decode(folder, setting, sources) for setting in dict.fromkeys(settings)}
    scores = {setting: convention.bleu(lines, references) for setting, lines in found.items()}
    return [Scored(setting, scores[setting]) for setting in settings], found


def grid(
    averages: Sequence[int], beam_width: int, length_penalties: Sequence[float]
) -> list[Setting]:
    """Every setting that is tried on validation, greedy search first."""
    greedy = [Setting(average, 1) for average in averages]
    beams = itertools.product(averages, [beam_width], length_penalties)
    return greedy + [Setting(*beam) for beam in beams]


def test_settings(validation: Sequence[Scored], beam_width: int) -> dict[str, Setting]:
    """The settings that are scored on the test set, by name; all are chosen on validation."""
    last = min(scored.setting.average for scored in validation)
    return {
        "chosen": best(validation, beam_width=beam_width),
        "greedy": best(validation, beam_width=1),
        "last, beam": best(validation, beam_width=beam_width, average=last),
        "last, greedy": best(validation, beam_width=1, average=last),
    }


POLL_SECONDS = 5.0
STOPPED = 3  # exit code of train.py after a request to stop: it has saved, but not finished


def protocol_flags(convention: Convention, corpus: Path, folder: Path, seed: int) -> list[str]:
    """The flags of train.py that the protocol fixes; later flags override them."""
    return as_flags(
        {
            "dataset": convention.prefix(corpus, TRAIN),
            "validation": convention.prefix(corpus, VALIDATION),
            "lang_src": SOURCE,
            "lang_tgt": TARGET,
            "model_folder": folder,
            "seed": seed,
            "keep_last": 10,  # for the averages
            "wandb_mode": "disabled",
            "preempted_exit_code": STOPPED,
        }
    )


def train(flags: Sequence[str], processes: int, clock: Path) -> None:
    """Start or resume the run to its end. `clock` holds the seconds of all its processes.

    Raises UserError if the training failed or was stopped.
    """
    before = float(clock.read_text()) if clock.exists() else 0.0
    begin, code = time.monotonic(), None
    child = subprocess.Popen([*python(processes), "train.py", *flags], cwd=ROOT)
    try:
        while code is None:
            with suppress(subprocess.TimeoutExpired):
                code = child.wait(POLL_SECONDS)
            write_atomically(clock, f"{before + time.monotonic() - begin}\n")
    finally:
        child.terminate()  # it saves; without effect if it has ended
        child.wait()
    if code:
        raise UserError(f"train.py ended with code {code}: see its message above.")
