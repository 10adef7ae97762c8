"""Small models and batches of random token ids."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from translate_ddp.data.batches import Batch, collate
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.modeling.engine import TorchEngine, ignore
from translate_ddp.modeling.search import Hypothesis, SearchState
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig

VOCABULARY = 40


def small_model(
    dtype: torch.dtype = torch.float32, dropout: float = 0.0, d_model: int = 32, layers: int = 2
) -> Transformer:
    """The same weights at each call."""
    torch.manual_seed(0)
    config = ModelConfig(
        d_model=d_model,
        num_heads=d_model // 16,
        d_ff=2 * d_model,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        dropout=dropout,
    )
    return Transformer(config, VOCABULARY, dtype=dtype)


def random_ids(*shape: int) -> torch.Tensor:
    """Token ids that are not special; the same at each call."""
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))


def small_batch() -> Batch:
    """A batch of three sentences of up to twelve tokens; the same at each call."""
    return collate(random_pairs([5, 9, 12], np.random.default_rng(0)))


def random_pairs(lengths: Sequence[int], random: np.random.Generator) -> ParallelDataset:
    """A pair for each length, which both sides have."""
    sides = (Ragged.of(random.integers(4, VOCABULARY, n) for n in lengths) for _ in range(2))
    return ParallelDataset(*sides)


def decode(
    model: Transformer,
    sources: Sequence[Sequence[int] | np.ndarray],
    *,
    max_tokens: int,
    beam_width: int = 1,
    on_done: Callable[[int], None] = ignore,
    start: Callable[..., SearchState] | None = None,
) -> list[Hypothesis]:
    """The best translation of each source, on the CPU; a width of 1 is greedy.

    `start` replaces the model in the search.
    """
    engine = TorchEngine(model, torch.device("cpu"), max_tokens)
    engine.start = start or engine.start
    return [best for (best,) in engine.translate(sources, NBestConfig(beam_width), on_done)]
