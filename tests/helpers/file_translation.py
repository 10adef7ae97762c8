"""Runs of `translate` and `score` that write files in chunks of four texts."""

import os
from pathlib import Path

from tests.helpers import processes
from tests.helpers.commands import run_translate_ddp
from translate_ddp.runtime.fault_injection import VARIABLE

ROWS = 4


def run_in_small_chunks(words: tuple[str, ...], gpus: int, cores: int) -> None:
    from translate_ddp.apps.commands import model_commands

    model_commands.ROWS, model_commands.PARTS_PER_WORKER = ROWS, 2
    model_commands.visible_gpus = lambda: [""] * gpus  # that is, on the CPU
    model_commands.usable_cores = lambda: cores
    run_translate_ddp(words)


def start(
    folder: Path, *words: str, size: int = 1, fault: str = "", gpus: int = 0, cores: int = 1
) -> processes.Job:
    """The command on `size` ranks, as torchrun starts them; what they print goes to `folder`.

    As on a machine with so many GPUs and cores.
    """
    environment = {VARIABLE: fault} if fault else {}
    return processes.start(run_in_small_chunks, folder, size, environment, words, gpus, cores)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
