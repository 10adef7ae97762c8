"""This project's own search, as `python -m translate_ddp translate` calls it."""

from dataclasses import dataclass
from typing import Literal

import torch

from benchmarks.decoders.task import Decoder, Ids, Task, read_flags, time_decoding
from translate_ddp.modeling.decoding import decode, default_max_tokens
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.cpu_memory import keep_freed_memory


@dataclass(frozen=True)
class Ours(Decoder):
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of weights and layers."""
    batch_tokens: int = 0
    """Source tokens decoded together; 1 is one sentence at a time, 0 the default of the device."""
    sentences: int = 0
    """Only so many of the task's, from the first on; 0 is all."""


def main() -> None:
    asked = read_flags(Ours, __doc__)
    keep_freed_memory()
    task = Task.open(asked.work)
    model = task.trained().model
    model.dtype = torch.bfloat16 if asked.precision == "bf16" else torch.float32
    model = ready_to_decode(model)
    time_decoding(
        asked,
        task.sources[: asked.sentences or None],
        lambda sources: translate(model, sources, asked),
        arrangement=f"1 x {torch.get_num_threads()}",
    )


def translate(model: Transformer, sources: Ids, asked: Ours) -> Ids:
    device = model.embedding.weight.device
    found = decode(
        model.start,
        sources,
        device,
        beam_width=asked.beam_width,
        max_tokens=asked.batch_tokens or default_max_tokens(device),
    )
    return [hypothesis.ids for hypothesis in found]


if __name__ == "__main__":
    main()
