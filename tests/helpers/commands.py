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


def command(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=processes.SECONDS,
        check=False,
        **options,  # pyright: ignore[reportArgumentType, reportCallIssue]
    )
    return done


def background(words: list[str], **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        cwd=ROOT,
        env=environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def translate(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return command(sys.executable, "-m", "translate_ddp", *words, **options)
