"""The checkpoint that a run starts from: at a new start that of `--preload`, else the newest.

It is found on the disks of all nodes, and loaded on every rank.
"""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from translate_ddp.errors import UserError
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.file_transfer import copy_to_nodes
from translate_ddp.runtime.files import explain_write_errors
from translate_ddp.runtime.launch import is_restart, launch_names, record_launch
from translate_ddp.runtime.long_calls import library_call
from translate_ddp.runtime.world import World
from translate_ddp.training.checkpoint import CheckpointStore, Damaged, first_intact, skipped
from translate_ddp.training.checkpoint_file import MISSING, damage, load
from translate_ddp.training.checkpoint_name import Checkpoint
from translate_ddp.training.state import RunState

RECEIVED = ".received.pt"  # the copy of a node that lacks the file


@dataclass
class Start:
    """The checkpoint that a run starts from; the same on every rank."""

    state: RunState | None  # to resume; None for a new run
    path: Path  # its file
    messages: list[str]
    initial: RunState | None = None  # whose weights a new run takes (`--init_from`)


def find_start(settings: CheckpointConfig, world: World) -> Start:
    """The checkpoint that `preload` selects, else for a new run the file `init_from`.

    Raises UserError if there is no such checkpoint, or if it cannot be resumed.
    """
    store, init_from = CheckpointStore(settings), settings.init_from
    preload = settings.preload
    if is_restarted(store.folder, world):  # `preload` was for the first start
        preload = "latest"
    state, path, messages = load_state(store, preload, world)
    if state is None and preload != settings.preload:  # the restarted run had not saved yet
        state, path, messages = load_state(store, settings.preload, world)
    if state is None and init_from:
        file, folder = Path(init_from), store.folder.resolve()
        if folder in (file.parent.resolve(), file.resolve().parent):
            raise UserError(
                f"--init_from {init_from} is in the model folder, from which a new run moves the "
                "files of other runs: copy it elsewhere, or pass another --model_folder."
            )
        initial, message = load_initial(Path(init_from), store.folder, world)
        return Start(None, path, [message], initial)
    if state is not None and not state.can_resume:
        raise UserError(
            f"{path} is an average or an exported file, which has no optimizer state to resume "
            f"with: start a new run from it with --init_from {shlex.quote(str(path))} and another "
            "--model_folder."
        )
    if state is not None and init_from:
        messages.append(f"--init_from {init_from} is for new runs: it was not read.")
    return Start(state, path, messages)


def is_restarted(folder: Path, world: World) -> bool:
    """Whether the launcher restarts the run in the folder, according to any node."""
    return any(world.on_each_node("looking for a restart", lambda: is_restart(os.environ, folder)))


def record_begin(folder: Path, world: World) -> None:
    """From now on, a start by the same launcher is a restart of the run in the folder.

    Call it when the folder has no files of other runs. Raises UserError if the disk is full.
    """
    names = {name for found in world.gather(launch_names(os.environ)) for name in found}

    def work() -> None:
        with explain_write_errors(folder):
            record_launch(folder, names)

    world.on_each_disk("recording the launch", work)


class Listing(NamedTuple):
    """The files that one node could use, newest first; not verified."""

    folder: Path  # the node's model folder
    files: tuple[Checkpoint, ...] = ()
    problem: str = ""  # why there is none


class Found(NamedTuple):
    """The newest intact file of all nodes, and the damaged ones; the same on every rank."""

    files: dict[int, Path]  # of each node that lists it; empty if there is none
    in_folder: frozenset[int]  # the nodes whose model folder has it
    node: int  # that has verified it
    damaged: Damaged
    problem: str  # of the first node without a file

    @property
    def path(self) -> Path:
        return self.files[self.node]


def load_state(
    store: CheckpointStore, preload: str, world: World
) -> tuple[RunState | None, Path, list[str]]:
    """The state that `preload` selects, its file, and messages; the same on every rank.

    The state is None for a new run. Raises UserError if no node has the requested checkpoint.
    """
    if not preload:
        return None, store.folder, ["Starting from scratch (--preload '')."]
    messages: list[str] = []
    if preload == "best":
        newest, _, [*messages, _] = load_state(store, "latest", world)
        preload = store.best_epoch(newest)
        del newest  # and with it the copy of its file

    def look() -> Listing:
        try:
            return Listing(store.folder, tuple(store.candidates(preload)))
        except UserError as error:
            return Listing(store.folder, problem=str(error))

    found = find_intact("looking for a checkpoint", look, world)
    if not found.files:
        if preload == "latest" and not found.damaged:
            return None, store.folder, [f"No checkpoint in {store.folder}: starting from scratch."]
        if found.problem and not found.damaged:
            raise UserError(found.problem)
        raise store.none_intact(preload, found.damaged)
    state, source = load_found(found, store.folder, world)
    messages += [*skipped(found.damaged), f"Resuming from {source}."]
    return state, found.path, messages


