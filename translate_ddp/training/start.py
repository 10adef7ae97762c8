"""Selects the checkpoint that a run starts from, and loads it on every rank."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from translate_ddp.errors import UserError
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.distributed import World
from translate_ddp.runtime.file_transfer import copy_to_nodes
from translate_ddp.runtime.launch_record import is_restart, launch_names, record_launch
from translate_ddp.training.checkpoint import CheckpointStore, damage, digest_in, load
from translate_ddp.training.state import RunState


@dataclass
class Start:
    """The checkpoint that a run starts from; the same on every rank."""

    state: RunState | None  # to resume; None for a new run
    path: Path  # its file
    messages: list[str]
    initial: RunState | None = None  # whose weights a new run takes (`--init_from`)


class Finding(NamedTuple):
    """The checkpoint that one node found."""

    path: str = ""
    step: int = -1
    problem: str = ""
    passed_over: tuple[str, ...] = ()


class Loaded(NamedTuple):
    """The state that every rank has loaded."""

    state: RunState
    path: Path
    source: str  # the path, and the node if there are several
    passed_over: list[str]


def find_start(settings: CheckpointConfig, world: World) -> Start:
    """The checkpoint that `preload` selects, else for a new run the file `init_from`.

    Raises UserError if there is no such checkpoint, or if it cannot be resumed.
    """
    store, init_from = CheckpointStore(settings), settings.init_from
    preload = settings.preload
    if is_restarted(store.folder, world):  # it has obeyed `preload` already
        preload = "latest"
    state, path, messages = load_state(store, preload, world)
    if state is None and preload != settings.preload:  # the restarted run had not saved yet
        state, path, messages = load_state(store, settings.preload, world)
    if state is None and init_from:
        initial, message = load_initial(Path(init_from), store.folder, world)
        return Start(None, path, [message], initial)
    if state is not None and not state.can_resume:
        raise UserError(
            f"{path} is an average or an exported file, which has no optimizer state to resume "
            f"with: start a new run from it with --init_from {path} and another --model_folder."
        )
    if state is not None and init_from:
        messages.append(f"--init_from {init_from} is for new runs: it was not read.")
    return Start(state, path, messages)


def is_restarted(folder: Path, world: World) -> bool:
    """Whether the launcher starts the run in the folder again, as far as any node knows."""
    return any(world.on_each_node("looking for a restart", lambda: is_restart(os.environ, folder)))


def record_begin(folder: Path, world: World) -> None:
    """From now on, a start by the same launcher is a restart of the run in the folder.

    Call it when the folder has no files of other runs. Raises UserError if the disk is full.
    """
    names = {name for found in world.gather(launch_names(os.environ)) for name in found}

    def work() -> None:
        try:
            record_launch(folder, names)
        except OSError as error:
            raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error

    world.on_each_node("recording the launch", work)


def load_state(
    store: CheckpointStore, preload: str, world: World
) -> tuple[RunState | None, Path, list[str]]:
    """The state that `preload` selects, its file, and messages; the same on every rank.

    The state is None for a new run. Raises UserError if no node has the requested checkpoint.
    """
    if not preload:
        return None, store.folder, ["Starting from scratch (--preload '')."]

    def look() -> Finding:
        try:
            found, passed_over = store.find(preload)
        except UserError as error:
            return Finding(problem=str(error))
        if found is None:
            return Finding()
        return Finding(str(found.path), found.step, passed_over=tuple(passed_over))

    loaded = load_newest("looking for a checkpoint", look, store.folder, world)
    if loaded is None:
        return None, store.folder, [f"No checkpoint in {store.folder}: starting from scratch."]
    return loaded.state, loaded.path, [*loaded.passed_over, f"Resuming from {loaded.source}."]


def load_initial(path: Path, folder: Path, world: World) -> tuple[RunState, str]:
    """The state in the file, without its optimizer, and a message; the same on every rank.

    Raises UserError if no node has the file.
    """

    def look() -> Finding:
        problem = damage(path) if path.exists() else "there is no such file"
        if problem:
            return Finding(problem=f"--init_from {path} cannot be used: {problem}.")
        return Finding(str(path), step=0)

    found = load_newest("looking for the initial weights", look, folder, world)
    assert found is not None
    position = found.state.position
    return replace(found.state, optimizer={}), (
        f"New run with the weights, model settings and tokenizer of {found.source} "
        f"(epoch {position.current_epoch}, step {position.global_step:,})."
    )


def load_newest(
    phase: str, look: Callable[[], Finding], folder: Path, world: World
) -> Loaded | None:
    """The state in the newest file that `look` finds on a node, on every rank; None without a file.

    Each node searches its own disk, so disks need not be shared; a node that lacks the file gets a
    copy in `folder` while it is loaded. Raises UserError if no node has a file and one of them has
    a problem.
    """
    findings = world.on_each_node(phase, look)
    node = max(range(len(findings)), key=lambda n: (findings[n].step, -n))
    path = Path(findings[node].path)
    if not findings[node].path:
        if problems := [finding.problem for finding in findings if finding.problem]:
            raise UserError(problems[0])
        return None
    lack = [n for n, found in enumerate(findings) if n != node and not _is_same(found, path)]
    receivers = [world.node_leaders[n] for n in lack]
    copy = folder / f".received-{world.node_index}.pt"
    copy_to_nodes(path, world.node_leaders[node], receivers, copy, world)
    is_copied = world.node_index in lack
    states: list[RunState] = []

    def load_on_rank() -> None:
        local = copy if is_copied else Path(findings[world.node_index].path)
        states.append(load(local, str(path), mapped=True))

    world.on_each_rank("loading the checkpoint", load_on_rank)
    if is_copied and world.is_node_leader:
        copy.unlink()  # it exists until no process maps it
    source = f"{path}, on node {node}" if len(findings) > 1 else str(path)
    # Without duplicates: nodes may share a disk.
    passed_over = dict.fromkeys(line for found in findings for line in found.passed_over)
    return Loaded(states[0], path, source, list(passed_over))


def _is_same(found: Finding, path: Path) -> bool:
    """Whether a node found the same content: names contain a digest, which `look` has checked."""
    return bool(digest_in(path.name)) and Path(found.path).name == path.name
