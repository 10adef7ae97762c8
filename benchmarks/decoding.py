"""Decoding throughput beside other decoders with the same weights.

    python -m benchmarks.decoding
    python -m benchmarks.decoding --model_folder weights/two --source test.en --reference test.de

Each contestant is a separate process; the rounds of all contestants are interleaved. Input and
output are token ids. Loading, conversion, tokenization and a warm-up call are not timed.

Equal for all: the weights, converted to Pegasus for transformers and CTranslate2; the sentences;
all cores of the machine.

Not equal:
- Maximum length: a translation may have twice the tokens of its source plus 20. Ours applies this
  limit to each sentence, transformers the longest sentence's to a batch, CTranslate2 the longest
  sentence's to all. Longer output, of the few sentences that do not end, is cut afterwards.
- Beam search: all stop when as many hypotheses have ended as the beam is wide, and return the best
  by log-probability / length: ours divides by ((5 + length) / 6)^0.6, the others by length^0.6.
- Batches: ours by tokens and length, transformers 64 sentences in the given order (`by length`:
  sorted), CTranslate2 256 rows of the beam, sorted by itself.

"Equal" is the share of sentences with the same ids as translate_ddp in fp32 with the same beam.
"""

import itertools
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import sacrebleu

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
from benchmarks.decoders.prepare import prepare_task, task_facts, train_demo
from benchmarks.decoders.task import Ids
from benchmarks.machine import default_device, facts_and_peaks
from benchmarks.report import OWN, Row, write_report
from benchmarks.rounds import Outcome, run_rounds
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import report_errors
from translate_ddp.modeling.decoding import default_max_tokens
from translate_ddp.settings import CheckpointConfig

PACE = "sentences_per_second"
BAR = "sentences/s"
GENERATE = "transformers generate"
RATIO = f"x {GENERATE}"
# Tokens; results with the other sizes are compared with those of the first.
BATCHES = (default_max_tokens(default_device()), 256, 1024, 8192, 1)
ONE_BY_ONE = 100  # sentences
TITLE = "Decoding throughput, the same weights"
NOTE = (
    f"{RATIO}: ratio to its pace in fp32 on batches in the given order with the same beam. equal: "
    "sentences with the same ids as ours in fp32. What is not timed and what is not equal: "
    "`benchmarks/decoding.py`."
)


@dataclass(frozen=True)
class DecodingBenchmark(Settings):
    model_folder: str = ""
    """Folder of the checkpoints; '' trains the embedded demo first, about a minute."""
    preload: str = CheckpointConfig.preload
    """latest, the number of an epoch, or a file."""
    source: str = ""
    """File with one sentence per line; '' takes the validation and then the training sentences
    of the model."""
    reference: str = ""
    """File of their translations, for BLEU."""
    sentences: int = 1000
    """Maximum number of sentences."""
    beam_width: int = 5
    """Width of beam search, which is measured in addition to greedy search."""
    rounds: int = 3
    """Runs of each contestant."""
    only: tuple[str, ...] = ()
    """Run only contestants whose name contains one of these."""
    timeout_seconds: float = 900.0
    """A run that takes longer has failed."""
    work: str = ""
    """Folder for the demo's model and the translations, which is kept; '' is a temporary folder."""

    def __post_init__(self) -> None:
        self.require_at_least(1, "sentences", "beam_width", "rounds")


@dataclass(frozen=True)
class Entry:
    """A contestant in one of its settings."""

    name: str
    module: str  # in benchmarks.decoders
    beam_width: int = 1
    flags: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return re.sub(r"\W+", "-", self.name) + ".json"

    def command(self, work: Path) -> list[str]:
        settings = {"work": work, "write_to": self.file, "beam_width": self.beam_width}
        module = ["-m", f"benchmarks.decoders.{self.module}"]
        return [*python(), *module, *as_flags(settings), *self.flags]


def entries(beam_width: int) -> list[Entry]:
    """All contestants on this machine: greedy search, then beam search, ours first."""
    cores = len(os.sched_getaffinity(0))
    bf16, by_length = ("--precision", "bf16"), ("--by_length",)
    found = []
    for width in sorted({1, beam_width}):
        search = "greedy" if width == 1 else f"beam {width}"
        found += [
            Entry(f"{OWN} {search}, fp32", "ours", width),
            Entry(f"{OWN} {search}, bf16", "ours", width, bf16),
            Entry(f"{GENERATE} {search}, fp32", "generate", width),
            Entry(f"{GENERATE} {search}, fp32, by length", "generate", width, by_length),
            Entry(f"{GENERATE} {search}, bf16, by length", "generate", width, by_length + bf16),
        ]
        arrangements = dict.fromkeys([(1, cores), (cores, 1)])
        for kind, (workers, threads) in itertools.product(("float32", "int8"), arrangements):
            flags = as_flags({"compute_type": kind, "workers": workers, "threads": threads})
            name = f"CTranslate2 {search}, {kind}, {workers} x {threads}"
            found.append(Entry(name, "ctranslate", width, tuple(flags)))
    return found


