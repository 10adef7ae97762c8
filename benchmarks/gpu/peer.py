"""Training steps beside a Pegasus of transformers with the same shape, ids and number of tokens.

The peer is a plain loop with the step of Seq2SeqTrainer, without its bookkeeping between steps and
without `datasets` and `accelerate`. Batches have equal sentence counts, are grouped by the length
of the longer side as `group_by_length` does, and are padded during the measurement; bf16 by
autocast, fused AdamW, gradients clipped at a norm of 1, the library's default attention.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.common import Values
from benchmarks.gpu.case import Case, Found, Setup, require
from benchmarks.gpu.defaults import torch_defaults
from benchmarks.gpu.pairs import draw_pairs
from benchmarks.gpu.steps import measure_steps, peak_memory
from benchmarks.gpu.training import STEP_TOKENS
from benchmarks.machine import wait_for
from config import Config, parse
from translate_ddp.data.batches import Batch, collate
from translate_ddp.data.dataset import ParallelDataset
from translate_ddp.data.tokenizer import PAD
from translate_ddp.modeling.precision import choose_dtype

UNTIMED_STEPS = 5
BATCHES_SORTED_TOGETHER = 50  # as in `group_by_length` of transformers
IGNORED = -100  # a label that is padding
PACE = "target tokens/s"


def peer(setup: Setup) -> Iterator[Case]:
    flags = setup.flags("base", STEP_TOKENS)
    paces: dict[str, float] = {}

    def ours() -> Found:
        found = measure_steps(setup, flags)
        paces["ours"] = float(found.values[PACE])
        keep = (PACE, "step ms", "padding %", *peak_memory(torch.device(setup.device)))
        return Found({name: found.values[name] for name in keep}, {"steps": found.raw})

    def theirs() -> Found:
        require("transformers")
        with torch_defaults():
            found = Peer.build(setup, parse(flags)).measure(setup.sizes.window_seconds)
        if "ours" in paces:
            found.values["ours / peer"] = paces["ours"] / float(found.values[PACE])
        return found

    yield Case("translate_ddp", ours, 8)
    yield Case("transformers Pegasus, plain loop", theirs, 12)


@dataclass
class Peer:
    """A Pegasus and everything for its training."""

    model: Any
    optimizer: torch.optim.Optimizer
    data: ParallelDataset
    sentences: int  # of a batch
    label_smoothing: float
    device: torch.device

    @classmethod
    def build(cls, setup: Setup, config: Config) -> "Peer":
        from benchmarks.trainers.pegasus import build_pegasus

        torch.manual_seed(0)
        data = draw_pairs(setup.sizes.pairs, setup.sizes.vocabulary).train
        mean_target = float((data.target.lengths + 1).mean())
        shape, length = config.model, config.batches.seq_len
        model: Any = build_pegasus(
            shape, setup.sizes.vocabulary, length, dropout=shape.dropout, use_cache=False
        )
        model.to(setup.device).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
        sentences = round(config.batches.batch_tokens / mean_target)
        device = torch.device(setup.device)
        return cls(model, optimizer, data, sentences, config.loss.label_smoothing, device)

    def measure(self, seconds: float) -> Found:
        """Steps for so many seconds; waits for the device once, at the end."""
        batches = self.batches()
        for _ in range(UNTIMED_STEPS):
            self.step(next(batches))
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        tokens = positions = real = steps = 0
        wait_for(self.device)
        begin = time.perf_counter()
        while not steps or time.perf_counter() - begin < seconds:
            batch = next(batches)
            self.step(batch)
            steps += 1
            tokens += len(batch.labels_R)
            real += len(batch.labels_R) + int((batch.source_BS != PAD).sum())
            positions += batch.target_BT.numel() + batch.source_BS.numel()
        wait_for(self.device)
        took = time.perf_counter() - begin
        values: Values = {PACE: tokens / took, "step ms": 1e3 * took / steps}
        values |= {"padding %": 100 * (1 - real / positions)} | peak_memory(self.device)
        raw = {
            "steps": steps,
            "seconds": took,
            "target_tokens": tokens,
            "note": " ".join((__doc__ or "").split()),
        }
        attention = getattr(self.model.config, "_attn_implementation", "unknown")
        return Found(values, raw | {"attention": str(attention)})

    def batches(self) -> Iterator[Batch]:
        """Batches on the CPU, in runs of random sentences sorted from long to short."""
        random = np.random.default_rng(0)
        longest_N = np.maximum(self.data.source.lengths, self.data.target.lengths)
        together = self.sentences * min(
            BATCHES_SORTED_TOGETHER, max(1, len(self.data) // (4 * self.sentences))
        )
        while True:
            order = random.permutation(len(self.data))
            for first in range(0, len(order) - together + 1, together):
                rows = order[first : first + together]
                rows = rows[np.argsort(-longest_N[rows], kind="stable")]
                for start in range(0, together, self.sentences):
                    yield collate(self.data.take(rows[start : start + self.sentences]))

    def step(self, on_host: Batch) -> None:
        on_host = on_host.pin_memory() if self.device.type == "cuda" else on_host
        batch = on_host.to(self.device)
        labels_N = torch.full_like(batch.target_BT, IGNORED).flatten()
        labels_N[batch.real_R] = batch.labels_R
        bf16 = choose_dtype("auto", self.device) == torch.bfloat16
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            logits_BTV = self.model(
                input_ids=batch.source_BS,
                attention_mask=(batch.source_BS != PAD).long(),
                decoder_input_ids=batch.target_BT,
            ).logits
            loss = F.cross_entropy(
                logits_BTV.flatten(0, 1),
                labels_N,
                ignore_index=IGNORED,
                label_smoothing=self.label_smoothing,
            )
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
