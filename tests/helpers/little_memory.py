"""A GPU's small memory, imitated on a CPU."""

import os

import torch

from tests.helpers import processes
from translate_ddp.data.batches import Batch, BatchLoader
from translate_ddp.modeling.loss import Objective
from translate_ddp.training.step import OptimizerStep


def limit_memory(positions: int, full_tokens: int) -> None:
    """From here on rank 1 has memory for micro-batches of so many source positions."""
    warm_up, forward = OptimizerStep.warm_up, Objective.forward

    def forward_in_memory(self: Objective, batch: Batch) -> dict[str, torch.Tensor]:
        if os.environ["RANK"] == "1" and batch.source_BS.numel() > positions:
            raise torch.OutOfMemoryError("injected")
        return forward(self, batch)

    def warm_up_on_gpu(self: OptimizerStep, loader: BatchLoader) -> None:
        loader.full_tokens = full_tokens
        self.fit_memory(loader)
        warm_up(self, loader)

    OptimizerStep.warm_up, Objective.forward = warm_up_on_gpu, forward_in_memory


def train_in_little_memory(flags: list[str], positions: int, full_tokens: int) -> None:
    limit_memory(positions, full_tokens)
    processes.run_train(flags)