def main() -> None:
    with report_errors():
        settings = read_settings(DecodingBenchmark, __doc__)
        chosen = select(entries(settings.beam_width), settings.only)
        with work_folder(settings.work) as work:
            compare(settings, chosen, work)


def compare(settings: DecodingBenchmark, chosen: Sequence[Entry], work: Path) -> None:
    model_folder = settings.model_folder or train_demo(work / "model")
    trained, task, references = prepare_task(
        work,
        Path(model_folder),
        settings.preload,
        settings.source,
        settings.reference,
        settings.sentences,
    )
    facts = facts_and_peaks() | task_facts(trained, task)
    results = run_entries(chosen, work, settings.rounds, settings.timeout_seconds)
    batched = run_entries(entries_by_batch(), work, 1, settings.timeout_seconds)
    rows = [row(result, results, trained.tokenizer, references) for result in results]
    ranges = [None if r.outcome.failure else r.outcome.range(PACE) for r in results]
    write_report(
        "decoding",
        TITLE,
        rows,
        [BAR, "least to most", RATIO, "workers x threads", "equal", "BLEU"],
        facts=facts,
        raw={result.entry.name: result.outcome.rounds for result in [*results, *batched]},
        folder=settings.results,
        notes=[NOTE, independence(batched)],
        draw=partial(draw_bars, rows, ranges, BAR, TITLE),
    )


@dataclass(frozen=True)
class Result:
    entry: Entry
    outcome: Outcome
    found: Ids  # translations; empty if the contestant failed


def run_entries(chosen: Sequence[Entry], work: Path, rounds: int, timeout: float) -> list[Result]:
    outcomes = run_rounds({e.name: e.command(work) for e in chosen}, rounds, timeout)
    results = []
    for entry in chosen:
        failed = outcomes[entry.name].failure
        found = [] if failed else json.loads((work / entry.file).read_text(encoding="utf-8"))
        results.append(Result(entry, outcomes[entry.name], found))
    return results


def row(
    result: Result, results: Sequence[Result], tokenizer: Tokenizer, references: list[str]
) -> Row:
    """A row; comparisons with a contestant without result stay empty."""
    if result.outcome.failure:
        return Row(result.entry.name, failure=result.outcome.failure)
    values: Values = {
        BAR: result.outcome.median(PACE),
        "least to most": result.outcome.least_to_most(PACE),
        "workers x threads": result.outcome.rounds[-1]["arrangement"],
    }
    if base := plain(results, "generate", result.entry.beam_width):
        values[RATIO] = result.outcome.median(PACE) / base.outcome.median(PACE)
    if own := plain(results, "ours", result.entry.beam_width):
        values["equal"] = f"{1 - differing(result.found, own.found) / len(own.found):.1%}"
    if references:
        texts = tokenizer.decode(result.found)
        values["BLEU"] = f"{sacrebleu.corpus_bleu(texts, [references]).score:.2f}"
    return Row(result.entry.name, values)


def plain(results: Sequence[Result], module: str, beam_width: int) -> Result | None:
    """The result of a decoder with its default settings; None if it failed or did not run."""
    for result in results:
        entry = result.entry
        if (entry.module, entry.beam_width, entry.flags) == (module, beam_width, ()):
            return None if result.outcome.failure else result
    return None


def differing(found: Ids, own: Ids) -> int:
    return sum(a != b for a, b in zip(found, own, strict=False))


def entries_by_batch() -> list[Entry]:
    """Our greedy search in fp32 with batches of several sizes."""
    found = []
    for tokens in BATCHES:
        name = f"in batches of {tokens:,} tokens" if tokens > 1 else "one by one"
        flags = as_flags({"max_tokens": tokens, "sentences": ONE_BY_ONE if tokens == 1 else 0})
        found.append(Entry(name, "ours", flags=tuple(flags)))
    return found


def independence(batched: Sequence[Result]) -> str:
    """How many of our translations depend on the size of the batch."""
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
