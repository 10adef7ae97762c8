"""Training steps beside a Pegasus of transformers with the same shape, ids and number of tokens.

The peer is a plain loop with the step of Seq2SeqTrainer, without its bookkeeping between steps and
without `datasets` and `accelerate`. Batches have equal sentence counts, are grouped by the length
of the longer side as `group_by_length` does, and are padded during the measurement; bf16 by
autocast, fused AdamW, gradients clipped at a norm of 1, the library's default attention.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.clock import Clock
from benchmarks.gpu.case import Case, Measurement, Setup, require
from benchmarks.gpu.steps import measure_steps, pace_values, random_data
from benchmarks.machine import peak_mib, reset_peak
from config import parse
from translate_ddp.data.batches import Batch, collate
from translate_ddp.data.dataset import ParallelDataset
from translate_ddp.data.tokenizer import PAD
from translate_ddp.modeling.kernels import choose_dtype

BATCHES_SORTED_TOGETHER = 50  # as in `group_by_length` of transformers
IGNORED = -100  # a label that is padding
PACE = "target tokens/s"


def peer(setup: Setup) -> Iterator[Case]:
    flags = setup.flags("base")
    paces: list[float] = []

    def theirs() -> Measurement:
        require("transformers")
        found = train_peer(setup, flags)
        paces.append(float(found.values[PACE]))
        return found

    def ours() -> Measurement:
        found = measure_steps(setup, flags).values
        values = {name: found[name] for name in (PACE, "step ms", "padding %", "peak GiB")}
        if paces:
            values["x peer"] = float(found[PACE]) / paces[0]
        return Measurement(values)

    # First: ours changes torch's choice of kernels in this process.
    yield Case("transformers Pegasus, plain loop", theirs, 12)
    yield Case("translate_ddp", ours, 8)


def train_peer(setup: Setup, flags: list[str]) -> Measurement:
    """Steps for the time of a window."""
    from benchmarks.trainers.pegasus import build_pegasus

    config, device = parse(flags), torch.device(setup.device)
    torch.manual_seed(0)
    data = random_data(setup, flags).train
    sentences = round(config.batches.batch_tokens / float((data.target.lengths + 1).mean()))
    positions = config.batches.seq_len
    model: Any = build_pegasus(
        config.model, config.tokenizer.vocab_size, positions, use_cache=False
    )
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    reset_peak(device)
    clock = Clock(setup.sizes.window_seconds, device)
    for batch in peer_batches(data, sentences):
        step(model, optimizer, batch, config.loss.label_smoothing)
        target_tokens = len(batch.labels_R)
        real = target_tokens + int((batch.source_BS != PAD).sum())
        clock.count(target_tokens, real, batch.target_BT.numel() + batch.source_BS.numel())
        if clock.is_over:
            break
    result = clock.result()
    attention = str(getattr(model.config, "_attn_implementation", "unknown"))
    raw = {"note": " ".join((__doc__ or "").split()), "attention": attention}
    return Measurement(pace_values(result) | {"peak GiB": peak_mib(device) / 1024}, raw | result)


def peer_batches(data: ParallelDataset, sentences: int) -> Iterator[Batch]:
    """Batches on the CPU, in runs of random sentences sorted from long to short."""
    random = np.random.default_rng(0)
    longest_N = np.maximum(data.source.lengths, data.target.lengths)
    runs = max(1, len(data) // (4 * sentences))
    together = sentences * min(BATCHES_SORTED_TOGETHER, runs)
    while True:
        order = random.permutation(len(data))
        for first in range(0, len(order) - together + 1, together):
            rows = order[first : first + together]
            rows = rows[np.argsort(-longest_N[rows], kind="stable")]
            for start in range(0, together, sentences):
                yield collate(data.take(rows[start : start + sentences]))


def step(model: Any, optimizer: torch.optim.Optimizer, on_host: Batch, smoothing: float) -> None:
    device = model.device
    on_host = on_host.pin_memory() if device.type == "cuda" else on_host
    batch = on_host.to(device)
    labels_N = torch.full_like(batch.target_BT, IGNORED).flatten()
    labels_N[batch.real_R] = batch.labels_R
    bf16 = choose_dtype("auto", device) == torch.bfloat16
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        logits_BTV = model(
            input_ids=batch.source_BS,
            attention_mask=(batch.source_BS != PAD).long(),
            decoder_input_ids=batch.target_BT,
        ).logits
        loss = F.cross_entropy(
            logits_BTV.flatten(0, 1), labels_N, ignore_index=IGNORED, label_smoothing=smoothing
        )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
