"""`translate-ddp check FOLDER`: verify the digest and the content of every checkpoint."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from translate_ddp.apps.commands.command_line import run_folder
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
    folder = run_folder(config.folder)
    checkpoints = [found for path in folder.iterdir() if (found := parse_name(path))]
    if not checkpoints:
        raise UserError(f"{folder} holds no checkpoint: pass the --model_folder of a run.")
    checkpoints.sort(key=lambda checkpoint: (checkpoint.order, checkpoint.path.name))
    rows = [COLUMNS, *map(verified, checkpoints)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        print_line("  ".join(map(str.ljust, cells, widths)).rstrip())
    if any(cells[-1] != "ok" for cells in rows[1:]):
        sys.exit(1)


def verified(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The row of a checkpoint, which ends in its problem, or "ok".

    The file is parsed only if its digest matches.
    """
    path, result, size = checkpoint.path, "ok", "-"
    try:
        verify(path)
        load(path, mapped=True)
    except UserError as error:
        result = str(error)
    if path.exists():
        size = f"{path.stat().st_size / 2**20:,.1f} MiB"
    kind = ("step", "-") if checkpoint.epoch is None else ("epoch", str(checkpoint.epoch))
    return printable(path.name), *kind, str(checkpoint.step), size, printable(result)
