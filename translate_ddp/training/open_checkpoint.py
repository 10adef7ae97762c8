"""Opens a checkpoint for use, not to resume it: one file, or the average of the last epochs."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from translate_ddp.errors import UserError
from translate_ddp.training.averaging import average_weights, last_epochs, listed, weights_in
from translate_ddp.training.checkpoint import CheckpointStore, Lines
from translate_ddp.training.checkpoint_file import load
from translate_ddp.training.state import RunState


class Opened(NamedTuple):
    """A state to use, not to resume, with its newest file, and messages."""

    state: RunState
    path: Path
    messages: Lines
    is_average: bool = False  # made here, not stored in the file


def open_checkpoint(store: CheckpointStore, preload: str, average: int) -> Opened:
    """The state that `preload` selects; its weights are an average if that is requested.

    The folder of the store may also be a file, which is then selected.
    `average` epochs up to the selected one are averaged; 0 is the setting of the run, which does
    not apply to the best epoch and to files. Raises UserError if no checkpoint can be used.
    """
    preload = str(store.folder) if store.folder.is_file() else preload or "latest"
    selected, messages = store.find(preload)
    state = load(selected.path)
    if not average and (preload == "latest" or preload.isdecimal()):
        average = state.run.config["checkpoint"]["average"]
    if average <= 1:
        return Opened(state, selected.path, messages)
    if not state.can_resume:
        raise UserError(
            f"{selected.path} is an average or an exported file, without the epochs that "
            "--average needs: omit it."
        )
    ends_epoch = state.position.step_in_epoch == 0
    used, skipped = last_epochs(selected.path.parent, state.run.history, average - ends_epoch)
    if ends_epoch:
        used.append(replace(selected, epoch=state.position.epoch))
    messages += skipped
    if not used:
        messages.append("No epoch has ended: nothing is averaged.")
        return Opened(state, selected.path, messages)
    # Not mapped: the file may be deleted while the state is used.
    newest = state if ends_epoch else load(used[-1].path)
    earlier = (weights_in(checkpoint) for checkpoint in used[:-1])
    averaged = replace(
        newest,
        model=average_weights(chain(earlier, [newest.model])),
        optimizer={},  # that of one epoch does not belong to the average
        run=replace(newest.run, history=[checkpoint.path.name for checkpoint in used]),
    )
    messages.append(f"Averaged epochs: {listed(checkpoint.epoch for checkpoint in used)}.")
    return Opened(averaged, used[-1].path, messages, is_average=True)
