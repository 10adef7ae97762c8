"""Runs of `translate` and `score` that write files in chunks of four texts."""

import os
from pathlib import Path

from tests.helpers import processes
from tests.helpers.commands import run_translate_ddp
from translate_ddp.runtime.fault_injection import VARIABLE

ROWS = 4


def run_in_small_chunks(words: tuple[str, ...]) -> None:
    from translate_ddp.apps.commands import model_commands

    model_commands.ROWS = ROWS
    run_translate_ddp(words)


def start(folder: Path, *words: str, size: int = 1, fault: str = "") -> processes.Job:
    """The command on `size` ranks, as torchrun starts them; what they print goes to `folder`."""
    environment = {VARIABLE: fault} if fault else {}
    return processes.start(run_in_small_chunks, folder, size, environment, words)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
