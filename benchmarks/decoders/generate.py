"""`generate` of transformers, on batches of 64 sentences, as its users call it."""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from benchmarks.decoders.pegasus import to_pegasus
from benchmarks.decoders.task import (
    Decoder,
    Ids,
    Task,
    batches,
    limit_of,
    read_flags,
    time_decoding,
)
from translate_ddp.data.batches import pad
from translate_ddp.data.dataset import Ragged
from translate_ddp.data.tokenizer import EOS, PAD
from translate_ddp.modeling.decoding import LENGTH_REWARD

BATCH_SENTENCES = 64


@dataclass(frozen=True)
class Generate(Decoder):
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of weights and all arithmetic."""
    by_length: bool = False
    """Batch sentences of like length instead of taking them in the order given."""


def main() -> None:
    asked = read_flags(Generate, __doc__)
    task = Task.open(asked.work)
    model = to_pegasus(task.trained(), positions=task.limit + 1)
    if asked.precision == "bf16":
        model.to(torch.bfloat16)
    time_decoding(
        asked,
        task.sources,
        lambda sources: translate(model, sources, asked),
        arrangement=f"1 x {torch.get_num_threads()}",
    )


def translate(model: Any, sources: Ids, asked: Generate) -> Ids:
    rows = list(range(len(sources)))
    if asked.by_length:
        rows.sort(key=lambda row: len(sources[row]), reverse=True)
    outputs: Ids = [[] for _ in sources]
    for batch in batches(rows, BATCH_SENTENCES):
        found = generate(model, [sources[row] for row in batch], asked.beam_width)
        for row, ids in zip(batch, found, strict=True):
            outputs[row] = ids
    return outputs


def generate(model: Any, sources: Ids, beam_width: int) -> Ids:
    source_BS = pad(Ragged.of(sources), last=EOS).to(model.device)
    # Its score divides by length^p, ours by ((5 + length) / 6)^p; its limit is the whole batch's.
    target_BT = model.generate(
        input_ids=source_BS,
        attention_mask=(source_BS != PAD).long(),
        num_beams=beam_width,
        do_sample=False,
        max_new_tokens=limit_of(sources),
        **({"length_penalty": LENGTH_REWARD, "early_stopping": True} if beam_width > 1 else {}),
    )
    return [until_end(ids) for ids in target_BT[:, 1:].tolist()]


def until_end(ids: list[int]) -> list[int]:
    return ids[: ids.index(EOS)] if EOS in ids else ids


if __name__ == "__main__":
    main()
