"""Preparation of corpora beside `datasets.map`: pairs per second, memory and disk.

    python -m benchmarks.preparation --pairs 100000 1000000
    python -m benchmarks.preparation --corpus data/train --lang_tgt de --only translate_ddp

Each measurement is one process in new folders, also of its caches and temporary files. Without
--corpus, corpora are generated (`generated_text.py`). Rounds are interleaved. Contestants:
`preparers/`. What is equal and what is not: `benchmarks/README.md`.
"""

import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import median

from benchmarks.common import OWN, Settings, Values, module_command, read_settings, select
from benchmarks.generated_text import write_corpus
from benchmarks.machine import facts
from benchmarks.preparers import Task
from benchmarks.report import Row, short, write_report
from benchmarks.rounds import (
    Outcome,
    Outcomes,
    Result,
    Usage,
    disk_mib,
    interleave,
    raw,
    rows,
    run_once,
)
from translate_ddp.errors import UserError, report_errors

CONTESTANTS = {  # label -> module
    OWN: "preparers.ours",
    "datasets.map": "preparers.transformers_map",
}
PEERS = ("datasets", "transformers")
CACHES = ("home", "huggingface")  # below the folder of a measurement
UNSET = ("TOKENIZERS_PARALLELISM", "HF_DATASETS_CACHE", "HF_HUB_CACHE")  # of the user
SAMPLE_SECONDS = 0.2
STARTS = {"first step, s": "first_step_seconds", "second start, s": "second_start_seconds"}
SIZES = {  # column -> key
    "largest process, MiB": "largest_rss_mib",
    "all processes, MiB": "peak_rss_mib",
    "anonymous, MiB": "anonymous_mib",
    "disk, MiB": "disk_mib",
    "left, MiB": "left_mib",
    "in caches, MiB": "caches_mib",
}
NOTE = (
    "Seconds are from launch until the data is on disk, and until the record of the first step. "
    "Largest process and all processes: peaks of resident memory. Anonymous: peak of the anonymous "
    "memory of all processes, with shared pages counted once. Disk: peak of all "
    "files. Left: what stays on purpose; in caches: what stays in HOME and HF_HOME."
)


