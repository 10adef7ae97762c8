"""Preparation of corpora beside `datasets.map`: pairs per second, memory and disk.

    python -m benchmarks.preparation --pairs 100000 1000000

Each measurement is one process in new folders, also of its caches and temporary files. The corpora
are generated (`generated_text.py`). Rounds are interleaved. Contestants: `preparers/`. What is
equal and what is not: `benchmarks/README.md`.
"""

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import median

from benchmarks.common import OWN, ROOT, Settings, Values, module_command, read_settings, select
from benchmarks.generated_text import write_corpus
from benchmarks.machine import facts
from benchmarks.preparers import Task
from benchmarks.report import Row, write_report
from benchmarks.rounds import (
    RESIDENT,
    Outcome,
    Outcomes,
    Result,
    disk_mib,
    interleave,
    raw,
    rows,
    run_once,
)
from translate_ddp.errors import report_errors

CONTESTANTS = {  # label -> module
    OWN: "preparers.ours",
    "datasets.map": "preparers.transformers_map",
}
PEERS = ("datasets", "transformers")
UNSET = ("TOKENIZERS_PARALLELISM", "HF_DATASETS_CACHE", "HF_HUB_CACHE")  # of the user
SAMPLE_SECONDS = 0.2
STARTS = {"first step, s": "first_step_seconds", "second start, s": "second_start_seconds"}
SIZES = {  # column -> key
    "all processes, MiB": "peak_rss_mib",
    "anonymous, MiB": "anonymous_mib",
    "left, MiB": "left_mib",
    "in caches, MiB": "caches_mib",
}
MEMORY = RESIDENT | {"anonymous_mib": ("smaps_rollup", ("Pss_Anon", "Pss_Shmem"))}
NOTE = (
    "Seconds are from launch until the data is on disk, and until the record of the first step. "
    "All processes: peak of their resident memory. Anonymous: peak of their anonymous memory, "
    "which the kernel cannot drop, with shared pages counted once. Left: what stays on purpose; "
    "in caches: what stays in HOME and HF_HOME."
)


@dataclass(frozen=True)
class PreparationBenchmark(Settings):
    pairs: tuple[int, ...] = (100_000, 1_000_000)
    """Sizes of the generated corpora."""
    with_numbers: bool = False
    """Each pair has a number of four or five digits, which is a span."""
    vocab_size: int = 16_000
    """Of the joint vocabulary, for all contestants."""
    tokenizer_pairs: int = 150_000
    """Pairs that peers train their tokenizer on: as many lines as ours reads at most."""
    processes: int = len(os.sched_getaffinity(0))
    """Processes of the peers; translate_ddp uses all cores."""
    checkout: Path | None = None
    """Folder with another version of this repository, which is measured as well."""
    only: tuple[str, ...] = ()
    """Run only contestants whose names contain one of these."""
    rounds: int = 3
    """Measurements of each contestant and size."""
    timeout: float = 7200.0
    """Seconds after which a contestant has failed."""


def main() -> None:
    with report_errors():
        settings = read_settings(PreparationBenchmark, __doc__)
        contestants = {name: partial(measure, module) for name, module in CONTESTANTS.items()}
        if settings.checkout:
            folder = settings.checkout.resolve()
            contestants[folder.name] = partial(measure, CONTESTANTS[OWN], checkout=folder)
        names = select(list(contestants), settings.only)
        outcomes: dict[int, Outcomes] = {}  # by number of pairs
        for pairs in settings.pairs:
            with tempfile.TemporaryDirectory() as folder:
                task = provide_task(settings, pairs, Path(folder))
                measures = {
                    name: partial(contestants[name], task, pairs, settings.timeout)
                    for name in names
                }
                outcomes[pairs] = interleave(measures, settings.rounds)
            write_results(settings, outcomes)  # after each size: large ones take hours


def provide_task(settings: PreparationBenchmark, pairs: int, work: Path) -> Task:
    """A generated corpus in the folder `work`."""
    prefix = str(work.absolute() / f"{pairs}-pairs")
    sizes = settings.vocab_size, settings.tokenizer_pairs, settings.processes
    task = Task(prefix, Path(f"{prefix}.jsonl"), work, "en", "de", *sizes)
    write_corpus(task, pairs, settings.with_numbers)
    return task


def measure(
    module: str, task: Task, pairs: int, timeout: float, _: int, checkout: Path = ROOT
) -> Result:
    """The result of one preparation in a new folder, which is deleted afterwards.

    The module is of the version of this repository in `checkout`.
    """
    with tempfile.TemporaryDirectory(dir=task.work) as temporary:
        folder = Path(temporary)
        work, *caches, tmp = (folder / name for name in ("work", "home", "huggingface", "tmp"))
        for path in (work, *caches, tmp):
            path.mkdir()
        environment = {k: v for k, v in os.environ.items() if k not in UNSET} | {
            "HOME": str(caches[0]),
            "XDG_CACHE_HOME": str(caches[0]),
            "HF_HOME": str(caches[1]),
            "HF_HUB_OFFLINE": "1",
            "TMPDIR": str(tmp),
        }
        command = ["env", "-C", str(checkout), f"PYTHONPATH={checkout}"]
        command += module_command(module, asdict(replace(task, work=work)))
        begin = time.monotonic()
        result = run_once(command, timeout, environment, MEMORY, SAMPLE_SECONDS)
        seconds = time.monotonic() - begin
        left = {"left_mib": disk_mib(work), "caches_mib": sum(map(disk_mib, caches))}
    # Our own result has other seconds, and omits the checkpoint of the training.
    result = {"seconds": seconds} | left | result
    return result | {"pairs_per_second": pairs / result["seconds"]}


def write_results(settings: PreparationBenchmark, outcomes: Mapping[int, Outcomes]) -> None:
    about = {
        "a number in each pair": "yes" if settings.with_numbers else "no",
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
