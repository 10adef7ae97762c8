"""translate_ddp's search, called as by `translate-ddp translate`."""

from dataclasses import dataclass
from typing import Literal

import torch

from benchmarks.common import read_settings
from benchmarks.decoders.task import Decoder, Ids, Task, time_decoding
from translate_ddp.modeling.engine import TorchEngine, default_max_tokens, ready_to_decode
from translate_ddp.modeling.kernels import choose_dtype
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.environment import keep_freed_memory


@dataclass(frozen=True)
class Ours(Decoder):
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of weights and layers."""


def main() -> None:
    settings = read_settings(Ours, __doc__)
    keep_freed_memory()
    task = Task.open(settings.work)
    trained = task.trained()
    trained.model.dtype = choose_dtype(settings.precision, trained.device)
    model = ready_to_decode(trained.model)
    tokens = default_max_tokens(trained.device)
    time_decoding(
        settings,
        task.sources,
        lambda sources: translate(model, sources, settings.beam_width, tokens),
        arrangement=f"1 x {torch.get_num_threads()}",
    )


def translate(model: Transformer, sources: Ids, beam_width: int, max_tokens: int) -> Ids:
    device = model.embedding.weight.device
    found = TorchEngine(model, device, max_tokens).translate(sources, NBestConfig(beam_width))
    return [best.ids for (best,) in found]


if __name__ == "__main__":
    main()
