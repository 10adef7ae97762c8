"""The average of the weights of a run's last epochs (Vaswani et al. 2017, section 6.1).

It often translates better than each of the epochs. It depends on the checkpoint files only.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from translate_ddp.errors import UserError
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.world import World
from translate_ddp.training.checkpoint import CheckpointStore, Lines
from translate_ddp.training.checkpoint_file import damage, load
from translate_ddp.training.checkpoint_name import Checkpoint, Checkpoints, parse_name
from translate_ddp.training.state import Position


class Average(NamedTuple):
    """The mean of the weights of some epochs, and messages about epochs that are missing."""

    weights: dict[str, Tensor]
    epochs: list[int]
    messages: Lines


def last_epochs(folder: Path, history: Sequence[str], count: int) -> tuple[Checkpoints, Lines]:
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
        if not checkpoint.path.exists():
            deleted.append(epoch)
        elif problem := damage(checkpoint.path):
            messages.append(f"Not in the average: {checkpoint.path}: {problem}.")
        else:
            intact.append(checkpoint)
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
    data = None

    def work() -> tuple[list[int], Lines] | None:
        nonlocal data
        ends_epoch = ended.step_in_epoch == 0
        used, messages = last_epochs(store.folder, history, store.average - ends_epoch)
        if len(used) + ends_epoch < 2:
            return None

        def models() -> Iterator[Mapping[str, Tensor]]:
            for checkpoint in used:
                yield weights_in(checkpoint)
                world.supervisor.heartbeat()
            if ends_epoch:
                yield model.state_dict()

        buffer = io.BytesIO()
        torch.save(average_weights(models()), buffer)
        data = buffer.getvalue()
        epochs = [checkpoint.epoch or 0 for checkpoint in used]
        return epochs + [ended.epoch] * ends_epoch, messages

    if store.average == 1:
        return None
    if (found := world.on_main("averaging weights", work)) is None:
        return None
    weights = torch.load(io.BytesIO(world.broadcast(data, 0)), weights_only=True)
    return Average(weights, *found)


@contextmanager
def loaded(model: Transformer, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Within it, the model has these weights. No more memory of its device is used."""
    own = {name: tensor.to("cpu", copy=True) for name, tensor in model.state_dict().items()}
    model.load_state_dict(weights)
    try:
        yield
    finally:
        model.load_state_dict(own)


def listed(epochs: Iterable[int | None]) -> str:
    return ", ".join(map(str, epochs))
