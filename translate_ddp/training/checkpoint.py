"""The checkpoints of a run: list, select, verify, load, save, prune, archive.

A checkpoint is one file, whose name holds its step, its epoch and the start of its sha256
(`checkpoint_name`). `CheckpointStore` is for one folder. The functions after it work on all
nodes, which need not share a disk: `find_on_nodes` chooses a file that one node has, and
`load_into` sends it to all ranks. `CheckpointWriter` saves during training.

Another node may change a folder on a shared disk, and a listing of such a disk may be old: a file
in it may have disappeared.
"""

import copy
import hashlib
import io
import pickle
import re
import shutil
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from translate_ddp.console import rank_names
from translate_ddp.errors import NotSaved, UserError, first_line
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.run_record import METRICS_FILE, RECORD_FILES
from translate_ddp.runtime.device import processor_name
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import SyncedFile, read_chunks, sync_folder
from translate_ddp.runtime.long_calls import BackgroundThread, heartbeat, library_call
from translate_ddp.runtime.run_folder import LOCK_FILE, RunFolder
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint_name import (
    DIGEST_CHARACTERS,
    Checkpoint,
    Checkpoints,
    digest_in,
    parse_name,
)
from translate_ddp.training.fine_tuning import add_new_tags
from translate_ddp.training.optimizer import moments_of
from translate_ddp.training.state import RunState

T = TypeVar("T")

MAX_FAILED_SAVES = 3  # in a row
RETRY_SECONDS = 5.0  # after a failed save of an epoch

Damaged = list[tuple[Path, str]]  # files, and what is wrong with them
NO_FILE = "it does not exist"  # compared as text, as the error comes from another rank


class NoCheckpoint(UserError):
    """A folder without checkpoints, of which "latest" selects none."""


class DamagedFile(UserError):
    """Why a file cannot be a checkpoint that was written completely."""


# --- one file ---


def verify_file(path: Path) -> None:
    """Raise DamagedFile unless the sha256 of the file is that in its name. It is not parsed.

    A file whose name has no digest, such as one renamed by hand, is not checked.
    """
    if path.is_dir():
        raise DamagedFile("it is a folder, not a file")
    if not (path.exists() or path.is_symlink()):
        raise DamagedFile(NO_FILE)
    if not path.is_file():  # opening a pipe or a device would never end
        raise DamagedFile("it is not a regular file")
    sha256 = hashlib.sha256()
    try:
        for chunk in read_chunks(path):
            sha256.update(chunk)
    except OSError as error:
        raise DamagedFile(f"it cannot be read ({error.strerror})") from error
    digest, expected = sha256.hexdigest(), digest_in(path.name)
    if not digest.startswith(expected):
        raise DamagedFile(
            f"it is damaged (its sha256 starts with {digest[: len(expected)]}, not {expected})"
        )


def load(path: Path, *, mapped: bool = False) -> RunState:
    """The state in a checkpoint file. Raises UserError if it has none.

    `mapped` tensors take no memory of this process, but the file must exist as long as they do.
    """
    try:
        _reject_compression(path)
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:  # its text proposes to run the file's code
        raise UserError(
            f"{path} is not a checkpoint of translate_ddp: it is of another program, or damaged."
        ) from error
    except Exception as error:  # torch raises exceptions of many types
        raise UserError(
            f"{path} is not a checkpoint of translate_ddp: {first_line(error)}"
        ) from error
    return RunState.from_dict(content, str(path))


def _reject_compression(path: Path) -> None:
    """Raise ValueError for compressed data: torch writes none, and it may unpack to any size."""
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
            raise ValueError("its data is compressed.")


def write(path: Path, state: RunState) -> str:
    """Write the state to a new file, sync it, and return the start of its sha256.

    Raises OSError if that fails; a part of the file may then be left.
    """
    with SyncedFile(path) as file:
        writer = _HashingWriter(file)
        try:
            torch.save(state.to_dict(), cast("IO[bytes]", writer))
        except RuntimeError as error:
            # torch reports a failed write as an internal error; the writer keeps the disk's error.
            raise writer.error or error from error
        fault_point("syncing")
        file.sync()
    return writer.sha256.hexdigest()[:DIGEST_CHARACTERS]


