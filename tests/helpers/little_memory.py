"""A GPU's small memory, imitated on a CPU."""

import os

import torch

from tests.helpers import processes
from translate_ddp.data.batches import Batch
from translate_ddp.modeling.loss import Objective
from translate_ddp.training.trainer import Trainer


def limit_memory(positions: int, full_tokens: int) -> None:
    """From here on rank 1 has memory for micro-batches of so many source positions."""
    fit, forward = Trainer.fit, Objective.forward

    def forward_in_memory(self: Objective, batch: Batch) -> dict[str, torch.Tensor]:
        if os.environ["RANK"] == "1" and batch.source_BS.numel() > positions:
            raise torch.OutOfMemoryError("injected")
        return forward(self, batch)

    def fit_on_gpu(self: Trainer) -> bool:
        self.loader.full_tokens = full_tokens
        return self._fit_memory() or fit(self)

    Trainer.fit, Objective.forward = fit_on_gpu, forward_in_memory


def train_in_little_memory(flags: list[str], positions: int, full_tokens: int) -> None:
    limit_memory(positions, full_tokens)
    processes.run_train(flags)
