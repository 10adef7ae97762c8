"""States of runs that never ran, to be saved, loaded and compared."""

from dataclasses import replace
from typing import Any

import torch

from translate_ddp.data.dataset import ParallelDataset, PreparedData, Ragged
from translate_ddp.data.model_facts import LengthRatios, ModelFacts
from translate_ddp.data.tokenizer import NO_EXTRA_TOKENS, Tokenizer, train_tokenizer
from translate_ddp.directions import LanguagePair
from translate_ddp.settings import Config, TokenizerConfig
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


TOKENIZER = train_tokenizer(["sun moon"], TokenizerConfig("word"))


def make_facts(tokenizer: Tokenizer, *directions: tuple[str, str], **changes: Any) -> ModelFacts:
    """The facts of a model of these directions, or en-it; no translation is too short for it."""
    pairs = [LanguagePair(*pair) for pair in directions or [("en", "it")]]
    ratios = {str(pair): LengthRatios(2.0, 0.0) for pair in pairs}
    facts = ModelFacts(tokenizer, NO_EXTRA_TOKENS, pairs, 50, {}, ratios, None)
    return replace(facts, **changes)


def make_validation(
    lines: list[str], tokenizer: Tokenizer, sizes: dict[tuple[str, str], int], **facts: Any
) -> PreparedData:
    """Data whose validation pairs are these lines and themselves, so many in each direction."""
    ids = Ragged.of(tokenizer.encode(lines))
    pairs, known = ParallelDataset(ids, ids), make_facts(tokenizer, *sizes, **facts)
    return PreparedData(pairs, pairs, lines, lines, known, {}, "", "", [], [*sizes.values()])


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
            history=["tmodel_step_00000001-0.pt"],
        ),
        facts=make_facts(TOKENIZER),
        log_offset=LogOffset(7, "ab"),
        environment={"world_size": 1},
    )
    return replace(state, **changes)
