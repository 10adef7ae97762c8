"""States of runs that never ran, to be saved, loaded and compared."""

from dataclasses import replace
from typing import Any

import torch

from translate_ddp.settings import Config
from translate_ddp.training.state import LogOffset, Position, RunIdentity, RunInfo, RunState

IDENTITY = RunIdentity(
    always={
        "d_model": 16,
        "languages": "en-it",
        "training data": "0123456789ab",
        "validation data": "cdef01234567",
    },
    within_epoch={"seed": 0, "batch_tokens": 100, "data order": 3},
)


def make_state(step: int = 1, **changes: Any) -> RunState:
    """A state after `step` steps, none of them in the current epoch."""
    state = RunState(
        model={"weights": torch.arange(1000.0)},
        optimizer={"state": {0: {"step": torch.tensor(float(step))}}, "param_groups": []},
        position=Position(epoch=1, global_step=step, best_epoch=1, best_score=12),
        meters={"totals": {"loss": torch.tensor([1.5, 0.0])}, "tokens": torch.tensor([3, 0])},
        run=RunInfo(
            "0123abcd",
            Config().to_dict(),
            IDENTITY,
            directions=[["en", "it"]],
            extra_tokens=[],
            longest_source=255,
            abbreviations={},
            length_ratios={},
            history=["tmodel_step_00000001-0.pt"],
        ),
        tokenizer="{}",
        log_offset=LogOffset(7, "ab"),
        environment={"world_size": 1},
    )
    return replace(state, **changes)
