"""The flags with which commands select a trained model."""

from dataclasses import dataclass
from pathlib import Path

from translate_ddp.settings import CheckpointConfig, Split, check_at_least
from translate_ddp.training.checkpoint_name import is_word
from translate_ddp.translator import Translator


@dataclass(frozen=True)
class SavedModel:
    """Settings that select a checkpoint."""

    model_folder: str = CheckpointConfig.model_folder
    """Folder of a run or of an exported model, or a checkpoint file."""
    model_basename: str = CheckpointConfig.model_basename
    """Prefix of the checkpoint names."""
    preload: str = CheckpointConfig.preload
    """Checkpoint in the folder: latest, best (epoch), an epoch number; or the path of a model."""
    average: int = 0
    """Epochs to average, up to that one; 0: as set in training (best and files: no average)."""

    def __post_init__(self) -> None:
        check_at_least(0, self, "average")
        CheckpointConfig(self.model_folder, self.model_basename)  # checks both

    @property
    def path(self) -> Path:
        """The folder or the file that `open` reads."""
        folder = Path(self.model_folder)
        return folder if folder.is_file() or is_word(self.preload) else Path(self.preload)

    def open(self, reverse: bool = False, split: Split = "sentences") -> Translator:
        """The model, or its other direction. Raises UserError if there is none."""
        found = Translator.open(self.model_folder, self.preload, self.model_basename, self.average)
        found.split = split
        return found.reverse() if reverse else found
