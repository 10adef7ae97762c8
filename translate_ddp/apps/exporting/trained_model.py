"""A checkpoint as what an export needs of it: weights, sizes, tokenizer, languages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import UserError, first_line
from translate_ddp.modeling.decoding import length_limit
from translate_ddp.modeling.engine import TorchEngine
from translate_ddp.settings import ModelConfig
from translate_ddp.text import direction_tag
from translate_ddp.training.saved_model import saved_model
from translate_ddp.training.state import RunState

# CTranslate2 truncates its sources to 1,024 tokens unless asked for more.
MIN_POSITIONS = 1025


@dataclass(frozen=True)
class TrainedModel:
    state: RunState
    tokenizer: Tokenizer
    shape: ModelConfig

    @classmethod
    def of(cls, state: RunState) -> "TrainedModel":
        """Raises UserError if the parts of the checkpoint do not fit each other."""
        try:
            tokenizer = Tokenizer(state.tokenizer)
            model = cls(state, tokenizer, ModelConfig(**state.run.config["model"]))
            saved_model(state, len(tokenizer))
            return model
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"The model does not fit its settings: {first_line(error)}") from error

    def engine(self, weights: Mapping[str, Tensor] | None = None) -> TorchEngine:
        """The model in fp32 on the CPU, or the same with other weights."""
        state = replace(self.state, model=dict(weights)) if weights else self.state
        return TorchEngine(saved_model(state, len(self.tokenizer)), torch.device("cpu"))

    @property
    def config(self) -> dict[str, dict[str, Any]]:
        return self.state.run.config

    @property
    def languages(self) -> tuple[str, str]:
        return self.config["corpus"]["lang_src"], self.config["corpus"]["lang_tgt"]

    @property
    def is_bidirectional(self) -> bool:
        return self.config["corpus"]["bidirectional"]

    @property
    def tags(self) -> list[str]:
        """What other programs put before a source, for each direction; none if there is one."""
        targets = reversed(self.languages) if self.is_bidirectional else ()
        return [direction_tag(target, is_bidirectional=True) for target in targets]

    @property
    def seq_len(self) -> int:
        """Maximum tokens of a sentence in training, [EOS] included."""
        return self.config["batches"]["seq_len"]

    @property
    def longest_source(self) -> int:
        return self.state.longest_source

    @property
    def positions(self) -> int:
        """Maximum tokens of a side in formats that store a table of positions."""
        return max(MIN_POSITIONS, length_limit(self.seq_len) + 1)

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.state.model.values())

    @property
    def data(self) -> str:
        """The start of the fingerprint of the training data; "" if it is not known."""
        return self.state.run.identity.data_fingerprints[0]
