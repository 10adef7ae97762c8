"""Engines: they compute translations and their probabilities, from token ids to token ids."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch

from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.modeling.decoding import decode_n_best, default_max_tokens
from translate_ddp.modeling.inference_weights import fingerprint, ready_to_decode
from translate_ddp.modeling.scoring import token_log_probs
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import NBestConfig, default_micro_batch_tokens

Ids = Sequence[Sequence[int] | np.ndarray]  # of sentences, without start and end markers


def ignore(count: int) -> None:
    """Takes the number of finished sentences and does nothing."""


class Engine(Protocol):
    """A trained model: translations and log-probabilities from token ids to token ids."""

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        ...

    def translate(
        self, sources: Ids, config: NBestConfig, on_done: Callable[[int], None] = ignore
    ) -> list[list[Hypothesis]]:
        """`config.n_best` translations of each source, best first; samples as they were drawn.

        Those of an empty source are empty. `on_done` receives the number of sentences of each
        finished batch.
        """
        ...

    def log_probs(
        self, sources: Ids, targets: Ids, on_done: Callable[[int], None] = ignore
    ) -> list[np.ndarray]:
        """For each pair the log-probability, in nats, of each target token and of the final [EOS].

        Unlike the score of a search, it does not depend on a setting. `on_done` as in `translate`.
        """
        ...


class StoredEngine(Engine, Protocol):
    """An engine whose weights are identified, so that its translations can be continued later."""

    @property
    def fingerprint(self) -> str:
        """A hash of its weights in their precision: another one may give other translations."""
        ...


class TorchEngine:
    """A model with PyTorch, in the precision of its `dtype`. A pass holds up to `max_tokens`."""

    def __init__(self, model: Transformer, device: torch.device, max_tokens: int = 0) -> None:
        self.model = ready_to_decode(model).eval()
        self.device = device
        self.max_tokens = max_tokens or default_max_tokens(device)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.model)

    def translate(
        self, sources: Ids, config: NBestConfig, on_done: Callable[[int], None] = ignore
    ) -> list[list[Hypothesis]]:
        return decode_n_best(
            self.model.start,
            sources,
            self.device,
            config,
            max_tokens=self.max_tokens,
            on_done=on_done,
        )

    def log_probs(
        self, sources: Ids, targets: Ids, on_done: Callable[[int], None] = ignore
    ) -> list[np.ndarray]:
        pairs = ParallelDataset(Ragged.of(sources), Ragged.of(targets))
        # A pass over all positions needs more memory than a search over the same tokens.
        max_tokens = min(self.max_tokens, default_micro_batch_tokens(self.device.type))
        return token_log_probs(self.model, pairs, self.device, max_tokens, on_done)