class _HashingWriter(io.RawIOBase):
    """Writes to a file, computes the digest, and stores the error of a failed write."""

    def __init__(self, file: SyncedFile) -> None:
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


# --- the folder of a run ---


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

    def select(self, preload: str) -> Checkpoints:
        """The files that `preload` selects, newest first; they are not verified.

        `preload` is "latest", of which there may be none, an epoch, a file, or the folder of a run,
        which stands for its best epoch. Raises UserError if it selects no file.
        """
        held = self.list()
        if preload == "latest":
            return held
        if preload.isdecimal():
            if wanted := [checkpoint for checkpoint in held if checkpoint.epoch == int(preload)]:
                return wanted
        elif Path(preload).exists():
            return select_path(Path(preload))
        raise self.none_intact(preload, [])

    def find(self, preload: str, world: World) -> "FoundCheckpoint":
        """The newest intact file that `preload` selects on any node. Every rank must call it.

        Here `preload` may also be "best", the best epoch according to the newest file. Raises
        NoCheckpoint if the folder has none on any node, and UserError if `preload` selects no
        other file, or only damaged ones.
        """
        if preload == "best":
            newest = self.find("latest", world)
            if not (best := newest.state.position.best_epoch):
                raise UserError(f"No epoch has ended yet: {self._contents(self.list())}")
            if best == newest.checkpoint.epoch:
                return newest
            found = self.find(str(best), world)
            return found._replace(messages=newest.messages + found.messages)
        found, damaged = find_on_nodes(partial(self.select, preload), world)
        if found is None:
            raise self.none_intact(preload, damaged)
        return found

    def none_intact(self, preload: str, damaged: Damaged) -> UserError:
        """The error that `preload` selects no file, or only these damaged ones."""
        lines = "".join(f"{line}\n" for line in skipped(damaged))
        if preload == "latest" and damaged:
            return UserError(
                f"{lines}No intact checkpoint is left in {self.folder}. "
                "Restore one, or start from scratch with --preload ''."
            )
        if preload == "latest":
            return NoCheckpoint(self._contents(self.list()))
        if preload.isdecimal() and damaged:
            return UserError(f"{lines}{self._contents(self.list())}")
        if damaged:
            path, problem = damaged[0]
            return UserError(f"{path} cannot be used: {problem}.")
        place = f"of epoch {preload}" if preload.isdecimal() else f"at {preload}"
        return UserError(f"No checkpoint {place}: {self._contents(self.list())}")

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

    def prune(self, names: Iterable[str], *, best_epoch: int) -> None:
        """Delete each file of `names` that is neither among the newest nor the best epoch.

        `keep_last` epochs and as many steps are kept, and the epochs that `average` needs. A step
        that was saved again as the end of an epoch is deleted. Files that are not in `names`, such
        as files of another run, are kept.
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
            unneeded += [c for c in older if c.epoch != best_epoch]
            unneeded += [c for c in steps if c.step not in ends][self.keep_last :]
        for checkpoint in unneeded:
            with suppress(OSError):  # a file that cannot be deleted does not end the run
                fault_point("pruning")
                checkpoint.path.unlink(missing_ok=True)

    def count_files(self, epochs: int) -> int:
        """The most files of a run; without pruning, of all epochs."""
        if not self.keep_last:
            return epochs
        # With the best epoch, and a new file before an old one is deleted.
        return min(self._kept_epochs, epochs) + self.keep_last + 2

    def count_archives(self) -> int:
        """The number of the last folder `earlier-NNN`; 0 if there is none."""
        folders = self.folder.glob("earlier-[0-9][0-9][0-9]")
        return max((int(path.name.removeprefix("earlier-")) for path in folders), default=0)

    def archive(self, history: Sequence[str]) -> str | None:
        """Move files that are not part of the run into a new folder `earlier-NNN`.

        `history` names the checkpoints of the run up to where it resumes; all others are moved,
        including later ones of the same run, which `latest` would find. The record of the run is
        copied. Of a new run it is empty: everything is moved. Returns the path of the new folder,
        or None if there is nothing to move. Raises UserError for a new run beside checkpoints of
        another `basename`, whose record is in the folder.
        """
        held = self.list()
        if not history:
            self._check_basename()
        mine = [checkpoint for checkpoint in held if checkpoint.path.name in history]
        record = [path for name in RECORD_FILES for path in self.folder.glob(name)]
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


def select_path(path: Path) -> Checkpoints:
    """The file; of the folder of a run its best epoch, or before the end of one its newest files.

    Of a folder, only the newest file is verified. Raises UserError if it has no checkpoint.
    """
    if not path.is_dir():
        return [Checkpoint(path, step=0, epoch=None)]  # its name may be any
    found = [parsed for file in path.glob("*.pt") if (parsed := parse_name(file))]
    basenames = {re.sub(r"(_epoch_\d{4,})?_step_\d{8,}-.*", "", each.path.name) for each in found}
    if len(basenames) != 1:
        number = f"the checkpoints of {len(basenames)} runs" if basenames else "no checkpoint"
        raise UserError(f"The folder {path} holds {number}: pass a file, or the folder of a run.")
    store = CheckpointStore(CheckpointConfig(str(path), basenames.pop()))
    has_epochs = any(checkpoint.epoch is not None for checkpoint in found)
    best = has_epochs and store.find("latest", World()).state.position.best_epoch
    return store.select(str(best)) if best else store.list()


def skipped(damaged: Damaged) -> list[str]:
    """A message for each damaged file."""
    return [f"Skipped {path}: {problem}." for path, problem in damaged]


# --- all nodes ---


class FoundCheckpoint(NamedTuple):
    """The newest intact file that any node has; the same on every rank."""

    checkpoint: Checkpoint
    node: int  # that has verified it, and will read it
    is_one_node: bool
    state: RunState  # without the tensors of model and optimizer
    messages: list[str]  # one for each damaged file that is newer

    @property
    def path(self) -> Path:
        return self.checkpoint.path

    def __str__(self) -> str:
        return f"{self.path}" if self.is_one_node else f"{self.path}, on node {self.node}"


def find_on_nodes(
    select: Callable[[], Checkpoints], world: World
) -> tuple[FoundCheckpoint | None, Damaged]:
    """The newest intact file that `select` lists on a node, and the damaged ones. Every rank calls.

    One node verifies a file that several list, as they may share the disk. The listing of a shared
    disk may lack its newest file on some of them. Raises the UserError of `select` if no node lists
    a file.
    """

    def look() -> tuple[Checkpoints, str]:
        try:
            return select(), ""
        except UserError as error:
            return [], str(error)

    found = world.on_ranks(world.node_leaders, "looking for a checkpoint", look)
    listed = [(file, node) for node, (files, _) in enumerate(found) for file in files]
    listed.sort(key=lambda each: each[0].order, reverse=True)
    if not listed and (problem := next((problem for _, problem in found if problem), "")):
        raise UserError(problem)
    damaged: dict[tuple[Path, int], str] = {}  # file and its disk -> problem
    for checkpoint, node in listed:
        path, disk = checkpoint.path, world.disk_holders[node]
        owner = [world.node_leaders[node]]
        if (path, disk) in damaged:
            continue
        try:
            world.on_ranks(owner, f"verifying {path.name}", partial(verify_file, path))
        except UserError as error:
            if str(error) != NO_FILE:
                damaged[path, disk] = str(error)
            continue
        (state,) = world.on_ranks(owner, "reading the checkpoint", partial(_load_values, path))
        messages = skipped([(path, problem) for (path, _), problem in damaged.items()])
        return FoundCheckpoint(checkpoint, node, len(found) == 1, state, messages), []
    return None, [(path, problem) for (path, _), problem in damaged.items()]


def _load_values(path: Path) -> RunState:
    return load(path, mapped=True).without_tensors()


def load_into(
    found: FoundCheckpoint,
    world: World,
    model: Transformer,
    optimizer: torch.optim.Optimizer | None = None,
) -> None:
    """Load weights and moments on every rank: one rank reads the file, and sends its tensors.

    The moments are allocated (`allocate_moments`). No rank then uses the file. Raises UserError on
    every rank if the file does not fit the model.
    """
    owner = world.node_leaders[found.node]

    def read() -> None:
        try:
            with library_call():
                state = load(found.path, mapped=True)
                if optimizer is None:  # the first weights of a new run, whose languages may be more
                    add_new_tags(state, model)
                model.load_state_dict(state.model)
                if optimizer is not None:
                    _copy_moments(optimizer, state.optimizer)
        except (RuntimeError, ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"The checkpoint {found.path} does not fit this model: {first_line(error)}"
            ) from error

    world.on_ranks([owner], "loading the checkpoint", read)
    tensors = list(model.state_dict().values())
    if optimizer is not None:
        tensors += moments_of(optimizer)
        groups = found.state.optimizer["param_groups"]
        for group, saved in zip(optimizer.param_groups, groups, strict=True):
            group.update({name: saved[name] for name in saved.keys() - {"params"}})
    for tensor in tensors:
        world.broadcast_(tensor, owner)
        heartbeat()


def _copy_moments(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Copy the moments of a state dict. Raises ValueError or KeyError if they do not fit."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if [len(group["params"]) for group in optimizer.param_groups] != [
        len(group["params"]) for group in saved["param_groups"]
    ]:
        raise ValueError("its optimizer has other groups of parameters.")
    for index, parameter in enumerate(parameters):
        for name, moment in optimizer.state[parameter].items():
            value = saved["state"][index][name]
            if value.shape != moment.shape:
                raise ValueError(f"{name} is {tuple(value.shape)}, not {tuple(moment.shape)}.")
            moment.copy_(value)


# --- saving during training ---


class CheckpointWriter:
    """Writes the checkpoints of one run; every rank calls it at the same steps.

    `save` copies the state, which a thread of rank 0 writes; `finish` waits for the file.
    """

    def __init__(
        self,
        store: CheckpointStore,
        folder: RunFolder,
        world: World,
        message: Callable[[str], None],
    ) -> None:
        self.store, self.folder, self.world = store, folder, world
        self.saved_step, self.saved_name = -1, ""  # the last file in the folder
        self.last_step = -1  # the step of the pending save, or of the last file
        self._pending: Future[Any] | None = None  # what `write` returns; never done on other ranks
        self._thread = BackgroundThread("checkpoints")
        self._message = message
        self._failures = 0  # in a row
        self._saved_at = time.monotonic()
        if world.is_main:  # an error does not lose a pending save; a late stop has no time for it
            world.supervisor.at_end(
                lambda end: end.status != "preempted" and self._pending and self._pending.result(),
                10,
            )

    @property
    def is_written(self) -> bool:
        """Whether `finish` would not wait for the pending save. True on rank 0 only."""
        return self._pending is not None and self._pending.done()

    def is_due(self, minutes: float) -> bool:
        """Whether the last save is at least `minutes` ago; 0: never. True on rank 0 only."""
        return self.world.is_main and 0 < minutes <= (time.monotonic() - self._saved_at) / 60

    def resume(self, step: int, name: str) -> None:
        """The run continues from the file `name`, saved at `step`, maybe in another folder."""
        path = self.store.folder / name
        if self.world.on_main("looking for the checkpoint", path.exists):
            self.last_step, self.saved_step, self.saved_name = step, step, name

    def save(self, get_state: Callable[[], RunState], step: int, epoch: int | None) -> None:
        """Copy the state on rank 0 at `step`, and begin to write the copy. Call `finish` before.

        `epoch` is the epoch that it ends, if any: it is tried again, as its weights are gone later.
        """
        self.last_step, self._saved_at = step, time.monotonic()
        self._pending = Future()
        if not self.world.is_main:
            return
        attempts = 1 if epoch is None else MAX_FAILED_SAVES - self._failures
        problems: list[str] = []
        state = _try(lambda: snapshot(get_state()), attempts, problems)

        def write() -> tuple[Checkpoint | None, list[str]]:
            return state and _try(partial(self._write, state, epoch), attempts, problems), problems

        self._pending = self._thread.submit(write)

    def finish(self, *, is_last: bool = False) -> Checkpoint | None:
        """Wait for the pending save, if any; return its file if there is one.

        Raises UserError on every rank after `MAX_FAILED_SAVES` failures in a row, after one if
        `is_last`, or if the folder is a new one.
        """
        if self._pending is None:
            return None
        saved, problems = self.world.on_main("saving a checkpoint", self._pending.result)
        self._pending = None
        for problem in problems:
            self._failures += 1
            if self._failures == MAX_FAILED_SAVES or (is_last and not saved):
                raise UserError(problem)
            self._message(
                f"{problem} The run ends if this fails {MAX_FAILED_SAVES} times in a row."
            )
        if saved:
            self._failures = 0
            self.saved_step, self.saved_name = saved.step, saved.path.name
        self.last_step = self.saved_step
        return saved

    def _write(self, state: RunState, epoch: int | None) -> Checkpoint:
        self._check_owner()
        # Again: writing may take minutes.
        path = self.store.save(state, epoch=epoch, before_publish=self._check_owner)
        if self.folder.is_gone():
            raise UserError(
                f"{self.folder.path} or its {LOCK_FILE} was deleted or moved during the run, which "
                f"ends here. {path} and {METRICS_FILE} were saved in its place, and the same "
                "command resumes from them."
            )
        names, position = [*state.run.history, path.name], state.position
        self.store.prune(names, best_epoch=position.best_epoch)
        return Checkpoint(path, position.global_step, epoch)

    def _check_owner(self) -> None:
        if not self.folder.is_mine():
            problem = f"Another run has taken over {self.folder.path}: nothing was saved."
            raise UserError(f"{problem} Pass another --model_folder.")


def _try(call: Callable[[], T], attempts: int, problems: list[str]) -> T | None:
    """The result of the call, or None after so many `problems`: each NotSaved is added to them."""
    while len(problems) < attempts:
        if problems:
            time.sleep(RETRY_SECONDS)
        try:
            return call()
        except NotSaved as error:
            problems.append(str(error))
    return None


def snapshot(state: RunState) -> RunState:
    """A copy of the state that the training does not change, with its tensors on the host."""
    moments = [moment for each in state.optimizer["state"].values() for moment in each.values()]
    copies: dict[int, Any] = {id(state.facts): state.facts}
    for tensor in (*state.model.values(), *moments, *state.meters["totals"].values()):
        # To page-locked memory the device copies without the host.
        host = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
        copies[id(tensor)] = host.copy_(tensor, non_blocking=True)
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()  # once for all copies
    return copy.deepcopy(state, copies)


def check_weights(
    parameters: Sequence[Tensor], optimizer: torch.optim.Optimizer, world: World, step: int
) -> None:
    """Raise UserError on every rank if the weights differ between ranks or are not finite.

    Call it before a save, which deletes older checkpoints.
    """
    if odd := outliers(world.gather(checksum([*parameters, *moments_of(optimizer)]))):
        kinds = sorted(set(world.gather(processor_name(world.device))))
        cause = "a memory fault can cause"
        if len(kinds) > 1:
            cause += f", or the different rounding of {' and '.join(kinds)}"
        raise UserError(
            f"{odd} at step {step}, which {cause}: this step was not saved. "
            "The same command resumes from the last checkpoint."
        )
    # The weights are equal on all ranks here, so all of them raise.
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):
        raise UserError(
            f"The weights are not finite at step {step}: it was not saved. "
            "Resume with a lower --lr or more --warmup_steps."
        )


def checksum(tensors: Iterable[Tensor]) -> str:
    """A digest that changes with any single bit of the tensors."""
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    sums = [t.detach().reshape(-1).view(words[t.element_size()]).sum() for t in tensors]
    return hashlib.sha256(str([int(total) for total in sums]).encode()).hexdigest()


def outliers(sums: Sequence[str]) -> str:
    """Which ranks' weights differ from most ranks' weights, or from each other; "" if none do."""
    usual = max(sums, key=sums.count)
    odd = [rank for rank, value in enumerate(sums) if value != usual]
    if not odd:
        return ""
    if 2 * len(odd) < len(sums):
        return f"Weights or optimizer of {rank_names(odd)} differ from the other ranks' state"
    return f"Weights or optimizer of {rank_names(range(len(sums)))} differ from each other"
