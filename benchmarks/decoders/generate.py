"""`generate` of transformers on batches of 64 sentences, its usual call."""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from benchmarks.common import read_settings
from benchmarks.decoders.task import Decoder, Ids, Task, in_batches, limit_of, time_decoding
from benchmarks.trainers.pegasus import to_pegasus
from translate_ddp.data.batches import pad
from translate_ddp.data.dataset import Ragged
from translate_ddp.data.tokenizer import EOS, PAD
from translate_ddp.modeling.search_options import SearchConfig

BATCH_SENTENCES = 64


@dataclass(frozen=True)
class Generate(Decoder):
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of weights and all arithmetic."""
    order: Literal["given", "length"] = "given"
    """Batches are cut from the sentences as given, or sorted by length."""


def main() -> None:
    settings = read_settings(Generate, __doc__)
    task = Task.open(settings.work)
    model = to_pegasus(task.trained(), positions=task.limit + 1)
    if settings.precision == "bf16":
        model.to(torch.bfloat16)

    time_decoding(
        settings,
        task.sources,
        in_batches(
            lambda batch: generate(model, batch, settings.beam_width),
            BATCH_SENTENCES,
            by_length=settings.order == "length",
        ),
        arrangement=f"1 x {torch.get_num_threads()}",
    )


def generate(model: Any, sources: Ids, beam_width: int) -> Ids:
    source_BS = pad(Ragged.of(sources), last=EOS).to(model.device)
    penalty = SearchConfig.length_penalty
    # A batch has one limit.
    target_BT = model.generate(
        input_ids=source_BS,
        attention_mask=(source_BS != PAD).long(),
        num_beams=beam_width,
        do_sample=False,
        max_new_tokens=limit_of(sources),
        **({"length_penalty": penalty, "early_stopping": True} if beam_width > 1 else {}),
    )
    return [ids[: [*ids, EOS].index(EOS)] for ids in target_BT[:, 1:].tolist()]


if __name__ == "__main__":
    main()
