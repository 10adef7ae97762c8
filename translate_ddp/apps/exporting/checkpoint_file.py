"""Writes a checkpoint file without what only its run needs: to use, to pass on, to fine-tune."""

from dataclasses import replace
from pathlib import Path

import torch

from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.apps.exporting.verification import NotTheSame, Verification
from translate_ddp.training.checkpoint import load, write
from translate_ddp.training.identity import without_paths
from translate_ddp.training.state import LogOffset, RunState


def write_checkpoint(file: Path, model: TrainedModel) -> Verification:
    """Write the file, and verify that it holds the same model. Raises NotTheSame if it does not."""
    write(file, stripped(model.state))
    return verify_checkpoint(file, model)


def stripped(state: RunState) -> RunState:
    """The state without optimizer, meters, the names of other files, and local paths."""
    run = replace(state.run, config=without_paths(state.run.config), history=[], archives=0)
    return replace(state, optimizer={}, meters={}, run=run, log_offset=LogOffset())


def verify_checkpoint(file: Path, model: TrainedModel) -> Verification:
    """Raises NotTheSame if the weights or the tokenizer in the file are others."""
    found, expected = load(file), model.state
    if found.tokenizer != expected.tokenizer:
        raise NotTheSame("its tokenizer is another")
    if found.model.keys() != expected.model.keys():
        raise NotTheSame("it has other tensors")
    for name, tensor in expected.model.items():
        if not torch.equal(found.model[name], tensor):
            raise NotTheSame(f"the weights {name} are others")
    return Verification([f"{len(found.model)} tensors and the tokenizer are equal"])
