"""translate_ddp itself: `train.py` as a user starts it, measured by its own metrics.jsonl.

A record's pace leaves validation and saving out; the tokens of its steps are known from the plan,
so that the result is all tokens by all seconds. The first record is warm-up.
"""

import json
import tempfile
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from benchmarks.trainers.task import WARMUP_STEPS, Flags, Task, answer, follow, launcher, read_flags

PACE = "train/tokens_per_second"


def main() -> None:
    flags, task = read_flags(__doc__ or "")
    with tempfile.TemporaryDirectory(dir=flags.work) as temporary:
        folder = Path(temporary)
        (folder / "data").symlink_to(Path(task.prepared).parent)  # prepared once, for all runs
        own = own_flags(task, flags, folder)
        command = [*launcher(flags.processes), "train.py", *own]
        metrics = folder / "metrics.jsonl"
        follow(command, {}, folder / "log", lambda: wall_seconds(metrics) >= flags.seconds)
        records = read(metrics)
    conclude(task, own, flags.processes, records)


def own_flags(task: Task, flags: Flags, folder: Path) -> list[str]:
    settings: dict[str, Any] = {
        "precision": flags.precision,
        "batch_size": flags.batch_size,
        "num_epochs": 1_000_000,
        "log_every": WARMUP_STEPS,
        "save_every_minutes": 0,
        "preload": "",
        "model_folder": folder,
        "wandb_mode": "disabled",
    }
    return task.flags + [word for name, value in settings.items() for word in _flag(name, value)]


def _flag(name: str, value: Any) -> list[str]:
    return [f"--{name}", str(value)]


def read(metrics: Path) -> list[dict[str, Any]]:
    """The training records so far; a line that is still being written is none."""
    text = metrics.read_text(encoding="utf-8") if metrics.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [record for record in map(json.loads, lines) if PACE in record]


def wall_seconds(metrics: Path) -> float:
    """Since the warm-up."""
    records = read(metrics)
    return records[-1]["time"] - records[0]["time"] if records else 0.0


def conclude(task: Task, own: list[str], processes: int, records: list[dict[str, Any]]) -> None:
    # Only now, when the memory is measured: they bring torch.
    from config import parse
    from translate_ddp.data.batches import Lengths, StepSampler, padding_share
    from translate_ddp.data.dataset import load_prepared

    config = parse(own)
    sampler = StepSampler(
        Lengths.of(load_prepared(Path(task.prepared)).train),
        config.batches,
        seed=config.train.seed,
        rank=0,
        world_size=processes,
    )
    padding = padding_share(sampler, config.batches.pass_tokens(task.device))

    def epoch_tokens(epoch: int) -> list[int]:
        sampler.set_epoch(epoch)
        return [sampler.target_tokens(rows) for rows in sampler]

    steps = chain.from_iterable(epoch_tokens(epoch) for epoch in count())
    tokens = list(islice(steps, records[-1]["step"]))
    windows = [
        (sum(tokens[before["step"] : record["step"]]), record[PACE])
        for before, record in zip(records, records[1:], strict=False)
    ]
    seconds = sum(done / pace for done, pace in windows)
    measured_steps = records[-1]["step"] - records[0]["step"]
    answer(sum(done for done, _ in windows), seconds, measured_steps, padding)


if __name__ == "__main__":
    main()
