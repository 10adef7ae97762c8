"""Decoding throughput beside other decoders with the same weights.

    python -m benchmarks.decoding
    python -m benchmarks.decoding --model_folder weights/two --source test.en --reference test.de

Each contestant is a separate process; the rounds of all contestants are interleaved. Input and
output are token ids. Loading, conversion, tokenization and a warm-up call are not timed. What is
equal for all contestants, and what is not: `benchmarks/README.md`.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sacrebleu

from benchmarks.common import OWN, Settings, Values, module_command, read_settings, select
from benchmarks.decoders.task import Ids, prepare_task, task_facts, train_demo
from benchmarks.machine import facts_and_peaks
from benchmarks.report import write_report
from benchmarks.rounds import Outcome, Outcomes, raw, rows, run_rounds
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import report_errors

PACE = "sentences_per_second"
BAR = "sentences/s"
GENERATE = "transformers generate"
TIMEOUT_SECONDS = 900
TITLE = "Decoding with the same weights"
NOTE = (
    f"x {GENERATE}: ratio to its pace in fp32 on batches in the given order with the same beam. "
    "equal: sentences with the same ids as ours in fp32. What is not equal: `benchmarks/README.md`."
)


@dataclass(frozen=True)
class DecodingBenchmark(Settings):
    model_folder: str = ""
    """Folder of the checkpoints; '' trains the embedded demo first, about a minute."""
    source: str = ""
    """File with one sentence per line; '' takes the validation sentences of the embedded demo."""
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


def search_name(beam_width: int) -> str:
    return "greedy" if beam_width == 1 else f"beam {beam_width}"


def contestants(beam_width: int) -> dict[str, list[str]]:
    """The commands of all contestants by name: greedy search, then beam search, ours first."""
    cores = len(os.sched_getaffinity(0))
    bf16, by_length = {"precision": "bf16"}, {"order": "length"}
    entries: list[tuple[str, str, str, Mapping[str, Any]]] = [
        (OWN, "fp32", "ours", {}),
        (OWN, "bf16", "ours", bf16),
        (GENERATE, "fp32", "generate", {}),
        (GENERATE, "fp32, by length", "generate", by_length),
        (GENERATE, "bf16, by length", "generate", by_length | bf16),
    ]
    for kind in ("float32", "int8"):
        for workers, threads in dict.fromkeys([(1, cores), (cores, 1)]):
            settings = {"compute_type": kind, "workers": workers, "threads": threads}
            name = f"{kind}, {workers} x {threads}"
            entries.append(("CTranslate2", name, "ctranslate", settings))
    return {
        f"{decoder} {search_name(width)}, {name}": module_command(
            f"decoders.{module}", {"beam_width": width, **settings}
        )
        for width in sorted({1, beam_width})
        for decoder, name, module, settings in entries
    }


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as folder:
        settings = read_settings(DecodingBenchmark, __doc__)
        commands, work = contestants(settings.beam_width), Path(folder)
        commands = {name: commands[name] for name in select(list(commands), settings.only)}
        model_folder = Path(settings.model_folder or train_demo(work / "model"))
        texts = (settings.source, settings.reference, settings.sentences)
        trained, task, references = prepare_task(work, model_folder, *texts)
        outcomes, found = run(commands, work, settings.rounds)
        further = partial(further_values, outcomes, found, trained.tokenizer, references)
        write_report(
            "decoding",
            TITLE,
            rows(outcomes, PACE, BAR, further),
            facts=facts_and_peaks() | task_facts(trained, task),
            raw=raw(outcomes),
            folder=settings.results,
            notes=[NOTE],
        )


def run(
    commands: Mapping[str, list[str]], work: Path, rounds: int
) -> tuple[Outcomes, dict[str, Ids]]:
    """The outcomes of the decoders, and the translations of those that did not fail, by name."""
    full = {name: [*command, "--work", str(work)] for name, command in commands.items()}
    outcomes, found = run_rounds(full, rounds, TIMEOUT_SECONDS), {}
    for name, outcome in outcomes.items():
        for result in outcome.rounds:
            ids = result.pop("ids")
            if not outcome.failure:
                found[name] = ids
    return outcomes, found


def further_values(
    outcomes: Outcomes,
    found: Mapping[str, Ids],
    tokenizer: Tokenizer,
    references: list[str],
    name: str,
    outcome: Outcome,
) -> Values:
    """Comparisons with ours and with `generate`; left out if that contestant has no result."""
    search = search_name(outcome.rounds[-1]["beam_width"])
    values: Values = {}
    if (base := f"{GENERATE} {search}, fp32") in found:
        values[f"x {GENERATE}"] = outcome.median(PACE) / outcomes[base].median(PACE)
    values["workers x threads"] = outcome.rounds[-1]["arrangement"]
    if own := found.get(f"{OWN} {search}, fp32"):
        equal = sum(a == b for a, b in zip(found[name], own, strict=True))
        values["equal"] = f"{equal / len(own):.1%}"
    if references:
        texts = tokenizer.decode(found[name])
        values["BLEU"] = f"{sacrebleu.corpus_bleu(texts, [references]).score:.2f}"
    return values


if __name__ == "__main__":
    main()
