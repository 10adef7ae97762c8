"""The checkpoints of a run in its folder: saved atomically, listed, found and pruned.

This module does not depend on ranks. Another node may change a folder on a shared disk, and a
listing of such a disk may be old: a file in it may have disappeared.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from translate_ddp.errors import NotSaved, UserError
from translate_ddp.run_record import RECORD_FILES
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import sync_folder
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint_file import MISSING, damage, load, write
from translate_ddp.training.checkpoint_name import Checkpoint, Checkpoints, parse_name
from translate_ddp.training.state import RunState

Lines = list[str]
Damaged = list[tuple[Path, str]]  # files, and what is wrong with them


class CheckpointStore:
    """The checkpoints of one run in one folder."""

    def __init__(self, config: CheckpointConfig) -> None:
        self.folder = Path(config.model_folder)
        self.basename = config.model_basename
        self.keep_last = config.keep_last
        self.average = config.average
        self._kept_epochs = max(self.keep_last, self.average)

    def list(self) -> Checkpoints:
        """The checkpoints in the folder, newest first by step and epoch, not by file time."""
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        found = [parse_name(path, re.escape(self.basename)) for path in paths]
        mine = [checkpoint for checkpoint in found if checkpoint is not None]
        return sorted(mine, key=lambda checkpoint: checkpoint.order, reverse=True)

    def save(
        self,
        state: RunState,
        *,
        epoch: int | None = None,
        before_publish: Callable[[], None] = lambda: None,
    ) -> Path:
        """Write the state and publish it by one rename; `epoch` is the epoch that it ends, if any.

        `before_publish` may raise an error to prevent the rename. Raises NotSaved if the file
        cannot be written; existing checkpoints are then unchanged.
        """
        step = state.position.global_step
        written = self.folder / f".{self.basename}.partial"
        marker = f"epoch_{epoch:04d}_" if epoch is not None else ""
        try:
            fault_point("saving")
            self.folder.mkdir(parents=True, exist_ok=True)
            written.unlink(missing_ok=True)
            digest = write(written, state)
            path = self.folder / f"{self.basename}_{marker}step_{step:08d}-{digest}.pt"
            fault_point("renaming")
            before_publish()
            written = written.rename(path)
            fault_point("published")
            sync_folder(self.folder)
            return path
        except BaseException as error:
            with suppress(OSError):
                written.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise NotSaved(
                f"Could not save a checkpoint to {self.folder}: {error.strerror or error}. "
                "Existing checkpoints are unchanged."
            ) from error

    def prune(self, names: Iterable[str], *, best_epochs: Collection[int]) -> None:
        """Delete those of the files `names` that are neither among the newest nor a best epoch.

        `keep_last` epochs and as many steps are kept, and the epochs that `average` needs. A step
        that was saved again as the end of an epoch is deleted. Files that are not in `names`, such
        as those of another run, are kept.
        """
        own = set(names)
        try:
            mine = [checkpoint for checkpoint in self.list() if checkpoint.path.name in own]
        except OSError:  # nor does a folder that cannot be listed
            return
        epochs = [c for c in mine if c.epoch is not None]
        steps = [c for c in mine if c.epoch is None]
        ends = {checkpoint.step for checkpoint in epochs}
        unneeded = [c for c in steps if c.step in ends]
        if self.keep_last:
            older = epochs[self._kept_epochs :]
            unneeded += [c for c in older if c.epoch not in best_epochs]
            unneeded += [c for c in steps if c.step not in ends][self.keep_last :]
        for checkpoint in unneeded:
            with suppress(OSError):  # a file that cannot be deleted does not end the run
                fault_point("pruning")
                checkpoint.path.unlink(missing_ok=True)

    def count_files(self, epochs: int, kept: int) -> int:
        """The most files of a run that always keeps `kept` epochs; without pruning, all epochs."""
        if not self.keep_last:
            return epochs
        # With the best epoch, and a new file before an old one is deleted.
        return min(self._kept_epochs + kept, epochs) + self.keep_last + 2

    def find(self, preload: str) -> tuple[Checkpoint, Lines]:
        """The newest intact file that `preload` selects, and a message for each damaged one.

        Raises UserError if it selects no file, or only damaged ones.
        """
        messages: Lines = []
        if preload == "best":
            newest, messages = self.find("latest")
            preload = self.best_epoch(load(newest.path))
        found, damaged = first_intact(self.candidates(preload))
        if found is None:
            raise self.none_intact(preload, damaged)
        return found, messages + skipped(damaged)

    def candidates(self, preload: str) -> Checkpoints:
        """The files that `preload` selects, newest first; they are not verified.

        `preload` is a file, an epoch, or "latest", of which there may be none. Raises UserError if
        the selected checkpoint does not exist.
        """
        held = self.list()
        if preload == "latest":
            return held
        if preload.isdecimal():
            if wanted := [checkpoint for checkpoint in held if checkpoint.epoch == int(preload)]:
                return wanted
        elif Path(preload).is_file():
            return [Checkpoint(Path(preload), step=0, epoch=None)]
        raise self.none_intact(preload, [])

    def none_intact(self, preload: str, damaged: Damaged) -> UserError:
        """The error that `preload` selects no file, or only these damaged ones."""
        lines = "\n".join(skipped(damaged))
        if preload == "latest":
            if not damaged:
                return UserError(self._contents([]))
            return UserError(
                f"{lines}\nNo intact checkpoint is left in {self.folder}. "
                "Restore one, or start from scratch with --preload ''."
            )
        if not damaged:
            if Path(preload).is_dir() and not preload.isdecimal():
                return UserError(f"{preload} is a folder: pass it as --model_folder.")
            place = f"of epoch {preload}" if preload.isdecimal() else f"at {preload}"
            return UserError(f"No checkpoint {place}: {self._contents(self.list())}")
        if preload.isdecimal():
            return UserError(f"{lines}\n{self._contents(self.list())}")
        path, problem = damaged[0]
        return UserError(f"{path} cannot be used: {problem}.")

    def best_epoch(self, newest: RunState | None) -> str:
        """The best epoch according to the newest checkpoint. Raises UserError if there is none."""
        if newest is None:
            raise UserError(f"No best epoch: {self._contents([])}")
        if not newest.position.best_epoch:
            raise UserError(f"No epoch has ended yet: {self._contents(self.list())}")
        return str(newest.position.best_epoch)

    def _contents(self, held: Checkpoints) -> str:
        if not self.folder.is_dir():
            return f"There is no folder {self.folder}: train first, or pass the folder of a run."
        if not held:
            return (
                f"{self.folder} holds no checkpoint named {self.basename}_*. "
                "Train first, or pass the folder of a run."
            )
        epochs = sorted({c.epoch for c in held if c.epoch is not None})
        steps = sorted({c.step for c in held if c.epoch is None})
        named = {"epochs": epochs, "steps": steps}
        listed = [f"{kind} {', '.join(map(str, kept))}" for kind, kept in named.items() if kept]
        return (
            f"{self.folder} holds {' and '.join(listed)}. "
            "Pass --preload latest or best, one of these epochs, or a file."
        )

    def count_archives(self) -> int:
        """The number of the last folder `earlier-NNN`; 0 if there is none."""
        folders = self.folder.glob("earlier-[0-9][0-9][0-9]")
        return max((int(path.name.removeprefix("earlier-")) for path in folders), default=0)

    def archive(self, history: Sequence[str] | None) -> str | None:
        """Move files that are not part of the run into a new folder `earlier-NNN`.

        `history` names the checkpoints of the run up to where it resumes; all others are moved,
        including later ones of the same run, which `latest` would find. The record of the run is
        copied. None starts a new run: everything is moved. Returns the path of the new folder, or
        None if there is nothing to move. Raises UserError for a new run beside checkpoints of
        another `basename`, whose record is in the folder.
        """
        held = self.list()
        if history is None:
            self._check_basename()
        mine = [checkpoint for checkpoint in held if checkpoint.path.name in (history or ())]
        record = [path for name in RECORD_FILES if (path := self.folder / name).exists()]
        if len(mine) == len(held) and (mine or not record):
            return None
        archive = self._create_archive()
        others = [checkpoint for checkpoint in held if checkpoint not in mine]
        moved = [c for c in others if _move(c.path, archive)]
        if moved or not mine:
            for path in record:
                (shutil.copy2 if mine else shutil.move)(path, archive)
        if not any(archive.iterdir()):
            archive.rmdir()
            return None
        return str(archive)

    def _check_basename(self) -> None:
        for path in sorted(self.folder.glob("*.pt")):
            if parse_name(path) and not parse_name(path, re.escape(self.basename)):
                raise UserError(
                    f"{self.folder} holds {path.name}, a checkpoint of another --model_basename, "
                    "and a folder holds one run: pass another --model_folder."
                )

    def _create_archive(self) -> Path:
        number = self.count_archives() + 1
        while (archive := self.folder / f"earlier-{number:03d}").exists():  # not in the listing
            number += 1
        archive.mkdir()
        return archive


def _move(file: Path, folder: Path) -> bool:
    """Whether the file was still there to be moved."""
    with suppress(FileNotFoundError):
        file.rename(folder / file.name)
        return True
    return False


def first_intact(
    checkpoints: Checkpoints,
    verify: Callable[[Checkpoint], str | None] = lambda checkpoint: damage(checkpoint.path),
) -> tuple[Checkpoint | None, Damaged]:
    """The first of them without damage, and the damaged ones before it.

    Files that have disappeared are left out.
    """
    damaged: Damaged = []
    for checkpoint in checkpoints:
        problem = verify(checkpoint)
        if problem is None:
            return checkpoint, damaged
        if problem != MISSING:
            damaged.append((checkpoint.path, problem))
    return None, damaged


def skipped(damaged: Damaged) -> Lines:
    """A message for each damaged file."""
    return [f"Skipped {path}: {problem}." for path, problem in damaged]
