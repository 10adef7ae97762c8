"""Validation BLEU of the snapshots of all contestants: greedy, by one decoder and one scorer."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.machine import default_device
from benchmarks.time_to_quality.clock import list_snapshots
from benchmarks.workbench import Corpus
from translate_ddp.modeling.engine import TorchEngine, ready_to_decode
from translate_ddp.modeling.kernels import choose_dtype
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import GREEDY, ModelConfig
from translate_ddp.training.metrics import score_texts

POSITIONS = "positions_TD"  # name of a table that replaces our sinusoids
Weights = dict[str, Tensor]  # by our names


class OtherPositions(Transformer):
    """Our Transformer with a table of positions."""

    positions_TD: Tensor  # not a buffer, which a cast would round

    def _embed(self, tokens_BT: Tensor, first_position: int = 0) -> Tensor:
        x_BTD = self.embedding(tokens_BT) * math.sqrt(self.d_model)
        last = first_position + tokens_BT.shape[1]
        positions_TD = self.positions_TD[first_position:last].to(x_BTD.device)
        return self.dropout((x_BTD + positions_TD).to(self.dtype))


def score_snapshots(folder: Path, corpus: Corpus) -> list[dict[str, Any]]:
    """Minutes, steps and BLEU of each snapshot, in order."""
    curve = []
    for seconds, steps, path in list_snapshots(folder):
        score = validation_bleu(read_model(path, corpus), corpus)
        curve.append({"minutes": round(seconds / 60, 3), "steps": steps, "bleu": score})
        print(f"{path.parent.name}: {seconds / 60:.1f} minutes, BLEU {score:.2f}", flush=True)
    return curve


def read_model(path: Path, corpus: Corpus) -> Transformer:
    """The model of a snapshot, ready to decode."""
    device = default_device()
    dtype = choose_dtype("auto", device)
    weights = torch.load(path, weights_only=True)
    model = build_model(weights, corpus.config.model, len(corpus.data.tokenizer), dtype)
    return ready_to_decode(model.to(device, dtype)).eval()


def build_model(
    weights: Weights, shape: ModelConfig, vocabulary: int, dtype: torch.dtype
) -> Transformer:
    """Our Transformer with these weights, and with their positions if they hold some."""
    weights = dict(weights)
    positions_TD = weights.pop(POSITIONS, None)
    if positions_TD is None:
        model = Transformer(shape, vocabulary, dtype=dtype)
    else:
        model = OtherPositions(shape, vocabulary, dtype=dtype)
        model.positions_TD = positions_TD
    model.load_state_dict(weights)
    return model


def validation_bleu(model: Transformer, corpus: Corpus) -> float:
    """BLEU of greedy search, as in a validation of train.py."""
    data, device = corpus.data, default_device()
    pairs = data.validation
    sources = [pairs.source[row] for row in range(len(pairs))]
    found = TorchEngine(model, device).translate(sources, GREEDY)
    predictions = data.tokenizer.decode([best.ids for (best,) in found])
    texts = (data.validation_sources, predictions, data.validation_references)
    return score_texts(*texts, corpus.config.corpus.lang_tgt)["BLEU"]
