"""The disk space that the checkpoints of a run will take."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from translate_ddp.quantities import size
from translate_ddp.training.optimizer import allocated_size
from translate_ddp.training.trainer import Trainer


@dataclass(frozen=True)
class DiskNeed:
    """What a run writes beside the prepared corpus."""

    folder: Path
    files: int
    deletes_old: bool
    file_bytes: int
    free_bytes: int  # with what earlier checkpoints of the folder take

    @classmethod
    def of(cls, trainer: Trainer) -> "DiskNeed":
        store, epochs = trainer.saver.store, trainer.config.num_epochs
        size = sum(p.numel() * p.element_size() for p in trainer.model.parameters())
        files = store.count_files(epochs)
        free = shutil.disk_usage(store.folder).free
        for checkpoint in store.list():
            with suppress(FileNotFoundError):  # a stale listing of a network disk
                free += checkpoint.path.stat().st_size
        size += allocated_size(trainer.updater.optimizer)
        return cls(store.folder, files, store.keep_last > 0, size, free)

    @property
    def total_bytes(self) -> int:
        return self.files * self.file_bytes

    def __str__(self) -> str:
        return (
            f"{'at most' if self.deletes_old else 'at least'} {self.files} checkpoints of "
            f"{size(self.file_bytes)}, {size(self.total_bytes)} of {size(self.free_bytes)} free"
        )

    def warnings(self) -> list[str]:
        if self.total_bytes <= self.free_bytes:
            return []
        return [
            f"The disk of {self.folder} has no space for all checkpoints: {self}. Free some, lower "
            "--keep_last, or choose another --model_folder."
        ]