@dataclass(frozen=True)
class PreparationBenchmark(Settings):
    pairs: tuple[int, ...] = (100_000, 1_000_000)
    """Sizes of the generated corpora."""
    corpus: str = ""
    """Parallel text instead of these: common start of two files, which end in .LANGUAGE."""
    lang_src: str = "en"
    """Source language."""
    lang_tgt: str = "de"
    """Target language."""
    vocab_size: int = 16_000
    """Of the joint vocabulary, for all contestants."""
    tokenizer_pairs: int = 150_000
    """Pairs that peers train their tokenizer on: as many lines as ours reads at most."""
    processes: int = len(os.sched_getaffinity(0))
    """Processes of the peers; translate_ddp uses all cores."""
    only: tuple[str, ...] = ()
    """Run only contestants whose names contain one of these."""
    work: Path | None = None
    """Folder for corpora, which are kept, and for what is measured; none: a temporary one."""
    rounds: int = 3
    """Measurements of each contestant and size."""
    timeout: float = 7200.0
    """Seconds after which a contestant has failed."""


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as temporary:
        settings = read_settings(PreparationBenchmark, __doc__)
        work = (settings.work or Path(temporary)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        names = select(list(CONTESTANTS), settings.only)
        outcomes: dict[int, Outcomes] = {}  # by number of pairs
        for pairs in [0] if settings.corpus else settings.pairs:
            task, count = provide_task(settings, pairs, work)
            measures = {
                name: partial(measure, CONTESTANTS[name], task, count, settings.timeout)
                for name in names
            }
            outcomes[count] = interleave(measures, settings.rounds)
            write_results(settings, outcomes)  # after each size: large ones take hours


def provide_task(settings: PreparationBenchmark, pairs: int, work: Path) -> tuple[Task, int]:
    """The corpus, given or generated, as parallel text and as jsonl, and its number of pairs.

    Raises UserError if the given corpus cannot be read.
    """
    prefix = Path(settings.corpus or work / f"{pairs}-pairs").absolute()
    languages = settings.lang_src, settings.lang_tgt
    jsonl = work / f"{prefix.name}.jsonl"  # not beside a given corpus
    sizes = settings.vocab_size, settings.tokenizer_pairs, settings.processes
    task = Task(str(prefix), jsonl, work, *languages, *sizes)
    if not settings.corpus and not all(file.exists() for file in task.files):
        write_corpus(task.files, pairs)
    try:
        return task, write_jsonl(task)
    except (OSError, ValueError) as error:
        raise UserError(f"{prefix} cannot be read as parallel text: {error}.") from error


def write_jsonl(task: Task) -> int:
    """Write the pairs as jsonl; returns their number.

    Raises ValueError if the files have different numbers of lines or are not UTF-8.
    """
    count, languages = 0, (task.lang_src, task.lang_tgt)
    source, target = task.files
    with (
        source.open(encoding="utf-8", newline="\n") as ours,
        target.open(encoding="utf-8", newline="\n") as theirs,
        task.jsonl.open("w", encoding="utf-8") as file,
    ):
        for pair in zip(ours, theirs, strict=True):
            texts = (line.removesuffix("\n") for line in pair)
            content = {"translation": dict(zip(languages, texts, strict=True))}
            file.write(json.dumps(content, ensure_ascii=False) + "\n")
            count += 1
    return count


def measure(module: str, task: Task, pairs: int, timeout: float, _: int) -> Result:
    """The result of one preparation in a new folder, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(dir=task.work) as temporary:
        folder = Path(temporary)
        work, home, huggingface, tmp = (folder / name for name in ("work", *CACHES, "tmp"))
        for path in (work, home, huggingface, tmp):
            path.mkdir()
        environment = {k: v for k, v in os.environ.items() if k not in UNSET} | {
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home),
            "HF_HOME": str(huggingface),
            "HF_HUB_OFFLINE": "1",
            "TMPDIR": str(tmp),
        }
        command = module_command(module, asdict(replace(task, work=work)))
        usage = Usage(folder)
        begin = time.monotonic()
        result = run_once(command, timeout, environment, usage, SAMPLE_SECONDS)
        seconds = time.monotonic() - begin
        caches = disk_mib(home) + disk_mib(huggingface)
        left = {"left_mib": disk_mib(work), "caches_mib": caches, "tmp_mib": disk_mib(tmp)}
    # Our own result has other seconds, and omits the checkpoint of the training.
    result = {"seconds": seconds} | usage.peaks | left | result
    return result | {"pairs_per_second": pairs / result["seconds"]}


def write_results(settings: PreparationBenchmark, outcomes: Mapping[int, Outcomes]) -> None:
    about = {
        "corpus": short(settings.corpus) or "generated",
        "vocabulary": f"{settings.vocab_size:,}",
        "tokenizers of peers": f"trained on {settings.tokenizer_pairs:,} pairs",
        "processes of peers": settings.processes,
    }
    versions = {d.name: d.version for d in metadata.distributions() if d.name in PEERS}
    write_report(
        "preparation",
        "Preparation of a corpus",
        [row for pairs, found in outcomes.items() for row in rows_of(pairs, found)],
        facts=facts() | about | versions,
        raw={f"{pairs:,} pairs": raw(found) for pairs, found in outcomes.items()},
        notes=[NOTE],
        folder=settings.results,
    )


def rows_of(pairs: int, outcomes: Outcomes) -> list[Row]:
    """A row of each contestant at this size: medians of times, the most of memory and disk."""
    own = outcomes.get(OWN, Outcome())

    def further(_: str, outcome: Outcome) -> Values:
        values: Values = {"pairs/s": outcome.median("pairs_per_second")}
        rounds = list(zip(outcome.all("seconds"), own.all("seconds"), strict=False))
        if rounds:
            values["times ours"] = median(seconds / ours for seconds, ours in rounds)
        for column, key in STARTS.items():
            values[column] = outcome.median(key) if key in outcome.rounds[0] else ""
        return values | {column: max(outcome.all(key)) for column, key in SIZES.items()}

    return [
        Row(f"{row.label}, {pairs:,} pairs", row.values, row.failure)
        for row in rows(outcomes, "seconds", "seconds", further)
    ]


if __name__ == "__main__":
    main()
