"""`python -m translate_ddp check FOLDER`: verify the digest and the content of every checkpoint."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from translate_ddp.console import print_line, printable
from translate_ddp.errors import UserError
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import load, verify
from translate_ddp.training.checkpoint_name import Checkpoint, parse_name

COLUMNS = ("file", "kind", "epoch", "step", "size", "result")


@dataclass(frozen=True)
class CheckConfig:
    """Verify every checkpoint in a folder; exit code 1 if one is damaged."""

    folder: Annotated[str, tyro.conf.Positional] = CheckpointConfig.model_folder
    """Folder of the checkpoints."""


def run(config: CheckConfig) -> None:
    folder = Path(config.folder)
    if folder.is_file():
        raise UserError(f"{folder} is a file: pass its folder, {folder.absolute().parent}")
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}: pass the --model_folder of a run.")
    checkpoints = [found for path in folder.iterdir() if (found := parse_name(path))]
    if not checkpoints:
        raise UserError(f"{folder} holds no checkpoint: pass the --model_folder of a run.")
    checkpoints.sort(key=lambda checkpoint: (checkpoint.order, checkpoint.path.name))
    results = [result_of(checkpoint) for checkpoint in checkpoints]
    rows = [COLUMNS] + [
        row(checkpoint, result) for checkpoint, result in zip(checkpoints, results, strict=True)
    ]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for cells in rows:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        print_line("  ".join(padded).rstrip())
    if any(result != "ok" for result in results):
        sys.exit(1)


def result_of(checkpoint: Checkpoint) -> str:
    """The problem of a checkpoint, or "ok". The file is parsed only if its digest matches."""
    try:
        verify(checkpoint.path)
        load(checkpoint.path, mapped=True)
    except UserError as error:
        return str(error)
    return "ok"


def row(checkpoint: Checkpoint, result: str) -> tuple[str, ...]:
    is_epoch = checkpoint.epoch is not None
    return (
        printable(checkpoint.path.name),
        "epoch" if is_epoch else "step",
        str(checkpoint.epoch) if is_epoch else "-",
        str(checkpoint.step),
        f"{checkpoint.path.stat().st_size / 2**20:,.1f} MiB" if checkpoint.path.exists() else "-",
        printable(result),
    )
