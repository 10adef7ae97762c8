"""Trains a recipe on Multi30k, scores it by a fixed protocol, and records it.

    python -m benchmarks.recipe --corpus multi30k --convention tok --name small --seed 1
    python -m benchmarks.recipe --corpus multi30k --name without-muon --no_test -- --optimizer adamw
    python -m benchmarks.recipe report --corpus multi30k --against old-default small

What follows `--` are flags of train.py. A run that was stopped is resumed by the same command.
`report` makes tables of all records. The protocol: `docs/recipe.md`.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.common import ROOT, Settings, read_settings
from benchmarks.machine import facts
from benchmarks.recipe.record import Record, run_name, save_translations
from benchmarks.recipe.report import RecipeReport, write_recipe_report
from benchmarks.recipe.scoring import (
    CONVENTIONS,
    TEST,
    VALIDATION,
    Convention,
    grid,
    open_average,
    protocol_flags,
    score_all,
    test_settings,
    train,
)
from benchmarks.workbench import Corpus
from translate_ddp.errors import report_errors
from translate_ddp.training.state import RunState

REPORTED = ("model", "loss", "optimizer", "batches", "tokenizer", "train")  # parts of a config


@dataclass(frozen=True)
class RecipeBenchmark(Settings):
    corpus: Path = Path("multi30k")
    """Folder with train, val and test_2016_flickr in .en and .de, plain or .gz."""
    convention: Literal["tok", "raw"] = "raw"
    """tok: `.lc.norm.tok` files, BLEU of tokens as given; raw: cased text, sacreBLEU 13a."""
    name: str = "default"
    """Name of the recipe, such as without-muon."""
    seed: int = 1
    """Seed of the training."""
    model_root: Path = Path("weights/recipe")
    """The run's folder is NAME-CONVENTION-SEED in this one."""
    processes: int = 1
    """Processes of the training."""
    averages: tuple[int, ...] = (1, 5, 10)
    """Numbers of last epochs whose averaged weights are tried on validation."""
    beam_width: int = 5
    """Width of beam search."""
    length_penalties: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0)
    """Exponents of the length that are tried on validation."""
    test: bool = True
    """Score the test set; not for runs that are compared on validation only."""


def main() -> None:
    # Also on SIGTERM the training must be stopped, which saves it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    words = sys.argv[1:]
    with report_errors():
        if words[:1] == ["report"]:
            write_recipe_report(read_settings(RecipeReport, __doc__, words[1:]))
            return
        end = words.index("--") if "--" in words else len(words)
        settings = read_settings(RecipeBenchmark, __doc__, words[:end])
        run_recipe(settings, words[end + 1 :])


def run_recipe(settings: RecipeBenchmark, flags: list[str]) -> None:
    """Train to the end, score, and write the record."""
    convention = CONVENTIONS[settings.convention]
    for split in (VALIDATION, *([TEST] if settings.test else [])):
        convention.read(settings.corpus, split)  # before hours of training
    stem = run_name(settings.name, settings.convention, settings.seed)
    folder = (settings.model_root / stem).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    clock = folder / "seconds.txt"
    all_flags = protocol_flags(convention, settings.corpus.absolute(), folder, settings.seed)
    all_flags += flags
    train(all_flags, settings.processes, clock)
    described = describe(open_average(folder, 1).state, all_flags, folder)
    scores = score(folder, settings, convention, stem)
    record = Record(
        name=settings.name,
        convention=settings.convention,
        seed=settings.seed,
        flags=flags,
        minutes=round(float(clock.read_text()) / 60, 1),
        signature=convention.signature(),
        **described,
        **scores,
    )
    print(f"Written to {record.save(records_folder(settings.results))}.")
    for name, scored in record.test.items():
        print(f"{TEST}, {name} ({scored.setting}): BLEU {scored.bleu:.2f} {record.signature}")


def score(
    model_folder: Path, settings: RecipeBenchmark, convention: Convention, stem: str
) -> dict[str, Any]:
    """The scored part of a record. Test is decoded with settings chosen on validation."""
    tried = grid(settings.averages, settings.beam_width, settings.length_penalties)
    texts = convention.read(settings.corpus, VALIDATION)
    validation, found = score_all(model_folder, tried, convention, texts)
    for scored in validation:
        print(f"{VALIDATION}, {scored.setting}: BLEU {scored.bleu:.2f}")
    wanted = test_settings(validation, settings.beam_width)
    folder, chosen = records_folder(settings.results), wanted["chosen"]
    sha256 = {VALIDATION: save_translations(folder, stem, VALIDATION, found[chosen])}
    test = {}
    if settings.test:
        texts = convention.read(settings.corpus, TEST)
        scores, found = score_all(model_folder, list(wanted.values()), convention, texts)
        test = dict(zip(wanted, scores, strict=True))
        sha256[TEST] = save_translations(folder, stem, TEST, found[chosen])
    return {"validation": validation, "chosen": chosen, "test": test, "sha256": sha256}


def describe(state: RunState, flags: Sequence[str], folder: Path) -> dict[str, Any]:
    """The part of a record that describes model, training and machine."""
    corpus = Corpus.prepare(list(flags), folder / "data")
    records = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    epochs = json.loads(records[-1])["epoch"]
    an_epoch = int((corpus.data.train.target.lengths + 1).sum())
    found = {name: state.environment[name] for name in ("precision", "threads")}
    found |= {"processes": state.environment["world_size"], "commit": commit()}
    return {
        "config": {part: state.run.config[part] for part in REPORTED},
        "parameters": sum(tensor.numel() for tensor in state.model.values()),
        "steps": state.position.global_step,
        "epochs": epochs,
        "target_tokens": round(epochs * an_epoch),
        "facts": facts() | found,
    }


def commit() -> str:
    """The git commit of this checkout, marked if files have changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def records_folder(results: Path) -> Path:
    folder = results / "recipe"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
