"""`python -m translate_ddp average`: write the average of the last epochs to a file."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from translate_ddp.checks import check_at_least
from translate_ddp.console import print_line, printable
from translate_ddp.errors import UserError
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.files import check_new, publish
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.checkpoint_file import write
from translate_ddp.training.checkpoint_name import check_no_digest
from translate_ddp.training.open_checkpoint import open_checkpoint


@dataclass(frozen=True)
class AverageConfig:
    """Write a checkpoint with the average weights of the last epochs, to use or to fine-tune."""

    output: str
    """File to write; it must not exist."""
    folder: Annotated[str, tyro.conf.Positional] = CheckpointConfig.model_folder
    """Folder of the checkpoints."""
    model_basename: str = CheckpointConfig.model_basename
    """Prefix of the checkpoint names."""
    preload: str = CheckpointConfig.preload
    """Last checkpoint of the average: latest, best (epoch), an epoch number, or a file."""
    average: int = 0
    """Epochs to average; 0: as set in training (best and files: pass a number)."""

    def __post_init__(self) -> None:
        check_at_least(0, self, "average")
        CheckpointConfig(self.folder, self.model_basename)  # checks both
        check_no_digest(self.output)


def run(config: AverageConfig) -> None:
    output = Path(config.output)
    check_new(output)
    store = CheckpointStore(CheckpointConfig(config.folder, config.model_basename))
    opened = open_checkpoint(store, config.preload, config.average)
    for line in opened.messages:
        print_line(printable(line), sys.stderr)
    if not opened.is_average or len(opened.state.run.history) < 2:
        raise UserError(
            f"There is nothing to average in {store.folder}: pass --average N with N of at least "
            "2. It takes as many finished epochs."
        )
    publish(output, lambda partial: write(partial, opened.state))
    print_line(f"Wrote {output}. To fine-tune it: train.py --init_from {shlex.quote(str(output))}")
