"""The usual translation tutorial with PyTorch's own layers; nothing is tuned.

Every sentence is padded to the maximum length, a batch is eight sentences in random order, masks
are explicit, and the projection to the vocabulary is computed for all positions.
"""

import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.clock import Clock
from benchmarks.machine import default_device
from benchmarks.trainers.task import Task, read_flags
from translate_ddp.data.dataset import ParallelDataset, load_prepared
from translate_ddp.data.tokenizer import EOS, PAD, SOS

BATCH_SIZE = 8


class PaddedPairs(Dataset[dict[str, Tensor]]):
    """Each pair at full length, with its masks."""

    def __init__(self, pairs: ParallelDataset, seq_len: int) -> None:
        self.pairs, self.seq_len = pairs, seq_len
        self.is_future_TT = torch.ones(seq_len, seq_len, dtype=torch.bool).triu(1)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        source, target = self.pairs[row]
        source_S = self._padded([*source, EOS])
        target_T = self._padded([SOS, *target])
        return {
            "source": source_S,
            "target": target_T,
            "labels": self._padded([*target, EOS]),
            "source_is_padding": source_S == PAD,
            "target_is_padding": target_T == PAD,
        }

    def _padded(self, ids: list[np.int32 | int]) -> Tensor:
        row = torch.tensor(ids, dtype=torch.int64)
        return nn.functional.pad(row, (0, self.seq_len - len(ids)), value=PAD)


class Translator(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        shape = task.model
        self.embedding = nn.Embedding(task.vocabulary, shape.d_model)
        self.register_buffer("positions_TD", positions(task.seq_len, shape.d_model))
        self.dropout = nn.Dropout(shape.dropout)
        self.transformer = nn.Transformer(
            shape.d_model,
            shape.num_heads,
            shape.num_encoder_layers,
            shape.num_decoder_layers,
            shape.d_ff,
            shape.dropout,
            batch_first=True,
        )

    def forward(self, batch: dict[str, Tensor], is_future_TT: Tensor) -> Tensor:
        hidden_BTD = self.transformer(
            self._embed(batch["source"]),
            self._embed(batch["target"]),
            tgt_mask=is_future_TT,
            src_key_padding_mask=batch["source_is_padding"],
            tgt_key_padding_mask=batch["target_is_padding"],
            memory_key_padding_mask=batch["source_is_padding"],
        )
        return hidden_BTD @ self.embedding.weight.T

    def _embed(self, tokens_BT: Tensor) -> Tensor:
        x_BTD = self.embedding(tokens_BT) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x_BTD + self.positions_TD)


def positions(length: int, d_model: int) -> Tensor:
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def main() -> None:
    flags, task = read_flags(__doc__)
    torch.set_num_threads(flags.threads)
    device = default_device()
    pairs = PaddedPairs(load_prepared(Path(task.prepared)).train, task.seq_len)
    loader = DataLoader(pairs, batch_size=BATCH_SIZE, shuffle=True)
    model = Translator(task).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    loss_function = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=task.label_smoothing)
    is_future_TT = pairs.is_future_TT.to(device)
    clock = Clock(flags.seconds)
    while not clock.is_over:
        for cpu_batch in loader:
            batch = {name: tensor.to(device) for name, tensor in cpu_batch.items()}
            logits_BTV = model(batch, is_future_TT)
            loss = loss_function(logits_BTV.flatten(0, 1), batch["labels"].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            source_BS, labels_BT = cpu_batch["source"], cpu_batch["labels"]
            target_tokens = int((labels_BT != PAD).sum())
            real = target_tokens + int((source_BS != PAD).sum())
            clock.count(target_tokens, real, source_BS.numel() + labels_BT.numel())
            if clock.is_over:
                break
    print(json.dumps(clock.result()))


if __name__ == "__main__":
    main()