def load_initial(path: Path, folder: Path, world: World) -> tuple[RunState, str]:
    """The state in the file, without its optimizer, and a message; the same on every rank.

    A node without it gets a copy in `folder`. Raises UserError if no node has the file.
    """

    def look() -> Listing:
        files = (Checkpoint(path, step=0, epoch=None),) if path.exists() else ()
        return Listing(folder, files)

    found = find_intact("looking for the initial weights", look, world)
    if not found.files:
        problem = found.damaged[0][1] if found.damaged else "there is no such file"
        raise UserError(f"--init_from {path} cannot be used: {problem}.")
    state, source = load_found(found, folder, world)
    return replace(state, optimizer={}), (
        f"New run with the weights, model settings and tokenizer of {source} ({state.position})."
    )


def find_intact(phase: str, look: Callable[[], Listing], world: World) -> Found:
    """The newest intact file that `look` lists on a node. Each node lists its own disk.

    Nodes may share a disk, and a listing of a shared disk may lack its newest file: so one of the
    nodes that list a file verifies it. The others verify theirs only if it is damaged.
    """
    listings = world.on_each_node(phase, look)
    holders: dict[str, dict[int, Checkpoint]] = {}  # file name -> node -> file
    for node, listing in enumerate(listings):
        for checkpoint in listing.files:
            holders.setdefault(checkpoint.path.name, {})[node] = checkpoint
    owners = {}  # file name -> the node that has verified it
    damaged: Damaged = []

    def verify(checkpoint: Checkpoint) -> str | None:
        name = checkpoint.path.name
        nodes = list(holders[name])
        for part in filter(None, (nodes[:1], nodes[1:])):
            problems = world.on_nodes(
                part, f"verifying {name}", lambda: damage(holders[name][world.node_index].path)
            )
            for node, problem in zip(part, problems, strict=True):
                if problem is None:
                    owners.setdefault(name, node)
                elif problem != MISSING:
                    damaged.append((holders[name][node].path, problem))
            if name in owners:
                return None
        return "no node has it intact"

    newest = [next(iter(files.values())) for files in holders.values()]
    newest.sort(key=lambda checkpoint: checkpoint.order, reverse=True)
    found, _ = first_intact(newest, verify)
    damaged = list(dict.fromkeys(damaged))  # nodes may share a disk
    problem = next((listing.problem for listing in listings if listing.problem), "")
    if found is None:
        return Found({}, frozenset(), 0, damaged, problem)
    files = {node: held.path for node, held in holders[found.path.name].items()}
    in_folder = {node for node, path in files.items() if path.parent == listings[node].folder}
    return Found(files, frozenset(in_folder), owners[found.path.name], damaged, problem)


def load_found(found: Found, folder: Path, world: World) -> tuple[RunState, str]:
    """The state in the file, on every rank, and a description of the file.

    A disk with a node that lacks the file gets a copy in `folder`. Delete it by `delete_copy` when
    no rank uses the state.
    """
    lack = [node for node in range(len(world.node_leaders)) if not _has(node, found, world)]
    copy, disks = folder / RECEIVED, sorted({world.disk_holders[node] for node in lack})
    copy_to_nodes(found.path, world.node_leaders[found.node], disks, copy, world)
    states: list[RunState] = []

    def load_on_rank() -> None:
        file = copy if world.node_index in lack else found.files[world.node_index]
        with library_call():
            states.append(load(file, str(found.path), mapped=True))

    world.on_each_rank("loading the checkpoint", load_on_rank)
    is_one = len(world.node_leaders) == 1
    return states[0], f"{found.path}" if is_one else f"{found.path}, on node {found.node}"


def delete_copy(folder: Path, world: World) -> None:
    """Delete the copy of `load_found`, also one of a start that was killed."""
    world.gather(None)  # on a network disk, a file that is deleted cannot be read any more
    world.on_each_disk("deleting a copy", lambda: (folder / RECEIVED).unlink(missing_ok=True))


def _has(node: int, found: Found, world: World) -> bool:
    """Whether a node has the content that another has verified: both in one model folder.

    Files elsewhere may only have the same name.
    """
    holders, nodes = world.disk_holders, {node, found.node}
    return node == found.node or nodes <= found.in_folder and holders[node] == holders[found.node]
