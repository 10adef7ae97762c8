"""The commands of the README, as a user types them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers import processes

ROOT = Path(__file__).resolve().parents[2]


TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def environment() -> dict[str, str]:
    """A shell without accounts, launchers or a network to look for."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB", "RANK", "SLURM"))}
    return kept | {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1"}


def background(words: list[str], folder: Path = ROOT, /, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        cwd=folder,
        env=environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def translate_ddp(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code and the output of that command, in a process that has imported everything."""
    job = processes.start(run_translate_ddp, folder, 1, None, words)
    return job.wait()[0], job.text()


def run_translate_ddp(words: tuple[str, ...]) -> None:
    from translate_ddp.__main__ import main

    sys.argv = ["translate_ddp", *words]
    main()
