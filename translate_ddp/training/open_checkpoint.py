"""A checkpoint to use: one file, or the average of a run's last epochs; and its model.

The average of weights (Vaswani et al. 2017, section 6.1) often translates better than each of the
epochs. It depends on the checkpoint files only.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from translate_ddp.console import print_line, printable
from translate_ddp.errors import UserError
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.long_calls import heartbeat
from translate_ddp.runtime.world import World
from translate_ddp.settings import ModelConfig
from translate_ddp.training.checkpoint import (
    NO_FILE,
    CheckpointStore,
    DamagedFile,
    load,
    verify_file,
)
from translate_ddp.training.checkpoint_name import Checkpoint, parse_name
from translate_ddp.training.state import Position, RunState


class Average(NamedTuple):
    """The mean of the weights of some epochs, and messages about epochs that are missing."""

    weights: dict[str, Tensor]  # on rank 0, which reads the files; empty on the others
    epochs: list[int]
    messages: list[str]


def last_epochs(
    folder: Path, history: Sequence[str], count: int
) -> tuple[list[Checkpoint], list[str]]:
    """The intact checkpoints of the last `count` epochs of a run, and messages about the others.

    `history` has the names of the run's checkpoints; they are in `folder`.
    """
    # The history comes from a file: its names must not lead to another folder.
    named = [parse_name(folder / Path(name).name) for name in history]
    epochs = {c.epoch: c for c in named if c is not None and c.epoch is not None}
    chosen = sorted(epochs.items())[-count:]
    messages = []
    intact, deleted = [], []  # a run keeps the last ones only
    for epoch, checkpoint in chosen:
        try:
            verify_file(checkpoint.path)
            intact.append(checkpoint)
        except DamagedFile as error:
            if str(error) == NO_FILE:
                deleted.append(epoch)
            else:
                messages.append(f"Not in the average: {checkpoint.path}: {error}.")
    if deleted:
        names = listed(deleted)
        messages.insert(0, f"Not in the average: epochs {names}, whose files are not in {folder}.")
    return intact, messages


def average_weights(models: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor over state dicts, computed in fp64 and rounded once, on the CPU.

    Raises UserError if they do not have the same tensors.
    """
    sums: dict[str, Tensor] = {}
    types: dict[str, torch.dtype] = {}
    count = 0
    for count, model in enumerate(models, start=1):
        if count == 1:
            types = {name: tensor.dtype for name, tensor in model.items()}
            sums = {n: tensor.to("cpu", torch.float64, copy=True) for n, tensor in model.items()}
        elif shapes(model) != shapes(sums):
            raise UserError("The checkpoints to average are not of the same model.")
        else:
            for name, total in sums.items():
                total += model[name].cpu()
    return {name: (total / count).to(types[name]) for name, total in sums.items()}


def weights_in(checkpoint: Checkpoint) -> Mapping[str, Tensor]:
    """The weights in the file, without reading its optimizer: to use while the file exists."""
    return load(checkpoint.path, mapped=True).model


def shapes(model: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in model.items()}


def average_run(
    model: Transformer,
    store: CheckpointStore,
    history: Sequence[str],
    ended: Position,
    world: World,
) -> Average | None:
    """The average that `open_checkpoint` will use at the position `ended`, on every rank.

    None if it takes fewer than two epochs. At the end of an epoch, whose checkpoint need not be
    saved yet, `model` has its weights. Rank 0 reads the files of the earlier epochs.
    """
    weights: dict[str, Tensor] = {}

    def work() -> tuple[list[int], list[str]] | None:
        ends_epoch = ended.step_in_epoch == 0
        used, messages = last_epochs(store.folder, history, store.average - ends_epoch)
        if len(used) + ends_epoch < 2:
            return None

        def models() -> Iterator[Mapping[str, Tensor]]:
            for checkpoint in used:
                yield weights_in(checkpoint)
                heartbeat()
            if ends_epoch:
                yield model.state_dict()

        weights.update(average_weights(models()))
        epochs = [checkpoint.epoch or 0 for checkpoint in used]
        return epochs + [ended.epoch] * ends_epoch, messages

    if store.average == 1:
        return None
    found = world.on_main("averaging weights", work)
    return None if found is None else Average(weights, *found)


@contextmanager
def loaded(model: Transformer, average: Average, world: World) -> Iterator[None]:
    """Within it, the model has these weights. No more memory of its device is used."""
    own = {name: tensor.to("cpu", copy=True) for name, tensor in model.state_dict().items()}
    if average.weights:
        model.load_state_dict(average.weights)
    for tensor in model.state_dict().values():
        world.broadcast_(tensor, 0)
    try:
        yield
    finally:
        model.load_state_dict(own)


def listed(epochs: Iterable[int | None]) -> str:
    return ", ".join(map(str, epochs))


# --- a checkpoint to use, not to resume ---


def _report(*messages: str) -> None:
    for line in messages:
        print_line(printable(line), sys.stderr)


def open_checkpoint(store: CheckpointStore, preload: str, average: int) -> tuple[RunState, Path]:
    """The state that `preload` selects, and its newest file; the weights may be an average.

    The folder of the store may also be a file, which is then selected.
    `average` epochs up to the selected one are averaged; 0 is the setting of the run, which does
    not apply to the best epoch and to files. What is skipped or averaged is printed on stderr.
    Raises UserError if no checkpoint can be used.
    """
    preload = str(store.folder) if store.folder.is_file() else preload or "latest"
    found = store.find(preload, World())
    _report(*found.messages)
    selected = found.checkpoint
    state = load(selected.path)
    if not average and (preload == "latest" or preload.isdecimal()):
        average = state.run.config["checkpoint"]["average"]
    if average <= 1:
        return state, selected.path
    if not state.can_resume:
        raise UserError(
            f"{selected.path} is an average or an exported file, without the epochs that "
            "--average needs: omit it."
        )
    ends_epoch = state.position.step_in_epoch == 0
    used, skipped = last_epochs(selected.path.parent, state.run.history, average - ends_epoch)
    if ends_epoch:
        used.append(replace(selected, epoch=state.position.epoch))
    _report(*skipped)
    if len(used) < 2:
        _report("Fewer than two epochs: nothing is averaged.")
        return state, selected.path
    # Not mapped: the file may be deleted while the state is used.
    newest = state if ends_epoch else load(used[-1].path)
    earlier = (weights_in(checkpoint) for checkpoint in used[:-1])
    averaged = replace(
        newest,
        model=average_weights(chain(earlier, [newest.model])),
        optimizer={},  # the average has none
        run=replace(newest.run, history=[checkpoint.path.name for checkpoint in used]),
    )
    _report(f"Averaged epochs: {listed(checkpoint.epoch for checkpoint in used)}.")
    return averaged, used[-1].path


def saved_model(state: RunState, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model of a checkpoint; its parameters are the state's.

    Nothing else is allocated, so a file that declares huge shapes needs no memory for them. Raises
    ValueError or RuntimeError if the tensors do not fit the configuration.
    """
    config, facts = ModelConfig(**state.run.config["model"]), state.facts
    if config.num_encoder_layers + config.num_decoder_layers > len(state.model):
        raise ValueError("there are fewer tensors than layers.")
    with torch.device("meta"):
        sizes = facts.num_tokens, dtype, facts.num_outputs, facts.extra.num_spans
        model = Transformer(config, *sizes)
    model.load_state_dict(state.model, assign=True)
    return model
