"""Checkpoint files: written atomically, verified before they are parsed, listed and pruned.

A name holds the start of the file's sha256 (PyTorch hub's convention), so that one rename publishes
file and digest together. This module does not depend on ranks.
"""

import errno
import hashlib
import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import torch

from translate_ddp.errors import NotSaved, UserError, first_line
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.training.state import RunState

DIGEST_CHARACTERS = 8
Lines = list[str]


@dataclass(frozen=True)
class Checkpoint:
    """A file named like a checkpoint; it may be damaged."""

    path: Path
    step: int
    epoch: int | None  # the epoch it ends; None: saved within an epoch

    @property
    def order(self) -> tuple[int, bool]:
        """Sort key: the order in time within a run."""
        return self.step, self.epoch is not None


Checkpoints = list[Checkpoint]  # the class below has a method called list


class CheckpointStore:
    """The checkpoints of one run in one folder."""

    def __init__(self, config: CheckpointConfig) -> None:
        self.folder = Path(config.model_folder)
        self.basename = config.model_basename
        self.keep_last = config.keep_last
        self.average = config.average

    def list(self) -> Checkpoints:
        """The checkpoints in the folder, newest first by step and epoch, not by file time."""
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        found = [parse_name(path, re.escape(self.basename)) for path in paths]
        mine = [checkpoint for checkpoint in found if checkpoint is not None]
        return sorted(mine, key=lambda checkpoint: checkpoint.order, reverse=True)

    def save(self, state: RunState, *, epoch: int | None = None) -> Path:
        """Write the state and publish it by one rename; `epoch` is the epoch that it ends, if any.

        Raises NotSaved if it cannot be written; existing checkpoints are then unchanged.
        """
        step = state.position.global_step
        written = self.folder / f".{self.basename}.partial"
        marker = f"epoch_{epoch:04d}_" if epoch is not None else ""
        try:
            fault_point("saving")
            self.folder.mkdir(parents=True, exist_ok=True)
            written.unlink(missing_ok=True)
            with written.open("xb") as file:  # "x": never through a symbolic link
                writer = _HashingWriter(file)
                _save(state.to_dict(), writer)
                file.flush()
                fault_point("syncing")
                os.fsync(file.fileno())
            digest = writer.sha256.hexdigest()[:DIGEST_CHARACTERS]
            path = self.folder / f"{self.basename}_{marker}step_{step:08d}-{digest}.pt"
            fault_point("renaming")
            written = written.rename(path)
            fault_point("published")
            _fsync_folder(self.folder)
        except OSError as error:
            with suppress(OSError):
                written.unlink(missing_ok=True)
            raise NotSaved(
                f"Could not save a checkpoint to {self.folder}: {error.strerror or error}. "
                "Existing checkpoints are unchanged."
            ) from error
        return path

    def prune(self, names: Iterable[str], *, best_epoch: int | None) -> None:
        """Delete those of the files `names` that are neither among the newest nor the best epoch.

        `keep_last` epochs and as many steps are kept, and the epochs that `average` needs. A step
        that was saved again as the end of an epoch is deleted. Files that are not in `names`, such
        as those of another run, are kept.
        """
        own = set(names)
        mine = [checkpoint for checkpoint in self.list() if checkpoint.path.name in own]
        epochs = [c for c in mine if c.epoch is not None]
        steps = [c for c in mine if c.epoch is None]
        ends = {checkpoint.step for checkpoint in epochs}
        unneeded = [c for c in steps if c.step in ends]
        if self.keep_last:
            older = epochs[max(self.keep_last, self.average) :]
            unneeded += [c for c in older if c.epoch != best_epoch]
            unneeded += [c for c in steps if c.step not in ends][self.keep_last :]
        for checkpoint in unneeded:
            with suppress(OSError):  # a file that cannot be deleted does not end the run
                fault_point("pruning")
                checkpoint.path.unlink(missing_ok=True)

    def find(self, preload: str) -> tuple[Checkpoint | None, Lines]:
        """The newest intact file that `preload` selects, and a message for each damaged one.

        None if `preload` is "latest" and there is no checkpoint. Raises UserError if the selected
        checkpoint does not exist, or if none of the existing ones is intact.
        """
        held = self.list()
        if preload == "best":
            preload = str(self._best_epoch())
        if preload == "latest":
            wanted = held
        elif preload.isdecimal():
            wanted = [checkpoint for checkpoint in held if checkpoint.epoch == int(preload)]
            if not wanted:
                raise UserError(f"No checkpoint of epoch {preload}: {self._contents(held)}")
        else:
            return self._find_path(Path(preload), held), []
        passed_over = []
        for checkpoint in wanted:
            if problem := damage(checkpoint.path):
                passed_over.append(f"Skipped {checkpoint.path}: {problem}.")
            else:
                return checkpoint, passed_over
        if passed_over and preload != "latest":
            raise UserError("\n".join(passed_over) + f"\n{self._contents(held)}")
        if passed_over:
            raise UserError(
                "\n".join(passed_over) + f"\nNo intact checkpoint is left in {self.folder}. "
                "Restore one, or start from scratch with --preload ''."
            )
        return None, []

    def _best_epoch(self) -> int:
        """The best epoch according to the newest intact checkpoint. Raises UserError if none is."""
        newest, _ = self.find("latest")
        if newest is None:
            raise UserError(f"No best epoch: {self._contents([])}")
        best_epoch = load(newest.path).position.best_epoch
        if not best_epoch:
            raise UserError(f"No epoch has ended yet: {self._contents(self.list())}")
        return best_epoch

    def _find_path(self, path: Path, held: Checkpoints) -> Checkpoint:
        if not path.is_file():
            raise UserError(f"No checkpoint at {path}: {self._contents(held)}")
        if problem := damage(path):
            raise UserError(f"{path} cannot be used: {problem}.")
        return Checkpoint(path, step=0, epoch=None)

    def _contents(self, held: Checkpoints) -> str:
        if not held:
            return f"{self.folder} holds no checkpoint named {self.basename}_*."
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
        including later ones of the same run, which `latest` would find. metrics.jsonl is copied.
        None starts a new run: everything is moved. Returns the path of the new folder, or None if
        there is nothing to move.
        """
        held = self.list()
        mine = [checkpoint for checkpoint in held if checkpoint.path.name in (history or ())]
        metrics = self.folder / "metrics.jsonl"
        if len(mine) == len(held) and (mine or not metrics.exists()):
            return None
        archive = self.folder / f"earlier-{self.count_archives() + 1:03d}"
        archive.mkdir()
        for checkpoint in held:
            if checkpoint not in mine:
                checkpoint.path.rename(archive / checkpoint.path.name)
        if metrics.exists():
            shutil.copy2(metrics, archive)
            if not mine:
                metrics.unlink()
        return str(archive)


def parse_name(path: Path, basename: str = ".+?") -> Checkpoint | None:
    """The checkpoint described by a file name; None if the name has another form."""
    match = re.fullmatch(
        rf"(?:{basename})_(?:epoch_(\d{{4,}})_)?step_(\d{{8,}})-[0-9a-f]{{{DIGEST_CHARACTERS}}}\.pt",
        path.name,
    )
    if match is None:
        return None
    epoch, step = match.groups()
    return Checkpoint(path, int(step), int(epoch) if epoch is not None else None)


def damage(path: Path) -> str | None:
    """A description of the damage, or None if the digest matches. The file is not parsed.

    A file whose name has no digest, such as one renamed by hand, is not checked.
    """
    if not path.is_file():  # opening a pipe or a device would never end
        return "it is not a regular file"
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    expected = digest_in(path.name)
    if not digest.startswith(expected):
        return f"it is damaged (its sha256 starts with {digest[: len(expected)]}, not {expected})"
    return None


def digest_in(name: str) -> str:
    """The start of the sha256 in the name of a checkpoint, or ""."""
    match = re.search(rf"-([0-9a-f]{{{DIGEST_CHARACTERS},}})\.pt$", name)
    return match[1] if match else ""


def load(path: Path, name: str = "", *, mapped: bool = False) -> RunState:
    """The state in a checkpoint file, which messages call `name`. Raises UserError if it has none.

    `mapped` tensors take no memory of this process, but the file must exist as long as they do.
    """
    name = name or str(path)
    try:
        _reject_compression(path)
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # torch raises exceptions of many types
        reason = first_line(error) if str(error) else type(error).__name__
        raise UserError(f"{name} is not a checkpoint of translate_ddp: {reason}") from error
    return RunState.from_dict(content, name)


def _reject_compression(path: Path) -> None:
    """Raise ValueError for compressed data: torch writes none, and it may unpack to any size."""
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
            raise ValueError("its data is compressed.")


def _save(state: dict[str, Any], writer: "_HashingWriter") -> None:
    try:
        torch.save(state, cast("IO[bytes]", writer))
    except RuntimeError as error:
        # torch reports a failed write as an internal error; the writer keeps the disk's error.
        raise writer.error or error from error


class _HashingWriter(io.RawIOBase):
    """Writes to a file, computes the digest, and stores the error of a failed write."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            fault_point("writing")
            self.file.write(data)
        except OSError as error:
            self.error = error
            raise
        self.sha256.update(data)
        return len(data)


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network disks cannot sync a folder
            raise
    finally:
        os.close(descriptor)
