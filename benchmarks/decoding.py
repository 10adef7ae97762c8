"""How fast translate_ddp translates, side by side with others that have the same weights.

    python -m benchmarks.decoding
    python -m benchmarks.decoding --model_folder weights/two --source test.en --reference test.de

Each contestant is a process of its own, in rounds that take turns. It gets token ids and returns
token ids: outside the clock are loading, conversion, tokenization and a warm-up call.

Equal for all: the weights, brought into transformers and CTranslate2 by way of Pegasus; the
sentences; all cores of the machine.

Not equal:
- A translation may have twice the tokens of its source and 20 more. Ours holds each sentence to
  its own limit, transformers a batch to its longest sentence's, CTranslate2 all to the longest's;
  what they write beyond, of the few sentences that do not end by themselves, is cut afterwards.
- Beam search ends, in all, once as many hypotheses as the beam is wide have ended, and takes the
  best by log-probability over a length: ours over ((5 + length) / 6)^0.6, the others length^0.6.
- Batches: ours by tokens and length, transformers 64 sentences in the order given (`by length`:
  sorted), CTranslate2 256 rows of the beam, sorting by itself.

"Equal" is the share of sentences whose ids are those of translate_ddp in fp32, with that beam.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import tyro

from benchmarks.decoders.task import Ids, Task, Trained
from benchmarks.machine import default_device, facts, matrix_peaks
from benchmarks.report import OWN, RESULTS, Row, write_report
from benchmarks.rounds import ROOT, Contestant, Outcome, median, run_rounds, spread
from translate_ddp.data.dataset import ParallelDataset, load_prepared, prepare
from translate_ddp.data.files import read_parallel
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import UserError, report_errors
from translate_ddp.modeling.decoding import default_max_tokens
from translate_ddp.settings import CheckpointConfig, CorpusConfig, TokenizerConfig
from translate_ddp.training.checkpoint import CheckpointStore

DEMO_STEPS = 300
PACE = "sentences_per_second"
BAR = "sentences/s"
GENERATE = "transformers generate"
RATIO = f"x {GENERATE}"
BATCHES = (
    default_max_tokens(default_device()),
    256,
    1024,
    8192,
    1,
)  # tokens; the others are compared with the first
ONE_BY_ONE = 100  # sentences


@dataclass(frozen=True)
class DecodingBenchmark:
    """Measure decoding throughput side by side with other decoders."""

    model_folder: str = ""
    """Folder of the checkpoints; '' trains the embedded demo for a minute first."""
    preload: str = CheckpointConfig.preload
    """latest, an epoch's number, or a file."""
    source: str = ""
    """A file of sentences, one a line; '' takes those the model was validated with, then those
    it was trained with."""
    reference: str = ""
    """The file of their translations, for BLEU."""
    sentences: int = 1000
    """Take at most so many."""
    beam_width: int = 5
    """Of beam search, which is measured beside greedy search."""
    rounds: int = 3
    """Runs of each contestant."""
    only: tuple[str, ...] = ()
    """Contestants of which the name contains one of these; all if there is none."""
    timeout_seconds: float = 900.0
    """A contestant's run that takes longer has failed."""
    work: str = ""
    """Folder for the demo's model, if none is given, and the translations, kept afterwards;
    '' is one that is removed."""
    results: Path = RESULTS
    """Folder that receives the report."""

    def __post_init__(self) -> None:
        for name in ("sentences", "beam_width", "rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but is {getattr(self, name)}.")


@dataclass(frozen=True)
class Entry:
    """A contestant in one of its settings."""

    name: str
    module: str  # below benchmarks.decoders
    beam_width: int = 1
    flags: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return re.sub(r"\W+", "-", self.name) + ".json"

    def contestant(self, work: Path) -> Contestant:
        module = ["-m", f"benchmarks.decoders.{self.module}"]
        given = ["--work", str(work), "--write_to", self.file]
        width = ["--beam_width", str(self.beam_width)]
        offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        return Contestant(
            self.name, [sys.executable, *module, *given, *width, *self.flags], offline
        )

    def translations(self, work: Path) -> Ids:
        return json.loads((work / self.file).read_text(encoding="utf-8"))


def entries(beam_width: int) -> list[Entry]:
    """All contestants on this machine: greedy search, then beam search, ours first."""
    return [entry for width in sorted({1, beam_width}) for entry in entries_of(width)]


