"""translate_ddp: train.py in a new folder until its first step, and a second start.

`seconds` end when the last prepared folder is published. The second start is a new run with the
prepared data of the first. Each training is stopped after its first step.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import ROOT, as_flags, last_line, python, read_settings
from benchmarks.preparers import Task
from benchmarks.rounds import disk_mib
from translate_ddp.data.prepared_folder import SUMMARY_FILE

POLL_SECONDS = 0.05


def main() -> None:
    task = read_settings(Task, __doc__)
    first, second = task.work / "first", task.work / "second"
    begin = time.time()  # the clock of records and files
    first_step = until_first_step(task, first) - begin
    prepared = max(file.stat().st_mtime for file in (first / "data").rglob(SUMMARY_FILE)) - begin
    second.mkdir()
    (first / "data").rename(second / "data")
    begin = time.time()
    second_start = until_first_step(task, second) - begin
    result = {
        "seconds": prepared,
        "first_step_seconds": first_step,
        "second_start_seconds": second_start,
        "left_mib": disk_mib(second / "data"),
    }
    print(json.dumps(result))


def until_first_step(task: Task, folder: Path) -> float:
    """The time of the record of the first step. Exits with the message of a training that fails."""
    with tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command(task, folder), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=err
        )
        records = folder / "metrics.jsonl"
        while not (records.exists() and "\n" in records.read_text(encoding="utf-8")):
            if process.poll() is not None:
                err.seek(0)
                raise SystemExit(last_line(err.read()) or f"exit code {process.returncode}")
            time.sleep(POLL_SECONDS)
        process.terminate()
        process.wait()
    return json.loads(records.read_text(encoding="utf-8").partition("\n")[0])["time"]


def command(task: Task, folder: Path) -> Sequence[str]:
    names = ("lang_src", "lang_tgt", "vocab_size")
    flags = as_flags({name: getattr(task, name) for name in names})
    flags += as_flags({"dataset": task.corpus, "model_folder": folder, "preset": "tiny"})
    flags += as_flags({"log_every": 1, "wandb_mode": "disabled"})
    return [*python(), "train.py", "--no_perturb", *flags]


if __name__ == "__main__":
    main()
