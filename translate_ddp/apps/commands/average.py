"""`translate-ddp average`: write the average of the last epochs to a file."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from translate_ddp.apps.commands.model_commands import SavedModel
from translate_ddp.console import print_line
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import check_new, publish
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import write
from translate_ddp.training.checkpoint_name import check_no_digest


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
        check_no_digest(self.output)
        self.saved()  # checks the others

    def saved(self) -> SavedModel:
        return SavedModel(self.folder, self.model_basename, self.preload, self.average)


def run(config: AverageConfig) -> None:
    output = Path(config.output)
    check_new(output)
    opened = config.saved().open_checkpoint()
    if not opened.is_average or len(opened.state.run.history) < 2:
        raise UserError(
            f"There is nothing to average in {config.folder}: pass --average N with N of at least "
            "2. It takes as many finished epochs."
        )
    publish(output, lambda partial: write(partial, opened.state))
    flag = f"--init_from {shlex.quote(str(output))}"
    print_line(f"Wrote {output}. To fine-tune it: translate-ddp train {flag}")
