"""What every trainer is asked for and answers: the same task, flags and result.

It does without torch, since what a contestant imports to start another program counts as memory.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tyro

ROOT = Path(__file__).resolve().parents[2]
WARMUP_STEPS = 5  # before the clock starts
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Task:
    """Corpus and shape, the same for all; `training` writes it into its work folder."""

    device: str  # "cpu" or "cuda"
    prepared: str  # folder of the encoded corpus
    flags: list[str]  # with which train.py finds that corpus and makes that model
    pairs: int
    vocabulary: int
    sentences: int  # whose targets have about `batch_tokens` tokens together
    batch_tokens: int
    seq_len: int
    d_model: int
    num_heads: int
    num_encoder_layers: int
    num_decoder_layers: int
    d_ff: int
    dropout: float
    label_smoothing: float

    def save(self, work: Path) -> None:
        (work / "task.json").write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, work: Path) -> "Task":
        return cls(**json.loads((work / "task.json").read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Flags:
    work: Path
    """Folder that `python -m benchmarks.training --work` prepared."""
    seconds: float = 30.0
    """How long to measure, after warm-up."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of matrix products."""
    processes: int = 1
    """Processes that share the work."""
    threads: int = len(os.sched_getaffinity(0))
    """Of each process."""
    batch_size: int = 0
    """Sentences a process and step, where the trainer leaves the choice; 0 counts tokens."""


def read_flags(about: str) -> tuple[Flags, Task]:
    flags = tyro.cli(Flags, description=about, use_underscores=True)
    return flags, Task.load(flags.work)


def launcher(processes: int) -> list[str]:
    """What starts a Python program on so many processes."""
    if processes == 1:
        return [sys.executable]
    run = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    return [sys.executable, *run]


def answer(tokens: float, seconds: float, steps: int, padding_share: float | None = None) -> None:
    """Print the result, the last thing that a trainer does."""
    result = {"target_tokens_per_second": tokens / seconds, "steps": steps, "seconds": seconds}
    if padding_share is not None:
        result["padding_share"] = padding_share
    print(json.dumps(result), flush=True)


def follow(
    command: list[str],
    environment: Mapping[str, str],
    log: Path,
    has_enough: Callable[[], bool],
) -> None:
    """Run the command, its output in `log`, until `has_enough`; then ask it to stop.

    Raises SystemExit, with the log's last line, if it ends before.
    """
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | environment, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            while not has_enough():
                if process.poll() is not None:
                    lines = log.read_text(errors="replace").strip().splitlines()
                    raise SystemExit(f"it ended by itself: {lines[-1] if lines else 'no output'}")
                time.sleep(POLL_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            process.wait()