def entries_of(width: int) -> list[Entry]:
    search = "greedy" if width == 1 else f"beam {width}"
    bf16 = ("--precision", "bf16")
    found = [
        Entry(f"{OWN} {search}, fp32", "ours", width),
        Entry(f"{OWN} {search}, bf16", "ours", width, bf16),
        Entry(f"{GENERATE} {search}, fp32", "generate", width),
        Entry(f"{GENERATE} {search}, fp32, by length", "generate", width, ("--by_length",)),
        Entry(f"{GENERATE} {search}, bf16, by length", "generate", width, ("--by_length", *bf16)),
    ]
    cores = len(os.sched_getaffinity(0))
    for kind, (workers, threads) in itertools.product(
        ("float32", "int8"), dict.fromkeys([(1, cores), (cores, 1)])
    ):
        arranged = ("--workers", str(workers), "--threads", str(threads))
        name = f"CTranslate2 {search}, {kind}, {workers} x {threads}"
        found.append(Entry(name, "ctranslate", width, ("--compute_type", kind, *arranged)))
    return found


def main() -> None:
    with report_errors():
        settings = tyro.cli(DecodingBenchmark, description=__doc__, use_underscores=True)
        offered = entries(settings.beam_width)
        chosen = [
            e for e in offered if not settings.only or any(o in e.name for o in settings.only)
        ]
        if not chosen:
            names = "; ".join(entry.name for entry in offered)
            raise UserError(f"--only {' '.join(settings.only)} names none of: {names}.")
        with work_folder(settings.work) as name:
            compare(settings, chosen, Path(name).absolute())


def work_folder(chosen: str) -> AbstractContextManager[str]:
    if not chosen:
        return tempfile.TemporaryDirectory()
    Path(chosen).mkdir(parents=True, exist_ok=True)
    return nullcontext(chosen)


def compare(settings: DecodingBenchmark, chosen: Sequence[Entry], work: Path) -> None:
    model_folder = settings.model_folder or train_demo(work / "model")
    trained, task, references = prepare_task(settings, model_folder, work)
    about = facts() | peaks() | task_facts(trained, task)
    outcomes = run_rounds(
        [entry.contestant(work) for entry in chosen], settings.rounds, settings.timeout_seconds
    )
    results = [Result.of(*pair, work) for pair in zip(chosen, outcomes, strict=True)]
    batched = run_batches(work, settings.timeout_seconds)
    write_report(
        "decoding",
        "Decoding throughput, the same weights",
        [row(result, results, trained.tokenizer, references) for result in results],
        [BAR, "least to most", RATIO, "workers x threads", "equal", "BLEU"],
        BAR,
        about,
        {result.entry.name: result.outcome.rounds for result in [*results, *batched]},
        notes=[NOTE, independence(batched)],
        folder=settings.results,
    )


NOTE = (
    f"{RATIO}: how many times as fast as it is in fp32 on batches in the order given, with "
    "that beam. equal: sentences with the same ids as ours in fp32. What is outside the clock, "
    "and what is not equal: `benchmarks/decoding.py`."
)


def train_demo(folder: Path) -> str:
    """A model of the embedded corpus in the folder; what is there already goes on or stays."""
    flags = ["--model_folder", str(folder), "--max_steps", str(DEMO_STEPS)]
    command = [sys.executable, "train.py", *flags, "--wandb_mode", "disabled"]
    if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        raise UserError("The demo could not be trained: see above.")
    return str(folder)


def prepare_task(
    settings: DecodingBenchmark, model_folder: str, work: Path
) -> tuple[Trained, Task, list[str]]:
    """The model, the task in its folder, and references if there are any."""
    store = CheckpointStore(CheckpointConfig(model_folder))
    checkpoint, _ = store.find(settings.preload)
    if checkpoint is None:
        raise UserError(f"{model_folder} holds no checkpoint: train first.")
    task = Task(work, str(checkpoint.path.absolute()), [])
    trained = task.trained()
    if settings.source:
        sources, references = read_files(settings, trained)
    else:
        sources, references = read_corpus(Path(model_folder), trained, settings.sentences)
    task.sources.extend(sources[: settings.sentences])
    task.save()
    return trained, task, references[: settings.sentences]


def read_files(settings: DecodingBenchmark, trained: Trained) -> tuple[Ids, list[str]]:
    source = Path(settings.source)
    pairs = read_parallel(source, Path(settings.reference or source))
    sources = trained.tokenizer.encode(list(pairs["src"]))
    return sources, list(pairs["tgt"]) if settings.reference else []


