"""The checkpoint that a run starts from: at a new start that of `--preload`, else the newest."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from translate_ddp.errors import UserError
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.distributed import World
from translate_ddp.runtime.files import explain_write_errors
from translate_ddp.runtime.launch_record import is_restart, launch_names, record_launch
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.find_checkpoint import load_initial, load_state
from translate_ddp.training.state import RunState


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