def read_corpus(folder: Path, trained: Trained, count: int) -> tuple[Ids, list[str]]:
    """The first `count` validation pairs, then training pairs, of the corpus of a training run."""
    about = trained.about
    corpus, tokenizer = CorpusConfig(**about["corpus"]), TokenizerConfig(**about["tokenizer"])
    data = load_prepared(prepare(corpus, tokenizer, about["batches"]["seq_len"], folder / "data"))
    pairs = [pair for part in (data.validation, data.train) for pair in first_of(part, count)]
    sources, targets = zip(*pairs[:count], strict=True)
    references = trained.tokenizer.decode([ids.tolist() for ids in targets])
    return [ids.tolist() for ids in sources], references


def first_of(pairs: ParallelDataset, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [pairs[row] for row in range(min(count, len(pairs)))]


def peaks() -> dict[str, int]:
    measured = matrix_peaks(default_device())
    return {f"{name} matrix product, GFLOP/s": round(pace) for name, pace in measured.items()}


def task_facts(trained: Trained, task: Task) -> dict[str, Any]:
    corpus = trained.about["corpus"]
    dataset = "/".join(Path(corpus["dataset"]).parts[-2:])
    return {
        "corpus": f"{dataset} {corpus['lang_src']}-{corpus['lang_tgt']}",
        "parameters": f"{sum(p.numel() for p in trained.model.parameters()):,}",
        "sentences": len(task.sources),
        "source tokens": sum(map(len, task.sources)),
    } | {package: version(package) for package in ("transformers", "ctranslate2")}


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


@dataclass(frozen=True)
class Result:
    """What became of a contestant."""

    entry: Entry
    outcome: Outcome
    found: Ids  # its translations, none if it failed

    @classmethod
    def of(cls, entry: Entry, outcome: Outcome, work: Path) -> "Result":
        return cls(entry, outcome, [] if outcome.failure else entry.translations(work))

    @property
    def pace(self) -> float:
        return median(self.outcome, PACE)


def row(
    result: Result, results: Sequence[Result], tokenizer: Tokenizer, references: list[str]
) -> Row:
    """A line; what is compared with a contestant that was not run, or failed, stays empty."""
    if result.outcome.failure:
        return Row(result.entry.name, {}, result.outcome.failure)
    least, most = spread(result.outcome, PACE)
    values: dict[str, str | float] = {
        BAR: result.pace,
        "least to most": f"{least:,.0f} to {most:,.0f}",
        "workers x threads": result.outcome.rounds[-1]["arrangement"],
    }
    if base := plain(results, "generate", result.entry.beam_width):
        values[RATIO] = result.pace / base.pace
    if own := plain(results, "ours", result.entry.beam_width):
        values["equal"] = f"{1 - differing(result.found, own.found) / len(own.found):.1%}"
    if references:
        texts = tokenizer.decode(result.found)
        values["BLEU"] = f"{sacrebleu.corpus_bleu(texts, [references]).score:.2f}"
    return Row(result.entry.name, values, spread=(least, most))


def plain(results: Sequence[Result], module: str, beam_width: int) -> Result | None:
    """The result of a decoder without any settings, if there is one."""
    for result in results:
        entry = result.entry
        if (entry.module, entry.beam_width, entry.flags) == (module, beam_width, ()):
            return None if result.outcome.failure else result
    return None


def differing(found: Ids, own: Ids) -> int:
    return sum(a != b for a, b in zip(found, own, strict=False))


def run_batches(work: Path, timeout: float) -> list[Result]:
    """Our greedy search in fp32 with batches of several sizes."""
    tried = []
    for tokens in BATCHES:
        name = f"in batches of {tokens:,} tokens" if tokens > 1 else "one by one"
        few = ONE_BY_ONE if tokens == 1 else 0
        flags = ("--batch_tokens", str(tokens), "--sentences", str(few))
        tried.append(Entry(name, "ours", flags=flags))
    outcomes = run_rounds([entry.contestant(work) for entry in tried], 1, timeout)
    return [Result.of(*pair, work) for pair in zip(tried, outcomes, strict=True)]


def independence(batched: Sequence[Result]) -> str:
    """A sentence on how far our translations depend on the sentences they are batched with."""
    for result in batched:
        if result.outcome.failure:
            return f"{OWN} {result.entry.name} failed: {result.outcome.failure}"
    first, *others = batched
    counts = [
        f"{differing(other.found, first.found)} of {len(other.found):,} {other.entry.name}"
        for other in others
    ]
    return (
        f"Of the translations by {OWN} in fp32, greedy, {', '.join(counts)} differ from those "
        f"{first.entry.name}."
    )


if __name__ == "__main__":
    main()
